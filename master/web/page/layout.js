// Where everything stands: groups as boxes in boxes, nodes as tiles, wires from tile to tile.
// Pure; lengths are in units of the map, of which one is a pixel at scale 1.

import { isGroup } from "./picture.js";

export const TILE = { width: 148, height: 58 };
/** Between the tiles of a group, so that wires can be seen. */
const WIRES = 40;
const ROWS = 14;
const PADDING = 10;
/** The least height of the head of a box, in which its name stands. */
const HEAD = 26;
/** Of the height of what is in a box, at most so much, so that a large one is named sooner. */
const HEAD_SHARE = 0.12;
const HEAD_MOST = 52;
/**
 * The head of a root is so high once all is on the screen, that its name can be read; of one that is
 * narrower than a name there, once it is as wide as one.
 */
const READ_PX = 13;
const NAME_PX = 40;
const HIGHEST_SHARE = 0.65;
/** Higher heads make the scale smaller, and heads higher again: so many times. */
const ROUNDS = 3;
/** Around the whole when all of it is on the screen, in pixels. */
export const MARGIN_PX = 14;
const GAP = 16;
const PROPORTION = 1.7;
/** So many lengths of rows are tried. */
const TRIED = 100;

/**
 * @typedef {object} Tile
 * @property {number} x
 * @property {number} y
 * @property {Api.Node} node
 */

/**
 * @typedef {object} Box
 * @property {number} x
 * @property {number} y
 * @property {number} width
 * @property {number} height
 * @property {number} head the height of its head
 * @property {number} depth 0 for a root
 * @property {Api.Group | null} group null for the box of the nodes in no group
 */

/**
 * @typedef {object} Strand one wire as it is drawn
 * @property {Api.Wire} wire
 * @property {number} x1
 * @property {number} y1
 * @property {number} x2
 * @property {number} y2
 * @property {number} bow how far its middle leaves the straight line
 */

/**
 * @typedef {object} Plan
 * @property {Box[]} boxes parents before children
 * @property {Tile[]} tiles
 * @property {Map<string, Tile>} by_name
 * @property {Map<string, Box>} by_path
 * @property {Strand[]} strands
 * @property {Strand[]} planned wires of the plan that are not there
 * @property {Set<string>} wrong ends of wires that are not as planned, `node/slot`
 * @property {string} tail with which the names of all nodes end, such as their domain
 * @property {number} width
 * @property {number} height
 */

/** @typedef {{width: number, height: number, place: (x: number, y: number) => void}} Piece */

/**
 * The plan of a picture. O(nodes and wires).
 * @param {import("./picture.js").Picture} picture
 * @param {{width: number, height: number}} screen in pixels, on which all of it is to be shown
 * @returns {Plan}
 */
export function planOf(picture, screen) {
  /** @type {Plan} */
  const plan = {
    boxes: [],
    tiles: [],
    by_name: new Map(),
    by_path: new Map(),
    strands: [],
    planned: [],
    wrong: picture.cables.wrong,
    tail: tailOf([...picture.nodes.keys()]),
    width: 0,
    height: 0,
  };
  const { groups, unplaced } = picture.document;
  const proportion = Math.max(0.4, screen.width / Math.max(1, screen.height));
  const is_alone = groups.length === 1 && unplaced.length === 0;
  const shape = is_alone ? proportion : PROPORTION;
  /** @type {[Api.Group | null, Piece][]} */
  const roots = groups.map((group) => [group, innerPiece(plan, group, 0, shape)]);
  if (unplaced.length > 0) roots.push([null, tilePieces(plan, unplaced, PROPORTION)]);
  /** @param {number} scale in pixels per unit, at which names are to be read */
  const withHeads = (scale) => {
    const pieces = roots.map(([group, inner]) => {
      const high = READ_PX / Math.max(scale, NAME_PX / inner.width);
      const head = Math.max(HEAD, Math.min(high, HIGHEST_SHARE * inner.height));
      return boxPiece(plan, inner, { group, depth: 0, head });
    });
    return packed(pieces, proportion, 2 * GAP, 2 * GAP);
  };
  let all = withHeads(Infinity);
  for (let round = 0; round < ROUNDS; round += 1) all = withHeads(scaleOf(all, screen));
  plan.width = all.width;
  plan.height = all.height;
  all.place(0, 0);
  /** @type {Map<string, number>} */
  const beside = new Map();
  plan.strands = strandsOf(plan, picture.document.wires, beside);
  plan.planned = strandsOf(plan, picture.cables.planned, beside);
  return plan;
}

/**
 * The end that all names share, from a dot or a dash on; empty where there is none.
 * @param {string[]} names
 */
export function tailOf(names) {
  let tail = names[0] ?? "";
  for (const name of names) {
    while (!name.endsWith(tail)) tail = tail.slice(1);
  }
  const from = tail.search(/[.-]/);
  return from < 0 || names.length < 2 ? "" : tail.slice(from);
}

/**
 * The pixels per unit at which something fills a screen.
 * @param {{width: number, height: number}} whole
 * @param {{width: number, height: number}} screen in pixels
 * @param {number} margin in pixels
 */
export function scaleOf(whole, screen, margin = MARGIN_PX) {
  const wide = (screen.width - 2 * margin) / Math.max(1, whole.width);
  const high = (screen.height - 2 * margin) / Math.max(1, whole.height);
  return Math.max(0.005, Math.min(wide, high));
}

/** @param {Piece} inner */
function headOf(inner) {
  return Math.max(HEAD, Math.min(HEAD_MOST, HEAD_SHARE * inner.height));
}

/**
 * What is in a group: its groups, each in its box, and its nodes.
 * @param {Plan} plan
 * @param {Api.Group} group
 * @param {number} depth
 * @param {number} proportion width over height that it should have about
 * @returns {Piece}
 */
function innerPiece(plan, group, depth, proportion) {
  const groups = group.child.filter(isGroup);
  const nodes = /** @type {Api.Node[]} */ (group.child.filter((child) => !isGroup(child)));
  const below = groups.map((child) => {
    const inner = innerPiece(plan, child, depth + 1, PROPORTION);
    return boxPiece(plan, inner, { group: child, depth: depth + 1, head: headOf(inner) });
  });
  if (below.length === 0) return tilePieces(plan, nodes, proportion);
  const pieces = nodes.length > 0 ? [tilePieces(plan, nodes, PROPORTION), ...below] : below;
  return packed(pieces, proportion, GAP, GAP);
}

/**
 * @param {Plan} plan
 * @param {Api.Node[]} nodes
 * @param {number} proportion width over height that they should have about
 * @returns {Piece}
 */
function tilePieces(plan, nodes, proportion) {
  const pieces = nodes.map((node) => ({
    ...TILE,
    /** @type {(x: number, y: number) => void} */
    place: (x, y) => {
      const tile = { x, y, node };
      plan.tiles.push(tile);
      plan.by_name.set(node.name, tile);
    },
  }));
  return packed(pieces, nodes.length === 2 ? 10 : proportion, WIRES, ROWS);
}

/**
 * A frame with a head around a piece.
 * @param {Plan} plan
 * @param {Piece} inner
 * @param {Pick<Box, "group" | "depth" | "head">} of
 * @returns {Piece}
 */
function boxPiece(plan, inner, { group, depth, head }) {
  const width = Math.max(inner.width, TILE.width) + 2 * PADDING;
  const height = inner.height + head + PADDING;
  return {
    width,
    height,
    place: (x, y) => {
      const box = { x, y, width, height, head, depth, group };
      plan.boxes.push(box);
      if (group !== null) plan.by_path.set(group.path.join("/"), box);
      inner.place(x + PADDING, y + head);
    },
  };
}

/**
 * Pieces in rows, in their order, in the length of rows that comes nearest to a proportion.
 * @param {Piece[]} pieces
 * @param {number} proportion
 * @param {number} between columns
 * @param {number} below rows
 * @returns {Piece}
 */
function packed(pieces, proportion, between, below) {
  const gaps = { between, below };
  let best = { limit: 0, width: 0, height: 0 };
  let least = Infinity;
  for (const limit of limitsOf(pieces, between)) {
    const { width, height } = rows(pieces, limit, gaps);
    const size = Math.max(width / proportion, height);
    if (size < least - 0.5) [least, best] = [size, { limit, width, height }];
  }
  const { limit, width, height } = best;
  return {
    width,
    height,
    place: (left, top) => {
      rows(pieces, limit, gaps, (piece, x, y) => piece.place(left + x, top + y));
    },
  };
}

/**
 * The lengths that a row may have: of the first piece, of the first two, ….
 * @param {Piece[]} pieces
 * @param {number} between
 */
function limitsOf(pieces, between) {
  /** @type {number[]} */
  const limits = [];
  const step = Math.max(1, Math.floor(pieces.length / TRIED));
  let length = -between;
  pieces.forEach((piece, at) => {
    length += piece.width + between;
    if ((at + 1) % step === 0 || at === pieces.length - 1) limits.push(length);
  });
  return limits;
}

/**
 * The size of pieces in rows. Many lengths are tried, so nothing is made but for who asks where.
 * @param {Piece[]} pieces
 * @param {number} limit of the length of a row that has more than one
 * @param {{between: number, below: number}} gaps
 * @param {(piece: Piece, x: number, y: number) => void} [stands] is told where each piece stands
 */
function rows(pieces, limit, { between, below }, stands) {
  let width = 0;
  let x = 0;
  let y = 0;
  let row = 0;
  for (const piece of pieces) {
    if (x > 0 && x + piece.width > limit + 0.5) {
      y += row + below;
      x = 0;
      row = 0;
    }
    if (stands !== undefined) stands(piece, x, y);
    row = Math.max(row, piece.height);
    x += piece.width + between;
    width = Math.max(width, x - between);
  }
  return { width, height: y + row };
}

/**
 * @param {Plan} plan
 * @param {Api.Wire[]} wires
 * @param {Map<string, number>} beside by pair of nodes how many lie there already
 * @returns {Strand[]}
 */
function strandsOf(plan, wires, beside) {
  /** @type {Strand[]} */
  const strands = [];
  for (const wire of wires) {
    const from = plan.by_name.get(wire.node);
    if (from === undefined) continue;
    const to = wire.peer === null ? undefined : plan.by_name.get(wire.peer);
    const pair = [wire.node, wire.peer ?? ""].sort().join("\n");
    const nth = beside.get(pair) ?? 0;
    beside.set(pair, nth + 1);
    strands.push(to === undefined ? stub(wire, from, nth) : strand(wire, from, to, nth));
  }
  return strands;
}

/**
 * A wire whose other end nobody states: a short way out of the tile.
 * @param {Api.Wire} wire
 * @param {Tile} from
 * @param {number} nth
 * @returns {Strand}
 */
function stub(wire, from, nth) {
  const x1 = from.x + 20 + 16 * nth;
  const y1 = from.y + TILE.height;
  return { wire, x1, y1, x2: x1, y2: y1 + ROWS - 3, bow: 0 };
}

/**
 * From edge to edge of two tiles; those between the same two tiles lie beside each other.
 * @param {Api.Wire} wire
 * @param {Tile} from
 * @param {Tile} to
 * @param {number} nth
 * @returns {Strand}
 */
function strand(wire, from, to, nth) {
  const aside = (nth % 2 === 0 ? 1 : -1) * Math.ceil(nth / 2) * 13;
  const across = to.x - from.x;
  const down = to.y - from.y;
  if (Math.abs(down) < TILE.height / 2) {
    const [left, right] = across >= 0 ? [from, to] : [to, from];
    const y = from.y + TILE.height / 2 + aside;
    const ends = { x1: left.x + TILE.width, y1: y, x2: right.x, y2: to.y - from.y + y };
    const passes = right.x - left.x - TILE.width > WIRES + 1;
    const turned = across >= 0 ? ends : { x1: ends.x2, y1: y, x2: ends.x1, y2: ends.y2 };
    return { wire, ...turned, bow: passes ? -(TILE.height * 0.75) - 6 * nth : 0 };
  }
  if (Math.abs(across) < TILE.width / 2) {
    const x = from.x + TILE.width / 2 + aside * 2;
    const y1 = down > 0 ? from.y + TILE.height : from.y;
    const y2 = down > 0 ? to.y : to.y + TILE.height;
    const passes = Math.abs(y2 - y1) > ROWS + 1;
    return { wire, x1: x, y1, x2: x, y2, bow: passes ? TILE.width * 0.6 + 6 * nth : 0 };
  }
  const x1 = across > 0 ? from.x + TILE.width : from.x;
  const x2 = across > 0 ? to.x : to.x + TILE.width;
  const y1 = from.y + TILE.height / 2 + aside;
  const y2 = to.y + TILE.height / 2 + aside;
  return { wire, x1, y1, x2, y2, bow: 0 };
}

/**
 * The middle of a strand as it is drawn.
 * @param {Strand} strand
 */
export function middle(strand) {
  const { x1, y1, x2, y2 } = strand;
  const flat = Math.abs(y2 - y1) < Math.abs(x2 - x1);
  const half = strand.bow / 2;
  return { x: (x1 + x2) / 2 + (flat ? 0 : half), y: (y1 + y2) / 2 + (flat ? half : 0) };
}

/**
 * What is at a point: a wire that is not up, else a tile, else the innermost box, else null.
 * @param {Plan} plan
 * @param {number} x
 * @param {number} y
 * @param {number} near how far from a wire still counts
 * @returns {{tile: Tile} | {box: Box} | {strand: Strand} | null}
 */
export function at(plan, x, y, near) {
  let best = near;
  let found = null;
  for (const each of plan.strands) {
    if (each.bow !== 0 && each.wire.state === "up") continue;
    const far = distance(each, x, y);
    if (far < best) [best, found] = [far, each];
  }
  const tile = plan.tiles.find(
    (each) => x >= each.x && y >= each.y && x < each.x + TILE.width && y < each.y + TILE.height,
  );
  if (tile !== undefined) return { tile };
  if (found !== null) return { strand: found };
  const boxes = plan.boxes.filter(
    (box) => x >= box.x && y >= box.y && x < box.x + box.width && y < box.y + box.height,
  );
  const box = boxes.at(-1);
  return box === undefined ? null : { box };
}

/**
 * @param {Strand} strand
 * @param {number} x
 * @param {number} y
 */
function distance(strand, x, y) {
  const { x1, y1, x2, y2 } = strand;
  const along = (x2 - x1) ** 2 + (y2 - y1) ** 2;
  const share = along === 0 ? 0 : ((x - x1) * (x2 - x1) + (y - y1) * (y2 - y1)) / along;
  const part = Math.min(1, Math.max(0, share));
  return Math.hypot(x - x1 - part * (x2 - x1), y - y1 - part * (y2 - y1));
}

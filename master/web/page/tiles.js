// The nodes: a tile each, with its name and its GPUs.

import { STATES, countsOf, drawCells } from "./cells.js";
import { TILE } from "./layout.js";
import { fitted, rounded } from "./pen.js";

/** @typedef {import("./pen.js").Pen} Pen */

/** Widths of a tile in pixels from which its name, and its GPUs, are drawn. */
const NAMED = 72;
const CELLS = 30;
/** The width of a GPU in pixels from which each is drawn, and not all of a state as one. */
const LEAST_CELL = 4;
/** The scale from which a tile says in a word why it is as it is. */
const NOTED = 0.75;

/**
 * Whether tiles have their names at a scale.
 * @param {number} scale in pixels per unit
 */
export function isNamed(scale) {
  return TILE.width * scale >= NAMED;
}

/** @param {Pen} pen */
export function drawTiles(pen) {
  /** @type {import("./layout.js").Tile[]} */
  const broken = [];
  const shown = pen.plan.tiles.filter((tile) => pen.shows(tile, TILE.width, TILE.height));
  if (pen.tile_width < CELLS) drawBlocks(pen, shown);
  for (const tile of shown) {
    if (pen.tile_width >= CELLS) drawTile(pen, tile);
    if (tile.node.status !== "Ready") broken.push(tile);
  }
  const size = Math.max(7, Math.min(13, pen.tile_height * 0.5));
  if (pen.tile_width >= NAMED) return;
  for (const tile of broken) {
    const x = pen.sx(tile.x) + pen.tile_width / 2;
    const y = pen.sy(tile.y) + pen.tile_height / 2;
    pen.sign(x, y, size, "cross");
  }
}

/**
 * Many small tiles: each a bar of its GPUs, and all of a state at once.
 * @param {Pen} pen
 * @param {import("./layout.js").Tile[]} tiles
 */
function drawBlocks(pen, tiles) {
  const w = Math.max(1, Math.round(pen.tile_width));
  const h = Math.max(1, Math.round(pen.tile_height));
  /** @type {Record<import("./cells.js").State, import("./cells.js").Cell[]>} */
  const cells = { used: [], held: [], free: [], out: [] };
  for (const tile of tiles) {
    const at = { x: Math.round(pen.sx(tile.x)), y: Math.round(pen.sy(tile.y)), w, h };
    if (tile.node.status === "Ready" && tile.node.gpus > 0) addCells(cells, tile.node, at);
    else drawBare(pen, tile.node, at);
  }
  for (const state of STATES) drawCells(pen, state, cells[state], "tile");
}

/**
 * A node that is not ready, or of whose GPUs nothing is told.
 * @param {Pen} pen
 * @param {Api.Node} node
 * @param {import("./cells.js").Cell} tile on the screen
 */
function drawBare({ ctx, look }, { status }, { x, y, w, h }) {
  const is_ready = status === "Ready";
  ctx.fillStyle = look[is_ready ? "line" : "badsoft"] ?? "";
  ctx.fillRect(x, y, w, h);
  ctx.fillStyle = look["tile"] ?? "";
  if (is_ready) ctx.fillRect(x + 1, y + 1, w - 2, h - 2);
}

/**
 * The GPUs of a node as a bar for each state.
 * @param {Record<import("./cells.js").State, import("./cells.js").Cell[]>} cells
 * @param {Api.Node} node
 * @param {import("./cells.js").Cell} tile on the screen
 */
function addCells(cells, node, { x, y, w, h }) {
  const counts = countsOf(node);
  let left = x;
  for (const state of STATES) {
    if (counts[state] === 0) continue;
    const wide = (w * counts[state]) / node.gpus;
    cells[state].push({ x: left, y, w: wide, h });
    left += wide;
  }
}

/**
 * @param {Pen} pen
 * @param {import("./layout.js").Tile} tile
 */
function drawTile(pen, { x, y, node }) {
  const { ctx } = pen;
  const { scale } = pen.camera;
  const [left, top] = [Math.round(pen.sx(x)), Math.round(pen.sy(y))];
  const [w, h] = [Math.round(pen.tile_width), Math.round(pen.tile_height)];
  const broken = node.status !== "Ready";
  ctx.fillStyle = pen.colour(broken ? "badsoft" : "tile");
  rounded(ctx, left, top, w, h, Math.min(5, 5 * scale));
  ctx.fill();
  ctx.lineWidth = broken ? 2 : 1;
  ctx.strokeStyle = pen.colour(broken ? "bad" : "line");
  ctx.setLineDash(!broken && isUnknown(node) ? [3, 3] : []);
  ctx.stroke();
  ctx.setLineDash([]);
  const named = w >= NAMED;
  const inside = { left: left + 8 * scale, width: w - 16 * scale };
  if (named) drawName(pen, node, inside, top, broken);
  const noted = named && scale >= NOTED && noteOf(node) !== "";
  const from = noted ? 26 : named ? 30 : 14;
  drawStrip(pen, node, inside, top + from * scale, (named ? 16 : 30) * scale);
}

/**
 * @param {Pen} pen
 * @param {Api.Node} node
 * @param {{left: number, width: number}} inside
 * @param {number} top
 * @param {boolean} broken
 */
function drawName(pen, node, { left, width }, top, broken) {
  const { ctx } = pen;
  const { scale } = pen.camera;
  const size = Math.min(14, Math.max(9, 12 * scale));
  const base = top + 18 * scale;
  let from = left;
  if (broken) {
    pen.sign(left + size * 0.4, base - size * 0.36, size * 0.72, "cross");
    from += size + 3;
  }
  ctx.textAlign = "left";
  ctx.font = `${broken ? 700 : 500} ${size}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour(broken ? "bad" : "ink");
  ctx.fillText(fitted(ctx, node.name, left + width - from, pen.plan.tail), from, base);
  const note = noteOf(node);
  if (note === "" || scale < NOTED) return;
  ctx.font = `${size * 0.8}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour(broken ? "bad" : "quiet");
  ctx.fillText(fitted(ctx, note, width), left, top + 53 * scale);
}

/**
 * The GPUs of a node, a cell each where there is room: used, held, free, and what nobody gets.
 * @param {Pen} pen
 * @param {Api.Node} node
 * @param {{left: number, width: number}} inside
 * @param {number} top
 * @param {number} height
 */
function drawStrip(pen, node, { left, width }, top, height) {
  const count = node.gpus;
  if (count === 0) return;
  const gap = width / count > 7 ? Math.max(1, 3 * Math.min(1, pen.camera.scale)) : 0;
  const cell = Math.min((width + gap) / count - gap, height * 1.1);
  const counts = countsOf(node);
  const ground = node.status === "Ready" ? "tile" : "badsoft";
  let x = left;
  for (const state of STATES) {
    const number = counts[state];
    const wide = number * (cell + gap);
    const one = [{ x, y: top, w: wide, h: height }];
    const each = Array.from({ length: number }, (_, n) => ({
      x: x + n * (cell + gap),
      y: top,
      w: cell,
      h: Math.min(height, cell * 1.1),
    }));
    if (number > 0) drawCells(pen, state, cell < LEAST_CELL ? one : each, ground);
    x += wide;
  }
}

/** @param {Api.Node} node */
function noteOf(node) {
  if (node.status !== "Ready") return (node.reason ?? node.reasons[0])?.code ?? "";
  if (isUnknown(node)) return "?";
  return node.cordoned ? "cordoned" : node.shared ? "shared" : "";
}

/**
 * Whether nobody knows how many GPUs it has. Of the past, how they were used is what is not kept.
 * @param {Api.Node} node
 */
function isUnknown(node) {
  return node.gpus === 0 && !node.is_uncounted;
}

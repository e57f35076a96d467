// What is pointed out on the map: chosen, pointed at, named by a problem; where the groups of pods
// of a plan would stand, and what is assumed of nodes.

import { badgeOf } from "./badges.js";
import { TILE } from "./layout.js";
import { rounded } from "./pen.js";
import { t } from "./strings.js";

/** @typedef {import("./pen.js").Pen} Pen */
/** @typedef {import("./draw.js").Colour} Colour */
/** @typedef {import("./layout.js").Tile} Tile */

/** Widths of a tile in pixels from which a group is a frame with its mark, not the whole tile. */
const FRAMED = 30;
/** So many groups of pods are named at one node; of more there is a sign. */
const NAMED = 3;
/** @type {Map<string, Colour>} */
const COLOURS = new Map([
  ["down", "bad"],
  ["free", "free"],
  ["drain", "warn"],
]);

/** @param {Pen} pen */
export function drawRings(pen) {
  for (const name of pen.marks.lit) drawRing(pen, name, { colour: "focus", thick: 2.5, away: 5 });
  const { pointed, selected } = pen.marks;
  if (pointed) drawRing(pen, pointed, { colour: "quiet", thick: 1.5, away: 2 });
  if (selected) drawRing(pen, selected, { colour: "focus", thick: 3, away: 3 });
}

/**
 * @param {Pen} pen
 * @param {string} name
 * @param {{colour: Colour, thick: number, away: number}} how
 */
function drawRing(pen, name, { colour, thick, away }) {
  const tile = pen.plan.by_name.get(name);
  const box = pen.plan.by_path.get(name);
  const of = tile === undefined ? box : { ...tile, ...TILE };
  if (of === undefined) return;
  const { scale } = pen.camera;
  const { ctx } = pen;
  ctx.lineWidth = thick;
  ctx.strokeStyle = pen.colour(colour);
  const [w, h] = [Math.max(16, of.width * scale), Math.max(16, of.height * scale)];
  const x = pen.sx(of.x) + (of.width * scale - w) / 2 - away;
  const y = pen.sy(of.y) + (of.height * scale - h) / 2 - away;
  rounded(ctx, x, y, w + 2 * away, h + 2 * away, 7);
  ctx.stroke();
}

/**
 * The tiles of these names that are on the screen, each with what is said of it.
 * @template T
 * @param {Pen} pen
 * @param {Map<string, T>} named
 * @returns {Iterable<[Tile, T]>}
 */
function* shown(pen, named) {
  for (const [name, said] of named) {
    const tile = pen.plan.by_name.get(name);
    if (tile !== undefined && pen.shows(tile, TILE.width, TILE.height)) yield [tile, said];
  }
}

/**
 * The nodes of a plan: framed in the colour of their group, with its mark and the number of pods.
 * @param {Pen} pen
 */
export function drawPods(pen) {
  const { ctx } = pen;
  const [w, h] = [Math.max(4, pen.tile_width), Math.max(3, pen.tile_height)];
  for (const [tile, groups] of shown(pen, pen.marks.pods)) {
    const first = groups[0];
    if (first === undefined) continue;
    const [x, y] = [pen.sx(tile.x), pen.sy(tile.y)];
    const colour = pen.colour(badgeOf(first.index).colour);
    if (w < FRAMED) {
      ctx.fillStyle = colour;
      ctx.fillRect(x, y, w, h);
      continue;
    }
    ctx.strokeStyle = colour;
    ctx.lineWidth = 3;
    rounded(ctx, x - 1, y - 1, w + 2, h + 2, 6);
    ctx.stroke();
    drawGroupChips(pen, groups, { right: x + w + 3, y: y - 4 });
  }
}

/**
 * From right to left, so that the name of the node stays to be read.
 * @param {Pen} pen
 * @param {{index: number, pods: number}[]} groups
 * @param {{right: number, y: number}} at
 */
function drawGroupChips(pen, groups, { right, y }) {
  /** @type {{words: string, colour: Colour}[]} */
  const chips = groups.slice(0, NAMED).map(({ index, pods }) => {
    const { mark, colour } = badgeOf(index);
    return { words: pods > 1 ? `${mark} ×${pods}` : mark, colour };
  });
  if (groups.length > NAMED) chips.push({ words: `+${groups.length - NAMED}`, colour: "quiet" });
  let end = right;
  for (const { words, colour } of chips.reverse()) end -= drawChip(pen, words, colour, { end, y });
}

/**
 * A word on a ground of its colour; returns how wide it is.
 * @param {Pen} pen
 * @param {string} words
 * @param {Colour} colour
 * @param {{end: number, y: number}} at its right and its upper edge
 */
function drawChip(pen, words, colour, { end, y }) {
  const { ctx } = pen;
  const size = Math.max(9, Math.min(13, 12 * pen.camera.scale));
  ctx.font = `700 ${size}px system-ui, sans-serif`;
  const width = ctx.measureText(words).width + 8;
  ctx.fillStyle = pen.colour(colour);
  rounded(ctx, end - width, y, width, size + 6, 4);
  ctx.fill();
  ctx.fillStyle = pen.colour("panel");
  ctx.textAlign = "left";
  ctx.fillText(words, end - width + 4, y + size + 1);
  return width + 2;
}

/**
 * The nodes of which something is assumed: hatched, with the word and a question mark.
 * @param {Pen} pen
 */
export function drawAssumed(pen) {
  const { ctx } = pen;
  const [w, h] = [Math.max(4, pen.tile_width), Math.max(3, pen.tile_height)];
  for (const [tile, word] of shown(pen, pen.marks.assumed)) {
    const [x, y] = [pen.sx(tile.x), pen.sy(tile.y)];
    const colour = COLOURS.get(word) ?? "quiet";
    ctx.save();
    ctx.strokeStyle = pen.colour(colour);
    ctx.lineWidth = 1.5;
    ctx.beginPath();
    ctx.rect(x, y, w, h);
    ctx.clip();
    ctx.beginPath();
    for (let from = x - h; from < x + w; from += 9) {
      ctx.moveTo(from, y + h);
      ctx.lineTo(from + h, y);
    }
    ctx.globalAlpha = 0.55;
    ctx.stroke();
    ctx.restore();
    ctx.strokeStyle = pen.colour(colour);
    ctx.lineWidth = 2;
    ctx.setLineDash([4, 3]);
    ctx.strokeRect(x, y, w, h);
    ctx.setLineDash([]);
    if (w < FRAMED) continue;
    const words = `${t(`assume_${word}`)}?`;
    const size = Math.max(9, Math.min(13, 12 * pen.camera.scale));
    drawChip(pen, words, colour, { end: x + w + 3, y: y + h - size - 4 });
  }
}

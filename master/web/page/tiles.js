// The nodes: a tile each, with its name and its GPUs.

import { TILE } from "./layout.js";
import { fitted, rounded } from "./pen.js";
import { stateOf } from "./picture.js";

/** @typedef {import("./pen.js").Pen} Pen */

/** Widths of a tile in pixels from which its name, and its GPUs, are drawn. */
const NAMED = 92;
const CELLS = 30;
/** The scale from which a tile says in a word why it is as it is. */
const NOTED = 0.75;

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
 * Many small tiles: a colour at a time, because to change it costs more than to fill.
 * @param {Pen} pen
 * @param {import("./layout.js").Tile[]} tiles
 */
function drawBlocks(pen, tiles) {
  const { ctx } = pen;
  const w = Math.max(1, pen.tile_width);
  const h = Math.max(1, pen.tile_height);
  ctx.fillStyle = pen.colour("free");
  for (const { x, y, node } of tiles) {
    if (node.status === "Ready" && node.free_gpus > 0) ctx.fillRect(pen.sx(x), pen.sy(y), w, h);
  }
  ctx.fillStyle = pen.colour("out");
  for (const { x, y, node } of tiles) {
    if (node.status === "Ready" && node.free_gpus === 0) {
      ctx.fillRect(pen.sx(x), pen.sy(y), w, h);
    }
  }
  ctx.fillStyle = pen.colour("used");
  for (const { x, y, node } of tiles) {
    if (node.status !== "Ready" || node.used_gpus === 0) continue;
    ctx.fillRect(pen.sx(x), pen.sy(y), (w * node.used_gpus) / Math.max(1, node.gpus), h);
  }
  ctx.fillStyle = pen.colour("held");
  for (const { x, y, node } of tiles) {
    if (node.status !== "Ready" || node.held_gpus === 0) continue;
    const unit = w / Math.max(1, node.gpus);
    ctx.fillRect(pen.sx(x) + unit * node.used_gpus, pen.sy(y), unit * node.held_gpus, h);
  }
  ctx.fillStyle = pen.colour("badsoft");
  for (const { x, y, node } of tiles) {
    if (node.status !== "Ready") ctx.fillRect(pen.sx(x), pen.sy(y), w, h);
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
  const state = stateOf(node);
  ctx.fillStyle = pen.colour(state === "broken" ? "badsoft" : "tile");
  rounded(ctx, left, top, w, h, Math.min(5, 5 * scale));
  ctx.fill();
  ctx.lineWidth = state === "broken" ? 2 : 1;
  ctx.strokeStyle = pen.colour(state === "broken" ? "bad" : "line");
  ctx.setLineDash(state === "unknown" ? [3, 3] : []);
  ctx.stroke();
  ctx.setLineDash([]);
  const named = w >= NAMED;
  const inside = { left: left + 8 * scale, width: w - 16 * scale };
  if (named) drawName(pen, node, inside, top, state === "broken");
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
  ctx.fillText(fitted(ctx, node.name, left + width - from), from, base);
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
  const { ctx } = pen;
  const gap = width / count > 7 ? Math.max(1, 3 * Math.min(1, pen.camera.scale)) : 0;
  const cell = Math.min((width + gap) / count - gap, height * 1.1);
  const gone = count - node.used_gpus - node.held_gpus - node.free_gpus;
  /** @type {[string, number][]} */
  const runs = [
    ["used", node.used_gpus],
    ["held", node.held_gpus],
    ["free", node.free_gpus],
    ["out", gone],
  ];
  ctx.lineWidth = 1.25;
  let at = left;
  for (const [state, number] of runs) {
    if (number <= 0) continue;
    if (cell < 4) {
      const wide = number * (cell + gap);
      ctx.fillStyle = pen.colour(state);
      ctx.fillRect(at, top, wide, height);
      at += wide;
      continue;
    }
    for (let n = 0; n < number; n += 1) {
      drawGpu(pen, state, at, top, cell, Math.min(height, cell * 1.1));
      at += cell + gap;
    }
  }
}

/**
 * @param {Pen} pen
 * @param {string} state
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 */
function drawGpu(pen, state, x, y, w, h) {
  const { ctx } = pen;
  ctx.fillStyle = ctx.strokeStyle = pen.colour(state);
  if (state === "used") {
    ctx.fillRect(x, y, w, h);
    return;
  }
  ctx.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  ctx.beginPath();
  if (state === "held") {
    ctx.moveTo(x, y + h);
    ctx.lineTo(x + w, y + h);
    ctx.lineTo(x + w, y);
    ctx.fill();
  } else if (state === "out") {
    ctx.moveTo(x + 1, y + h - 1);
    ctx.lineTo(x + w - 1, y + 1);
    ctx.stroke();
  }
}

/** @param {Api.Node} node */
function noteOf(node) {
  if (node.status !== "Ready") return (node.reason ?? node.reasons[0])?.code ?? "";
  if (node.gpus === 0) return "?";
  return node.cordoned ? "cordoned" : node.shared ? "shared" : "";
}

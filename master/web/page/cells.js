// GPUs as squares, or as one bar for many: the shapes of the legend at every size. Free is hollow,
// used is solid, held is half, what nobody gets is struck through.

/** @typedef {import("./pen.js").Pen} Pen */
/** @typedef {"used" | "held" | "free" | "out"} State */

/**
 * @typedef {object} Cell
 * @property {number} x
 * @property {number} y
 * @property {number} w
 * @property {number} h
 */

/** The order in which they stand in a node. */
export const STATES = /** @type {const} */ (["used", "held", "free", "out"]);
/** Where there is no room for an outline, it is a part of the colour's strength. */
const LEAST = 3;
const STRENGTH = { used: 1, held: 0.6, free: 0.3, out: 0.3 };

/**
 * How many GPUs of a node are in each state.
 * @param {Api.Node} node
 * @returns {Record<State, number>}
 */
export function countsOf({ gpus, used_gpus: used, held_gpus: held, free_gpus: free }) {
  return { used, held, free, out: Math.max(0, gpus - used - held - free) };
}

/**
 * Cells of one state, because to change a colour costs more than to fill.
 * @param {Pen} pen
 * @param {State} state
 * @param {Cell[]} cells
 */
export function drawCells(pen, state, cells) {
  const { ctx } = pen;
  const thick = Math.min(1.25, Math.max(1, 2.5 * pen.camera.scale));
  const hollow = cells.filter(({ w, h }) => state !== "used" && w >= LEAST && h >= LEAST);
  ctx.fillStyle = ctx.strokeStyle = pen.colour(state);
  ctx.globalAlpha = STRENGTH[state];
  for (const { x, y, w, h } of cells) {
    if (state === "used" || w < LEAST || h < LEAST) ctx.fillRect(x, y, w, h);
  }
  ctx.globalAlpha = 1;
  for (const { x, y, w, h } of hollow) {
    ctx.fillRect(x, y, w, thick);
    ctx.fillRect(x, y + h - thick, w, thick);
    ctx.fillRect(x, y + thick, thick, h - 2 * thick);
    ctx.fillRect(x + w - thick, y + thick, thick, h - 2 * thick);
  }
  if (state === "free" || hollow.length === 0) return;
  ctx.beginPath();
  for (const { x, y, w, h } of hollow) {
    if (state === "held") {
      ctx.moveTo(x, y + h);
      ctx.lineTo(x + w, y + h);
      ctx.lineTo(x + w, y);
    } else {
      ctx.moveTo(x + 1, y + h - 1);
      ctx.lineTo(x + w - 1, y + 1);
    }
  }
  ctx.lineWidth = thick;
  if (state === "held") ctx.fill();
  else ctx.stroke();
}

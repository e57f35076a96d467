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
 * Cells of one state, because to change a colour costs more than to fill. Each begins and ends at
 * a whole pixel, so that its outline is as sharp as in the legend.
 * @param {Pen} pen
 * @param {State} state
 * @param {Cell[]} cells
 * @param {import("./draw.js").Colour} ground the colour that they stand on
 */
export function drawCells(pen, state, cells, ground) {
  if (cells.length === 0) return;
  const { ctx } = pen;
  for (const cell of cells) snap(cell);
  /** @param {Cell} cell */
  const isHollow = ({ w, h }) => state !== "used" && w >= LEAST && h >= LEAST;
  const hollow = cells.filter(isHollow);
  ctx.fillStyle = ctx.strokeStyle = pen.colour(state);
  for (const { x, y, w, h } of hollow) ctx.fillRect(x, y, w, h);
  if (hollow.length < cells.length) {
    ctx.globalAlpha = STRENGTH[state];
    for (const cell of cells) if (!isHollow(cell)) ctx.fillRect(cell.x, cell.y, cell.w, cell.h);
    ctx.globalAlpha = 1;
  }
  ctx.fillStyle = pen.colour(ground);
  for (const { x, y, w, h } of hollow) ctx.fillRect(x + 1, y + 1, w - 2, h - 2);
  ctx.fillStyle = pen.colour(state);
  if (state === "held") fillHalves(ctx, hollow);
  else if (state === "out") strikeThrough(ctx, hollow);
}

/** @param {Cell} cell */
function snap(cell) {
  const { x, y, w, h } = cell;
  cell.x = Math.round(x);
  cell.y = Math.round(y);
  cell.w = Math.round(x + w) - cell.x;
  cell.h = Math.round(y + h) - cell.y;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Cell[]} cells
 */
function fillHalves(ctx, cells) {
  ctx.beginPath();
  for (const { x, y, w, h } of cells) {
    ctx.moveTo(x, y + h);
    ctx.lineTo(x + w, y + h);
    ctx.lineTo(x + w, y);
  }
  ctx.fill();
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {Cell[]} cells
 */
function strikeThrough(ctx, cells) {
  ctx.beginPath();
  for (const { x, y, w, h } of cells) {
    ctx.moveTo(x + 1, y + h - 1);
    ctx.lineTo(x + w - 1, y + 1);
  }
  ctx.lineWidth = 1;
  ctx.stroke();
}

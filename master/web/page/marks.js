// What is pointed out on the map: chosen, pointed at, named by a problem.

import { TILE } from "./layout.js";
import { rounded } from "./pen.js";

/** @typedef {import("./pen.js").Pen} Pen */

/** @param {Pen} pen */
export function drawRings(pen) {
  for (const name of pen.marks.lit) drawRing(pen, name, "focus", 2.5, 5);
  if (pen.marks.pointed) drawRing(pen, pen.marks.pointed, "quiet", 1.5, 2);
  if (pen.marks.selected) drawRing(pen, pen.marks.selected, "focus", 3, 3);
}

/**
 * @param {Pen} pen
 * @param {string} name
 * @param {string} colour
 * @param {number} thick
 * @param {number} away
 */
function drawRing(pen, name, colour, thick, away) {
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

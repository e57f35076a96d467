// The groups: a box each, with its name and what is free in it.

import { fitted, rounded } from "./pen.js";
import { t } from "./strings.js";

/** @typedef {import("./pen.js").Pen} Pen */

const HEAD = 26;
/** Boxes narrower than this, in pixels, have neither a frame nor round corners. */
const SMALL_BOX = 48;

/** @param {Pen} pen */
export function drawBoxes(pen) {
  const { ctx } = pen;
  const { scale } = pen.camera;
  for (const box of pen.plan.boxes) {
    if (box.width * scale < 5 || !pen.shows(box, box.width, box.height)) continue;
    const [x, y] = [Math.round(pen.sx(box.x)), Math.round(pen.sy(box.y))];
    const [w, h] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    const bad = box.group !== null && box.group.status !== "Ready";
    const only_below = bad && box.group?.reasons.every(({ code }) => code === "child-not-ready");
    ctx.fillStyle = pen.colour(box.depth % 2 === 0 ? "box" : "boxhead");
    ctx.lineWidth = bad ? 1.5 : 1;
    ctx.strokeStyle = pen.colour(bad ? "bad" : "line");
    ctx.globalAlpha = only_below ? 0.5 : 1;
    if (w < SMALL_BOX) {
      ctx.fillRect(x, y, w, h);
      if (bad) ctx.strokeRect(x, y, w, h);
      ctx.globalAlpha = 1;
      continue;
    }
    if (box.group === null) ctx.setLineDash([5, 4]);
    rounded(ctx, x, y, w, h, Math.min(8, 8 * scale));
    ctx.globalAlpha = 1;
    ctx.fill();
    ctx.globalAlpha = only_below ? 0.5 : 1;
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    drawHead(pen, box, { x, y, w, bad });
  }
}

/**
 * @param {Pen} pen
 * @param {import("./layout.js").Box} box
 * @param {{x: number, y: number, w: number, bad: boolean}} at
 */
function drawHead(pen, box, { x, y, w, bad }) {
  const high = HEAD * pen.camera.scale;
  if (high < 13 || w < 60) return;
  const { ctx } = pen;
  const size = Math.min(box.depth === 0 ? 15 : 13, high * 0.55);
  const base = y + high * 0.68;
  let left = x + 10 * pen.camera.scale;
  if (bad) {
    pen.sign(left + size / 2, base - size * 0.36, size * 0.8, "triangle");
    left += size + 5;
  }
  ctx.textAlign = "left";
  ctx.font = `600 ${size}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour("ink");
  const { group } = box;
  const room = x + w - left - 8;
  const counts = group === null ? "" : countsOf(group);
  ctx.font = `${size * 0.9}px system-ui, sans-serif`;
  const counted = ctx.measureText(counts).width;
  ctx.font = `600 ${size}px system-ui, sans-serif`;
  const name = group === null ? t("unplaced") : group.name;
  const fits = room - counted - 12 > ctx.measureText(name).width;
  ctx.fillText(fitted(ctx, name, fits ? room - counted - 12 : room), left, base);
  if (!fits || counts === "") return;
  ctx.textAlign = "right";
  ctx.font = `${size * 0.9}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour("quiet");
  ctx.fillText(counts, x + w - 10 * pen.camera.scale, base);
  ctx.textAlign = "left";
}

/** @param {Api.Group} group */
function countsOf(group) {
  const { ready, nodes, free_gpus: free, gpus } = group.capacity;
  return gpus > 0 ? `${ready}/${nodes} · ${free}/${gpus} GPU` : `${ready}/${nodes}`;
}

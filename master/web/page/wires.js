// The wires from node to node, and those that are cut.

import { middle } from "./layout.js";
import { rounded, shortened } from "./pen.js";

/** @typedef {import("./pen.js").Pen} Pen */

/** So many cut wires on the screen are named where they are; more would hide the forest. */
const CALLOUTS = 10;

/** @param {Pen} pen */
export function drawWires(pen) {
  const { scale } = pen.camera;
  if (scale < 0.1) return;
  const { ctx } = pen;
  ctx.lineWidth = Math.max(0.75, Math.min(2.5, 2 * scale));
  ctx.strokeStyle = pen.colour("wire");
  ctx.beginPath();
  for (const strand of pen.plan.strands) {
    if (strand.wire.state === "up" && isNear(pen, strand)) trace(pen, strand);
  }
  ctx.stroke();
  drawPlan(pen);
  ctx.strokeStyle = pen.colour("warn");
  ctx.setLineDash([2, 3]);
  ctx.beginPath();
  for (const strand of pen.plan.strands) {
    if (strand.wire.state === "unconfirmed" && isNear(pen, strand)) trace(pen, strand);
  }
  ctx.stroke();
  ctx.setLineDash([]);
}

/**
 * Where the cables are not as planned: those that are there and should not, over their own lines,
 * and those that should be there, in long dashes.
 * @param {Pen} pen
 */
function drawPlan(pen) {
  const { ctx, plan } = pen;
  if (plan.wrong.size + plan.planned.length === 0) return;
  ctx.strokeStyle = pen.colour("warn");
  ctx.beginPath();
  for (const strand of plan.strands) {
    const { node, slot, state } = strand.wire;
    const is_wrong = state === "up" && plan.wrong.has(`${node}/${slot}`);
    if (is_wrong && isNear(pen, strand)) trace(pen, strand);
  }
  ctx.stroke();
  ctx.strokeStyle = pen.colour("link");
  ctx.setLineDash([10, 4]);
  ctx.beginPath();
  for (const strand of plan.planned) if (isNear(pen, strand)) trace(pen, strand);
  ctx.stroke();
  ctx.setLineDash([]);
}

/**
 * @param {Pen} pen
 * @param {import("./layout.js").Strand} strand
 */
function isNear(pen, strand) {
  const at = { x: Math.min(strand.x1, strand.x2), y: Math.min(strand.y1, strand.y2) - 80 };
  return pen.shows(at, Math.abs(strand.x2 - strand.x1), Math.abs(strand.y2 - strand.y1) + 160);
}

/**
 * @param {Pen} pen
 * @param {import("./layout.js").Strand} strand
 */
function trace(pen, strand) {
  const { ctx } = pen;
  ctx.moveTo(pen.sx(strand.x1), pen.sy(strand.y1));
  if (strand.bow === 0) {
    ctx.lineTo(pen.sx(strand.x2), pen.sy(strand.y2));
    return;
  }
  const over = middle({ ...strand, bow: 2 * strand.bow });
  const to = [pen.sx(strand.x2), pen.sy(strand.y2)];
  ctx.quadraticCurveTo(pen.sx(over.x), pen.sy(over.y), to[0] ?? 0, to[1] ?? 0);
}

/**
 * Wires that are down: red, dashed, crossed out in the middle, and both ends named.
 * @param {Pen} pen
 */
export function drawCuts(pen) {
  const { ctx } = pen;
  const cut = pen.plan.strands.filter((s) => s.wire.state === "down" && isNear(pen, s));
  if (cut.length === 0) return;
  ctx.strokeStyle = pen.colour("bad");
  ctx.lineWidth = Math.max(2, Math.min(3, 3 * pen.camera.scale));
  ctx.setLineDash([6, 4]);
  ctx.beginPath();
  for (const strand of cut) trace(pen, strand);
  ctx.stroke();
  ctx.setLineDash([]);
  /** @type {{x: number, y: number, w: number, h: number}[]} */
  const taken = [];
  for (const strand of cut) {
    const at = middle(strand);
    const [x, y] = [pen.sx(at.x), pen.sy(at.y)];
    pen.sign(x, y, Math.max(9, Math.min(16, 15 * pen.camera.scale)), "cross");
    if (cut.length <= CALLOUTS) drawCallout(pen, strand.wire, x, y, taken);
  }
}

/**
 * The names of both ends of a cut wire, below it where no other stands.
 * @param {Pen} pen
 * @param {Api.Wire} wire
 * @param {number} x
 * @param {number} y
 * @param {{x: number, y: number, w: number, h: number}[]} taken
 */
function drawCallout(pen, wire, x, y, taken) {
  const { ctx } = pen;
  ctx.font = "600 12px system-ui, sans-serif";
  const far = wire.peer === null ? `server ${wire.server}` : end(wire.peer, wire.peer_slot);
  const words = `${shortened(end(wire.node, wire.slot))}  ✕  ${shortened(far)}`;
  const w = ctx.measureText(words).width + 16;
  const h = 22;
  const away = Math.max(12, pen.tile_height / 2 + 3);
  const left = Math.max(4, Math.min(pen.width - w - 4, x - w / 2));
  let top = y + away + h > pen.height ? y - away - h : y + away;
  while (
    taken.some((t) => left < t.x + t.w && t.x < left + w && top < t.y + t.h && t.y < top + h)
  ) {
    top += h + 3;
  }
  taken.push({ x: left, y: top, w, h });
  ctx.fillStyle = pen.colour("bad");
  rounded(ctx, left, top, w, h, 5);
  ctx.fill();
  ctx.fillStyle = pen.colour("panel");
  ctx.textAlign = "center";
  ctx.fillText(words, left + w / 2, top + 15.5);
  ctx.textAlign = "left";
}

/**
 * @param {string} node
 * @param {number | null} slot
 */
function end(node, slot) {
  return slot === null ? node : `${node}:${slot}`;
}

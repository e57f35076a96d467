// The groups: a box each, with its name and what is free in it. The name of a group whose head is
// above the screen stands at its upper edge, so that it is always said where one is.

import { plain } from "./dom.js";
import { fitted, rounded } from "./pen.js";
import { t } from "./strings.js";

/** @typedef {import("./pen.js").Pen} Pen */
/** @typedef {import("./layout.js").Box} Box */

/** Boxes narrower than this, in pixels, have neither round corners nor a dashed frame. */
const SMALL_BOX = 48;
/** The least pixels of height and of width in which a name is drawn. */
const LEAST_HEAD = 11.5;
const LEAST_ROOM = 30;
/** Smaller letters are not read; a name is shortened instead. */
const LEAST_LETTERS = 10;
/** The height of a head that stands at the edge of the screen; of a box with so much below it. */
const BAND = 20;
const BELOW = 40;
const BAND_ROOM = 60;

/** @param {Pen} pen */
export function drawBoxes(pen) {
  const { ctx } = pen;
  const { scale } = pen.camera;
  for (const box of pen.plan.boxes) {
    if (box.width * scale < 5 || !pen.shows(box, box.width, box.height)) continue;
    const [x, y] = [Math.round(pen.sx(box.x)), Math.round(pen.sy(box.y))];
    const [w, h] = [Math.round(box.width * scale), Math.round(box.height * scale)];
    const bad = isBad(box);
    const only_below = bad && box.group?.reasons.every(({ code }) => code === "child-not-ready");
    ctx.fillStyle = ground(pen, box);
    ctx.lineWidth = bad ? 1.5 : 1;
    ctx.strokeStyle = pen.colour(bad ? "bad" : "line");
    if (w < SMALL_BOX) ctx.fillRect(x, y, w, h);
    else {
      if (box.group === null) ctx.setLineDash([5, 4]);
      rounded(ctx, x, y, w, h, Math.min(8, 8 * scale));
      ctx.fill();
    }
    ctx.globalAlpha = only_below ? 0.5 : 1;
    if (w >= SMALL_BOX) ctx.stroke();
    else if (bad) ctx.strokeRect(x, y, w, h);
    ctx.globalAlpha = 1;
    ctx.setLineDash([]);
    drawHead(pen, box);
  }
}

/** @param {Box} box */
function isBad({ group }) {
  return group !== null && group.status !== "Ready";
}

/**
 * @param {Pen} pen
 * @param {Box} box
 */
function ground(pen, { depth }) {
  return pen.colour(depth % 2 === 0 ? "box" : "boxhead");
}

/**
 * The size of the letters of a box's head, 0 where it is too small for any.
 * @param {Pen} pen
 * @param {Box} box
 */
function letters(pen, box) {
  const high = box.head * pen.camera.scale;
  if (high < LEAST_HEAD) return 0;
  const most = box.depth === 0 ? 15 : 13;
  return Math.min(high * 0.7, Math.max(most, Math.min(26, high * 0.25)));
}

/**
 * Letters of at most a size in which a name fits a width, but never ones that nobody reads.
 * @param {Pen} pen
 * @param {string} name
 * @param {number} most
 * @param {number} room in pixels
 */
function fitting({ ctx }, name, most, room) {
  ctx.font = `600 ${most}px system-ui, sans-serif`;
  const size = (most * room) / Math.max(1, ctx.measureText(plain(name)).width);
  return Math.min(most, Math.max(LEAST_LETTERS, size));
}

/** @param {Box} box */
function nameOf({ group }) {
  return group === null ? t("unplaced") : group.name;
}

/**
 * Where the letters of a head stand.
 * @param {Pen} pen
 * @param {Box} box
 * @param {number} size
 */
function baseOf(pen, box, size) {
  const high = box.head * pen.camera.scale;
  return pen.sy(box.y) + Math.min(high * 0.5, size) + size * 0.36;
}

/**
 * @param {Pen} pen
 * @param {Box} box
 */
function drawHead(pen, box) {
  const most = letters(pen, box);
  if (most === 0) return;
  const high = box.head * pen.camera.scale;
  const side = Math.max(3, 10 * pen.camera.scale);
  const left = Math.max(0, pen.sx(box.x)) + side;
  const right = Math.min(pen.width, pen.sx(box.x + box.width)) - side;
  const size = fitting(pen, nameOf(box), most, right - left - (isBad(box) ? most + 5 : 0));
  const base = baseOf(pen, box, size);
  const is_told = drawName(pen, box, { left, right, base, size });
  if (is_told || high < 2.9 * size || right - left < BAND_ROOM || box.group === null) return;
  const { ctx } = pen;
  ctx.font = `${size * 0.8}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour("quiet");
  ctx.fillText(fitted(ctx, countsOf(box.group), right - left), left, base + 1.2 * size);
}

/**
 * The names of the groups whose heads are above the screen, the outermost first.
 * @param {Pen} pen
 */
export function drawBands(pen) {
  const { ctx } = pen;
  /** @type {boolean[]} */
  const has_band = [];
  for (const box of pen.plan.boxes) {
    has_band.length = box.depth;
    has_band[box.depth] = false;
    if (pen.sy(box.y) >= 0 || !pen.shows(box, box.width, box.height)) continue;
    const top = BAND * has_band.filter(Boolean).length;
    const left = Math.max(0, pen.sx(box.x));
    const right = Math.min(pen.width, pen.sx(box.x + box.width));
    const size = letters(pen, box);
    const is_read = size > 0 && baseOf(pen, box, size) - size * 0.75 >= top;
    const below = pen.sy(box.y + box.height) - top - BAND;
    if (is_read || below < BELOW || right - left < BAND_ROOM) continue;
    has_band[box.depth] = true;
    ctx.fillStyle = ground(pen, box);
    ctx.fillRect(left, top, right - left, BAND);
    ctx.fillStyle = pen.colour("line");
    ctx.fillRect(left, top + BAND - 1, right - left, 1);
    drawName(pen, box, { left: left + 8, right: right - 8, base: top + 14, size: 12 });
  }
}

/**
 * The name, and beside it, where there is room, what is free; returns whether there was.
 * @param {Pen} pen
 * @param {Box} box
 * @param {{left: number, right: number, base: number, size: number}} at
 */
function drawName(pen, box, { left, right, base, size }) {
  const { ctx } = pen;
  if (right - left < LEAST_ROOM) return false;
  let from = left;
  if (isBad(box)) {
    pen.sign(from + size / 2, base - size * 0.36, size * 0.8, "triangle");
    from += size + 5;
  }
  const { group } = box;
  const counts = group === null ? "" : countsOf(group);
  ctx.font = `${size * 0.9}px system-ui, sans-serif`;
  const counted = ctx.measureText(counts).width;
  ctx.font = `600 ${size}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour("ink");
  ctx.textAlign = "left";
  const name = nameOf(box);
  const room = right - from;
  const fits = room - counted - 12 > ctx.measureText(name).width;
  ctx.fillText(fitted(ctx, name, room), from, base);
  if (!fits || counts === "") return false;
  ctx.textAlign = "right";
  ctx.font = `${size * 0.9}px system-ui, sans-serif`;
  ctx.fillStyle = pen.colour("quiet");
  ctx.fillText(counts, right, base);
  ctx.textAlign = "left";
  return true;
}

/** @param {Api.Group} group */
function countsOf(group) {
  const { ready, nodes, free_gpus: free, gpus } = group.capacity;
  return gpus > 0 ? `${ready}/${nodes} · ${free}/${gpus} GPU` : `${ready}/${nodes}`;
}

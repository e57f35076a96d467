// What everything on the canvas is drawn with: the camera, the colours, signs and words that fit.

import { plain } from "./dom.js";
import { TILE } from "./layout.js";

export class Pen {
  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {import("./draw.js").Scene} scene
   */
  constructor(ctx, scene) {
    this.ctx = ctx;
    this.plan = scene.plan;
    this.camera = scene.camera;
    this.look = scene.look;
    this.marks = scene.marks;
    this.width = scene.width;
    this.height = scene.height;
    this.tile_width = TILE.width * scene.camera.scale;
    this.tile_height = TILE.height * scene.camera.scale;
  }

  /** @param {import("./draw.js").Colour} name */
  colour(name) {
    return this.look[name];
  }

  /** @param {number} x */
  sx(x) {
    return (x - this.camera.x) * this.camera.scale;
  }

  /** @param {number} y */
  sy(y) {
    return (y - this.camera.y) * this.camera.scale;
  }

  /**
   * Whether a rectangle of the map is on the screen.
   * @param {{x: number, y: number}} at
   * @param {number} width
   * @param {number} height
   */
  shows(at, width, height) {
    const x = this.sx(at.x);
    const y = this.sy(at.y);
    const { scale } = this.camera;
    return x < this.width && y < this.height && x + width * scale > 0 && y + height * scale > 0;
  }

  /**
   * A sign in the colour of what is broken, on a ground that sets it off.
   * @param {number} x
   * @param {number} y
   * @param {number} size
   * @param {"cross" | "triangle"} shape
   */
  sign(x, y, size, shape) {
    const { ctx } = this;
    const r = size / 2;
    ctx.beginPath();
    if (shape === "cross") ctx.arc(x, y, r + 1.5, 0, 7);
    else {
      ctx.moveTo(x, y - r - 1);
      ctx.lineTo(x + r + 2, y + r + 1);
      ctx.lineTo(x - r - 2, y + r + 1);
      ctx.closePath();
    }
    ctx.fillStyle = this.colour("bad");
    ctx.fill();
    ctx.strokeStyle = this.colour("panel");
    ctx.lineWidth = Math.max(1.25, size / 8);
    ctx.beginPath();
    const a = r * 0.5;
    if (shape === "cross") {
      ctx.moveTo(x - a, y - a);
      ctx.lineTo(x + a, y + a);
      ctx.moveTo(x + a, y - a);
      ctx.lineTo(x - a, y + a);
    } else {
      ctx.moveTo(x, y - r * 0.35);
      ctx.lineTo(x, y + r * 0.35);
      ctx.moveTo(x, y + r * 0.6);
      ctx.lineTo(x, y + r * 0.8);
    }
    ctx.stroke();
  }
}

/** @param {string} words */
export function shortened(words) {
  const shown = plain(words);
  return shown.length > 34 ? `${shown.slice(0, 12)}…${shown.slice(-20)}` : shown;
}

/**
 * The text within a width: all of it, or without the end that others share, or of the rest the
 * beginning and the end, where names differ, with … between.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} width
 * @param {string} tail that others share
 */
export function fitted(ctx, text, width, tail = "") {
  if (width < 8) return "";
  const shown = plain(text);
  const whole = shown.length > 80 ? `${shown.slice(0, 30)}…${shown.slice(-40)}` : shown;
  if (ctx.measureText(whole).width <= width) return whole;
  const is_shared = tail !== "" && text.endsWith(tail) && text !== tail;
  const short = is_shared ? plain(text.slice(0, -tail.length)) : whole;
  const wide = ctx.measureText(short).width;
  if (wide <= width) return short;
  for (let letters = Math.floor((short.length * width) / wide) - 1; letters >= 2; letters -= 1) {
    const head = Math.floor(letters * 0.4);
    const cut = `${short.slice(0, head)}…${short.slice(-(letters - head))}`;
    if (ctx.measureText(cut).width <= width) return cut;
  }
  return "";
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 * @param {number} r
 */
export function rounded(ctx, x, y, w, h, r) {
  ctx.beginPath();
  if (r < 2) ctx.rect(x, y, w, h);
  else ctx.roundRect(x, y, w, h, r);
}

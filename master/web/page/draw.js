// The forest on a canvas. What is small on the screen is drawn simply, what is outside of it not at
// all, and what is broken last and never too small to be seen. Every state has a shape of its own
// beside its colour: free is hollow, used is solid, held is half, gone is struck through.

import { plain } from "./dom.js";
import { TILE, middle } from "./layout.js";
import { stateOf } from "./picture.js";
import { t } from "./strings.js";

/** Widths of a tile in pixels from which its name, and its GPUs, are drawn. */
const NAMED = 92;
const CELLS = 30;
/** The scale from which a tile says in a word why it is as it is. */
const NOTED = 0.75;
/** So many cut wires on the screen are named where they are; more would hide the forest. */
const CALLOUTS = 10;
const HEAD = 26;
/** Boxes narrower than this, in pixels, have neither a frame nor round corners. */
const SMALL_BOX = 48;

/**
 * @typedef {object} Camera
 * @property {number} x of the left edge of the screen on the map
 * @property {number} y
 * @property {number} scale pixels per unit
 */

/**
 * @typedef {object} Marks what is pointed out
 * @property {string} selected name of a node, or path of a group; empty for none
 * @property {string} pointed the same, under the pointer
 * @property {Set<string>} lit
 */

/** @typedef {Record<string, string>} Look colours by the names of the style sheet's variables */

const COLOURS = [
  "map",
  "box",
  "boxhead",
  "line",
  "ink",
  "quiet",
  "tile",
  "free",
  "used",
  "held",
  "out",
  "bad",
  "badsoft",
  "warn",
  "focus",
  "wire",
  "panel",
];

/**
 * The colours of the style sheet as it is now.
 * @returns {Look}
 */
export function look() {
  const style = getComputedStyle(document.documentElement);
  return Object.fromEntries(
    COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]),
  );
}

/**
 * @typedef {object} Scene
 * @property {import("./layout.js").Plan} plan
 * @property {Camera} camera
 * @property {Look} look
 * @property {Marks} marks
 * @property {number} width in pixels
 * @property {number} height
 * @property {number} ratio the device's pixels per pixel
 */

/**
 * Draws the forest.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 */
export function drawForest(ctx, scene) {
  const { look, ratio, width, height } = scene;
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.fillStyle = look["map"] ?? "";
  ctx.fillRect(0, 0, width, height);
  const pen = new Pen(ctx, scene);
  pen.boxes();
  pen.upWires();
  pen.tiles();
  pen.cutWires();
}

/**
 * Draws the frames around what is chosen, pointed at, or named by a finding, over the forest.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 */
export function drawMarks(ctx, scene) {
  ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  new Pen(ctx, scene).rings();
}

class Pen {
  /**
   * @param {CanvasRenderingContext2D} ctx
   * @param {Scene} scene
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

  /** @param {string} name */
  colour(name) {
    return this.look[name] ?? "";
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

  boxes() {
    const { ctx } = this;
    const { scale } = this.camera;
    for (const box of this.plan.boxes) {
      if (box.width * scale < 5 || !this.shows(box, box.width, box.height)) continue;
      const [x, y] = [Math.round(this.sx(box.x)), Math.round(this.sy(box.y))];
      const [w, h] = [Math.round(box.width * scale), Math.round(box.height * scale)];
      const bad = box.group !== null && box.group.status !== "Ready";
      const only_below = bad && box.group?.reasons.every(({ code }) => code === "child-not-ready");
      ctx.fillStyle = this.colour(box.depth % 2 === 0 ? "box" : "boxhead");
      ctx.lineWidth = bad ? 1.5 : 1;
      ctx.strokeStyle = this.colour(bad ? "bad" : "line");
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
      this.head(box, { x, y, w, bad });
    }
  }

  /**
   * @param {import("./layout.js").Box} box
   * @param {{x: number, y: number, w: number, bad: boolean}} at
   */
  head(box, { x, y, w, bad }) {
    const high = HEAD * this.camera.scale;
    if (high < 13 || w < 60) return;
    const { ctx } = this;
    const size = Math.min(box.depth === 0 ? 15 : 13, high * 0.55);
    const base = y + high * 0.68;
    let left = x + 10 * this.camera.scale;
    if (bad) {
      this.sign(left + size / 2, base - size * 0.36, size * 0.8, "triangle");
      left += size + 5;
    }
    ctx.textAlign = "left";
    ctx.font = `600 ${size}px system-ui, sans-serif`;
    ctx.fillStyle = this.colour("ink");
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
    ctx.fillStyle = this.colour("quiet");
    ctx.fillText(counts, x + w - 10 * this.camera.scale, base);
    ctx.textAlign = "left";
  }

  upWires() {
    const { scale } = this.camera;
    if (scale < 0.1) return;
    const { ctx } = this;
    ctx.lineWidth = Math.max(0.75, Math.min(2.5, 2 * scale));
    ctx.strokeStyle = this.colour("wire");
    ctx.beginPath();
    for (const strand of this.plan.strands) {
      if (strand.wire.state === "up" && this.near(strand)) this.trace(strand);
    }
    ctx.stroke();
    ctx.strokeStyle = this.colour("warn");
    ctx.setLineDash([2, 3]);
    ctx.beginPath();
    for (const strand of this.plan.strands) {
      if (strand.wire.state === "unconfirmed" && this.near(strand)) this.trace(strand);
    }
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** @param {import("./layout.js").Strand} strand */
  near(strand) {
    const at = { x: Math.min(strand.x1, strand.x2), y: Math.min(strand.y1, strand.y2) - 80 };
    return this.shows(at, Math.abs(strand.x2 - strand.x1), Math.abs(strand.y2 - strand.y1) + 160);
  }

  /** @param {import("./layout.js").Strand} strand */
  trace(strand) {
    const { ctx } = this;
    ctx.moveTo(this.sx(strand.x1), this.sy(strand.y1));
    if (strand.bow === 0) {
      ctx.lineTo(this.sx(strand.x2), this.sy(strand.y2));
      return;
    }
    const over = middle({ ...strand, bow: 2 * strand.bow });
    const to = [this.sx(strand.x2), this.sy(strand.y2)];
    ctx.quadraticCurveTo(this.sx(over.x), this.sy(over.y), to[0] ?? 0, to[1] ?? 0);
  }

  tiles() {
    /** @type {import("./layout.js").Tile[]} */
    const broken = [];
    const shown = this.plan.tiles.filter((tile) => this.shows(tile, TILE.width, TILE.height));
    if (this.tile_width < CELLS) this.blocks(shown);
    for (const tile of shown) {
      if (this.tile_width >= CELLS) this.tile(tile);
      if (tile.node.status !== "Ready") broken.push(tile);
    }
    const size = Math.max(7, Math.min(13, this.tile_height * 0.5));
    if (this.tile_width >= NAMED) return;
    for (const tile of broken) {
      const x = this.sx(tile.x) + this.tile_width / 2;
      const y = this.sy(tile.y) + this.tile_height / 2;
      this.sign(x, y, size, "cross");
    }
  }

  /**
   * Many small tiles: a colour at a time, because to change it costs more than to fill.
   * @param {import("./layout.js").Tile[]} tiles
   */
  blocks(tiles) {
    const { ctx } = this;
    const w = Math.max(1, this.tile_width);
    const h = Math.max(1, this.tile_height);
    ctx.fillStyle = this.colour("free");
    for (const { x, y, node } of tiles) {
      if (node.status === "Ready" && node.free_gpus > 0) ctx.fillRect(this.sx(x), this.sy(y), w, h);
    }
    ctx.fillStyle = this.colour("out");
    for (const { x, y, node } of tiles) {
      if (node.status === "Ready" && node.free_gpus === 0) {
        ctx.fillRect(this.sx(x), this.sy(y), w, h);
      }
    }
    ctx.fillStyle = this.colour("used");
    for (const { x, y, node } of tiles) {
      if (node.status !== "Ready" || node.used_gpus === 0) continue;
      ctx.fillRect(this.sx(x), this.sy(y), (w * node.used_gpus) / Math.max(1, node.gpus), h);
    }
    ctx.fillStyle = this.colour("held");
    for (const { x, y, node } of tiles) {
      if (node.status !== "Ready" || node.held_gpus === 0) continue;
      const unit = w / Math.max(1, node.gpus);
      ctx.fillRect(this.sx(x) + unit * node.used_gpus, this.sy(y), unit * node.held_gpus, h);
    }
    ctx.fillStyle = this.colour("badsoft");
    for (const { x, y, node } of tiles) {
      if (node.status !== "Ready") ctx.fillRect(this.sx(x), this.sy(y), w, h);
    }
  }

  /** @param {import("./layout.js").Tile} tile */
  tile({ x, y, node }) {
    const { ctx } = this;
    const { scale } = this.camera;
    const [left, top] = [Math.round(this.sx(x)), Math.round(this.sy(y))];
    const [w, h] = [Math.round(this.tile_width), Math.round(this.tile_height)];
    const state = stateOf(node);
    ctx.fillStyle = this.colour(state === "broken" ? "badsoft" : "tile");
    rounded(ctx, left, top, w, h, Math.min(5, 5 * scale));
    ctx.fill();
    ctx.lineWidth = state === "broken" ? 2 : 1;
    ctx.strokeStyle = this.colour(state === "broken" ? "bad" : "line");
    ctx.setLineDash(state === "unknown" ? [3, 3] : []);
    ctx.stroke();
    ctx.setLineDash([]);
    const named = w >= NAMED;
    const inside = { left: left + 8 * scale, width: w - 16 * scale };
    if (named) this.name(node, inside, top, state === "broken");
    const noted = named && scale >= NOTED && noteOf(node) !== "";
    const from = noted ? 26 : named ? 30 : 14;
    this.strip(node, inside, top + from * scale, (named ? 16 : 30) * scale);
  }

  /**
   * @param {Api.Node} node
   * @param {{left: number, width: number}} inside
   * @param {number} top
   * @param {boolean} broken
   */
  name(node, { left, width }, top, broken) {
    const { ctx } = this;
    const { scale } = this.camera;
    const size = Math.min(14, Math.max(9, 12 * scale));
    const base = top + 18 * scale;
    let from = left;
    if (broken) {
      this.sign(left + size * 0.4, base - size * 0.36, size * 0.72, "cross");
      from += size + 3;
    }
    ctx.textAlign = "left";
    ctx.font = `${broken ? 700 : 500} ${size}px system-ui, sans-serif`;
    ctx.fillStyle = this.colour(broken ? "bad" : "ink");
    ctx.fillText(fitted(ctx, node.name, left + width - from), from, base);
    const note = noteOf(node);
    if (note === "" || scale < NOTED) return;
    ctx.font = `${size * 0.8}px system-ui, sans-serif`;
    ctx.fillStyle = this.colour(broken ? "bad" : "quiet");
    ctx.fillText(fitted(ctx, note, width), left, top + 53 * scale);
  }

  /**
   * The GPUs of a node, a cell each where there is room: used, held, free, and what nobody gets.
   * @param {Api.Node} node
   * @param {{left: number, width: number}} inside
   * @param {number} top
   * @param {number} height
   */
  strip(node, { left, width }, top, height) {
    const count = node.gpus;
    if (count === 0) return;
    const { ctx } = this;
    const gap = width / count > 7 ? Math.max(1, 3 * Math.min(1, this.camera.scale)) : 0;
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
        ctx.fillStyle = this.colour(state);
        ctx.fillRect(at, top, wide, height);
        at += wide;
        continue;
      }
      for (let n = 0; n < number; n += 1) {
        this.gpu(state, at, top, cell, Math.min(height, cell * 1.1));
        at += cell + gap;
      }
    }
  }

  /**
   * @param {string} state
   * @param {number} x
   * @param {number} y
   * @param {number} w
   * @param {number} h
   */
  gpu(state, x, y, w, h) {
    const { ctx } = this;
    ctx.fillStyle = ctx.strokeStyle = this.colour(state);
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

  rings() {
    for (const name of this.marks.lit) this.ring(name, "focus", 2.5, 5);
    if (this.marks.pointed) this.ring(this.marks.pointed, "quiet", 1.5, 2);
    if (this.marks.selected) this.ring(this.marks.selected, "focus", 3, 3);
  }

  /**
   * @param {string} name
   * @param {string} colour
   * @param {number} thick
   * @param {number} away
   */
  ring(name, colour, thick, away) {
    const tile = this.plan.by_name.get(name);
    const box = this.plan.by_path.get(name);
    const of = tile === undefined ? box : { ...tile, ...TILE };
    if (of === undefined) return;
    const { scale } = this.camera;
    const { ctx } = this;
    ctx.lineWidth = thick;
    ctx.strokeStyle = this.colour(colour);
    const [w, h] = [Math.max(16, of.width * scale), Math.max(16, of.height * scale)];
    const x = this.sx(of.x) + (of.width * scale - w) / 2 - away;
    const y = this.sy(of.y) + (of.height * scale - h) / 2 - away;
    rounded(ctx, x, y, w + 2 * away, h + 2 * away, 7);
    ctx.stroke();
  }

  /** Wires that are down: red, dashed, crossed out in the middle, and both ends named. */
  cutWires() {
    const { ctx } = this;
    const cut = this.plan.strands.filter((s) => s.wire.state === "down" && this.near(s));
    if (cut.length === 0) return;
    ctx.strokeStyle = this.colour("bad");
    ctx.lineWidth = Math.max(2, Math.min(3, 3 * this.camera.scale));
    ctx.setLineDash([6, 4]);
    ctx.beginPath();
    for (const strand of cut) this.trace(strand);
    ctx.stroke();
    ctx.setLineDash([]);
    /** @type {{x: number, y: number, w: number, h: number}[]} */
    const taken = [];
    for (const strand of cut) {
      const at = middle(strand);
      const [x, y] = [this.sx(at.x), this.sy(at.y)];
      this.sign(x, y, Math.max(9, Math.min(16, 15 * this.camera.scale)), "cross");
      if (cut.length <= CALLOUTS) this.callout(strand.wire, x, y, taken);
    }
  }

  /**
   * The names of both ends of a cut wire, below it where no other stands.
   * @param {Api.Wire} wire
   * @param {number} x
   * @param {number} y
   * @param {{x: number, y: number, w: number, h: number}[]} taken
   */
  callout(wire, x, y, taken) {
    const { ctx } = this;
    ctx.font = "600 12px system-ui, sans-serif";
    const far = wire.peer === null ? `server ${wire.server}` : end(wire.peer, wire.peer_slot);
    const words = `${shortened(end(wire.node, wire.slot))}  ✕  ${shortened(far)}`;
    const w = ctx.measureText(words).width + 16;
    const h = 22;
    const away = Math.max(12, this.tile_height / 2 + 3);
    const left = Math.max(4, Math.min(this.width - w - 4, x - w / 2));
    let top = y + away + h > this.height ? y - away - h : y + away;
    while (
      taken.some((t) => left < t.x + t.w && t.x < left + w && top < t.y + t.h && t.y < top + h)
    ) {
      top += h + 3;
    }
    taken.push({ x: left, y: top, w, h });
    ctx.fillStyle = this.colour("bad");
    rounded(ctx, left, top, w, h, 5);
    ctx.fill();
    ctx.fillStyle = this.colour("panel");
    ctx.textAlign = "center";
    ctx.fillText(words, left + w / 2, top + 15.5);
    ctx.textAlign = "left";
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

/** @param {Api.Node} node */
function noteOf(node) {
  if (node.status !== "Ready") return (node.reason ?? node.reasons[0])?.code ?? "";
  if (node.gpus === 0) return "?";
  return node.cordoned ? "cordoned" : node.shared ? "shared" : "";
}

/** @param {Api.Group} group */
function countsOf(group) {
  const { ready, nodes, free_gpus: free, gpus } = group.capacity;
  return `${ready}/${nodes} · ${free}/${gpus} GPU`;
}

/**
 * @param {string} node
 * @param {number | null} slot
 */
function end(node, slot) {
  return slot === null ? node : `${node}:${slot}`;
}

/** @param {string} words */
function shortened(words) {
  const shown = plain(words);
  return shown.length > 34 ? `${shown.slice(0, 12)}…${shown.slice(-20)}` : shown;
}

/**
 * The text, or its beginning and its end, where names differ, with … between, within a width.
 * @param {CanvasRenderingContext2D} ctx
 * @param {string} text
 * @param {number} width
 */
function fitted(ctx, text, width) {
  if (width < 8) return "";
  const shown = plain(text);
  const short = shown.length > 80 ? `${shown.slice(0, 30)}…${shown.slice(-40)}` : shown;
  const wide = ctx.measureText(short).width;
  if (wide <= width) return short;
  const letters = Math.floor((short.length * width) / wide) - 1;
  if (letters < 2) return "";
  const head = Math.floor(letters * 0.4);
  return `${short.slice(0, head)}…${short.slice(-(letters - head))}`;
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {number} h
 * @param {number} r
 */
function rounded(ctx, x, y, w, h, r) {
  ctx.beginPath();
  if (r < 2) ctx.rect(x, y, w, h);
  else ctx.roundRect(x, y, w, h, r);
}

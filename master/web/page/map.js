// The forest as something to move in: camera, pointer, keys. It draws when something changed.

import { drawForest, drawMarks, look } from "./draw.js";
import { MARGIN_PX, TILE, at, planOf, scaleOf } from "./layout.js";
import { isNamed } from "./tiles.js";

const CLOSEST = 2.5;
/** The pixels of height at which a tile is shown in its own size, if there is room. */
const USUAL_HEIGHT = 800;
const NEAR_PX = 7;
const STEP_PX = 60;
/** A frame that took longer is not drawn anew while the map moves. */
const DEAR_MS = 8;
const REST_MS = 90;
/** What the browser's own timeline calls the moment at which the first forest stood there. */
const SHOWN = "forest-shown";

/**
 * @typedef {object} Target what somebody points at or chooses
 * @property {"node" | "group" | "wire"} kind
 * @property {string} name of the node, path of the group, or `node/slot` of the wire
 */

/** The canvas and what is seen on it. */
export class ForestMap {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {{chosen: (target: Target | null) => void, reached: (name: string) => void,
   *   pointed: (target: Target | null, x: number, y: number) => void}} told
   */
  constructor(canvas, told) {
    this.canvas = canvas;
    this.ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d", { alpha: false }));
    this.told = told;
    this.camera = { x: 0, y: 0, scale: 1 };
    /** @type {import("./draw.js").Marks} */
    this.marks = {
      selected: "",
      pointed: "",
      lit: new Set(),
      pods: new Map(),
      assumed: new Map(),
    };
    /** @type {import("./layout.js").Plan | null} */
    this.plan = null;
    /** @type {import("./picture.js").Picture | null} */
    this.picture = null;
    this.look = look();
    this.is_fitted = true;
    /** The size for which the plan was made: while somebody looks closer, nothing changes places. */
    this.screen = { width: 0, height: 0 };
    this.asked = 0;
    this.slid = 0;
    this.rest = 0;
    this.last = { took_ms: 0, camera: { ...this.camera } };
    /** The forest as it was drawn last, without marks. */
    this.back = document.createElement("canvas");
    this.is_drawn = false;
    /** How long each of the last frames took, in milliseconds. */
    this.frames = /** @type {number[]} */ ([]);
    new ResizeObserver(() => this.resized()).observe(canvas);
    this.listen();
  }

  /** @param {import("./picture.js").Picture} picture */
  show(picture) {
    this.picture = picture;
    if (this.is_fitted) this.fit();
    else this.plan = planOf(picture, this.screen);
    this.redraw();
  }

  /** Takes the colours of the style sheet anew. */
  recolour() {
    this.look = look();
    this.redraw();
  }

  /** All of it on the screen. */
  fit() {
    this.is_fitted = true;
    if (this.picture === null) return;
    this.screen = this.size();
    this.plan = planOf(this.picture, this.screen);
    this.frame({ x: 0, y: 0, ...whole(this.plan) }, MARGIN_PX);
  }

  /**
   * Brings what is named onto the screen, all of it.
   * @param {Iterable<string>} names of nodes, paths of groups
   */
  goTo(names) {
    const { plan } = this;
    if (plan === null) return;
    const found = [];
    for (const name of names) {
      const tile = plan.by_name.get(name);
      const box = plan.by_path.get(name);
      if (tile !== undefined) found.push({ x: tile.x, y: tile.y, ...TILE });
      else if (box !== undefined) found.push(box);
    }
    if (found.length === 0) return;
    const around = boundsOf(found);
    if (this.isRead(around)) return;
    this.is_fitted = false;
    this.frame(around, Math.min(140, this.size().width / 6));
  }

  /**
   * Whether all of a part of the map is on the screen, and its nodes have names there.
   * @param {{x: number, y: number, width: number, height: number}} part
   */
  isRead(part) {
    const { x, y, scale } = this.camera;
    const { width, height } = this.size();
    const is_inside = part.x >= x && part.y >= y;
    const is_whole = part.x + part.width <= x + width / scale;
    return is_inside && is_whole && part.y + part.height <= y + height / scale && isNamed(scale);
  }

  /**
   * @param {{x: number, y: number, width: number, height: number}} box
   * @param {number} margin in pixels
   */
  frame(box, margin) {
    const { width, height } = this.size();
    const closest = Math.min(CLOSEST, Math.max(1.25, height / USUAL_HEIGHT));
    const scale = Math.min(closest, scaleOf(box, { width, height }, margin));
    this.camera = {
      scale,
      x: box.x + box.width / 2 - width / 2 / scale,
      y: box.y + box.height / 2 - height / 2 / scale,
    };
    this.redraw();
  }

  /**
   * @param {number} factor
   * @param {number} x of the point that stays, in pixels
   * @param {number} y
   */
  zoom(factor, x = this.size().width / 2, y = this.size().height / 2) {
    const { camera } = this;
    const scale = Math.max(0.005, Math.min(CLOSEST, camera.scale * factor));
    camera.x += x / camera.scale - x / scale;
    camera.y += y / camera.scale - y / scale;
    camera.scale = scale;
    this.moved();
  }

  /**
   * @param {number} dx in pixels
   * @param {number} dy
   */
  move(dx, dy) {
    this.camera.x += dx / this.camera.scale;
    this.camera.y += dy / this.camera.scale;
    this.moved();
  }

  /** @param {Partial<import("./draw.js").Marks>} marks */
  mark(marks) {
    Object.assign(this.marks, marks);
    this.refresh();
  }

  /** Draws all of it in the next frame. */
  redraw() {
    this.is_drawn = false;
    this.refresh();
  }

  /** Draws what is marked in the next frame, and the forest where that changed too. */
  refresh() {
    if (this.asked !== 0) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.paint();
    });
  }

  /**
   * After a move: where a frame is dear, the last one is shown in its new place until the map rests,
   * so that a forest of any size follows the hand.
   */
  moved() {
    this.is_fitted = false;
    if (this.last.took_ms < DEAR_MS) {
      this.redraw();
      return;
    }
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.redraw(), REST_MS);
    if (this.slid !== 0) return;
    this.slid = requestAnimationFrame(() => {
      this.slid = 0;
      this.slide();
    });
  }

  /** The last frame, moved and stretched to where the camera is. */
  slide() {
    const { ctx, last, camera } = this;
    const began = performance.now();
    const { width, height } = this.size();
    const grown = camera.scale / last.camera.scale;
    const x = (last.camera.x - camera.x) * camera.scale;
    const y = (last.camera.y - camera.y) * camera.scale;
    ctx.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
    ctx.fillStyle = this.look["map"] ?? "";
    ctx.fillRect(0, 0, width, height);
    ctx.drawImage(this.back, x, y, width * grown, height * grown);
    this.timed(began);
  }

  paint() {
    const { plan, camera, marks, back } = this;
    const { width, height } = this.size();
    if (plan === null || width === 0 || height === 0) return;
    const began = performance.now();
    const scene = { plan, camera, marks, look: this.look, width, height, ratio: devicePixelRatio };
    if (!this.is_drawn) {
      const forest = back.getContext("2d", { alpha: false });
      if (forest !== null) drawForest(forest, scene);
      this.is_drawn = true;
      this.last = { took_ms: performance.now() - began, camera: { ...camera } };
    }
    this.ctx.setTransform(1, 0, 0, 1, 0, 0);
    this.ctx.drawImage(back, 0, 0);
    drawMarks(this.ctx, scene);
    if (this.frames.length === 0) setTimeout(() => performance.mark(SHOWN));
    this.timed(began);
  }

  /** @param {number} began */
  timed(began) {
    this.frames.push(performance.now() - began);
    if (this.frames.length > 240) this.frames.shift();
  }

  size() {
    return { width: this.canvas.clientWidth, height: this.canvas.clientHeight };
  }

  /** What was in the middle stays there. */
  resized() {
    const { width, height } = this.size();
    const { camera, canvas } = this;
    camera.x += (canvas.width / devicePixelRatio - width) / 2 / camera.scale;
    camera.y += (canvas.height / devicePixelRatio - height) / 2 / camera.scale;
    this.is_drawn = false;
    for (const each of [this.canvas, this.back]) {
      each.width = Math.round(width * devicePixelRatio);
      each.height = Math.round(height * devicePixelRatio);
    }
    if (this.picture !== null && this.is_fitted) this.show(this.picture);
    this.paint();
  }

  /**
   * @param {number} x in pixels
   * @param {number} y
   * @returns {Target | null}
   */
  under(x, y) {
    if (this.plan === null) return null;
    const { camera } = this;
    const near = NEAR_PX / camera.scale;
    const found = at(this.plan, camera.x + x / camera.scale, camera.y + y / camera.scale, near);
    if (found === null) return null;
    if ("tile" in found) return { kind: "node", name: found.tile.node.name };
    if ("strand" in found) {
      const { node, slot } = found.strand.wire;
      return { kind: "wire", name: `${node}/${slot}` };
    }
    const { group } = found.box;
    return group === null ? null : { kind: "group", name: group.path.join("/") };
  }

  listen() {
    const { canvas } = this;
    /** @type {Map<number, {x: number, y: number}>} */
    const down = new Map();
    let moved = 0;
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      down.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
      if (down.size === 1) moved = 0;
    });
    canvas.addEventListener("pointermove", (event) => {
      const here = { x: event.offsetX, y: event.offsetY };
      const before = down.get(event.pointerId);
      if (before === undefined) {
        this.point(here.x, here.y);
        return;
      }
      moved += Math.hypot(here.x - before.x, here.y - before.y);
      if (moved < 4) return;
      this.drag(down, event.pointerId, here);
    });
    /** @param {PointerEvent} event */
    const up = (event) => {
      const was_one = down.size === 1;
      down.delete(event.pointerId);
      if (event.type === "pointerup" && was_one && moved < 4) {
        this.told.chosen(this.under(event.offsetX, event.offsetY));
      }
    };
    canvas.addEventListener("pointerup", up);
    canvas.addEventListener("pointercancel", up);
    canvas.addEventListener("pointerleave", () => this.point(-1, -1));
    canvas.addEventListener(
      "wheel",
      (event) => {
        event.preventDefault();
        const lines = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
        this.zoom(Math.exp(-lines / 400), event.offsetX, event.offsetY);
      },
      { passive: false },
    );
    canvas.addEventListener("dblclick", (event) => this.zoom(1.8, event.offsetX, event.offsetY));
    canvas.addEventListener("keydown", (event) => this.key(event));
  }

  /**
   * One finger or the mouse moves the map, two fingers zoom it.
   * @param {Map<number, {x: number, y: number}>} down
   * @param {number} id
   * @param {{x: number, y: number}} here
   */
  drag(down, id, here) {
    const before = down.get(id) ?? here;
    const other = [...down].find(([each]) => each !== id)?.[1];
    down.set(id, here);
    if (other === undefined) {
      this.move(before.x - here.x, before.y - here.y);
      return;
    }
    const was = Math.hypot(before.x - other.x, before.y - other.y);
    const is = Math.hypot(here.x - other.x, here.y - other.y);
    if (was > 0) this.zoom(is / was, (here.x + other.x) / 2, (here.y + other.y) / 2);
  }

  /**
   * @param {number} x
   * @param {number} y
   */
  point(x, y) {
    const target = x < 0 ? null : this.under(x, y);
    const name = target === null || target.kind === "wire" ? "" : target.name;
    this.canvas.style.cursor = target === null ? "grab" : "pointer";
    this.told.pointed(target, x, y);
    if (name !== this.marks.pointed) this.mark({ pointed: name });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    /** @type {Record<string, [number, number]>} */
    const ways = {
      ArrowLeft: [-1, 0],
      ArrowRight: [1, 0],
      ArrowUp: [0, -1],
      ArrowDown: [0, 1],
    };
    const way = ways[event.key];
    if (way !== undefined && event.shiftKey) this.move(way[0] * STEP_PX, way[1] * STEP_PX);
    else if (way !== undefined) this.step(way[0], way[1]);
    else if (event.key === "+" || event.key === "=") this.zoom(1.3);
    else if (event.key === "-") this.zoom(1 / 1.3);
    else if (event.key === "0") this.fit();
    else if (event.key === "Enter" || event.key === " ") this.chooseReached();
    else return;
    event.preventDefault();
  }

  /**
   * Goes to the nearest node in a direction.
   * @param {number} dx
   * @param {number} dy
   */
  step(dx, dy) {
    const { plan } = this;
    if (plan === null) return;
    const here = plan.by_name.get(this.marks.selected);
    if (here === undefined) {
      const first = plan.tiles[0];
      if (first !== undefined) this.reach(first.node.name);
      return;
    }
    let best = Infinity;
    let found = null;
    for (const tile of plan.tiles) {
      const ahead = (tile.x - here.x) * dx + (tile.y - here.y) * dy;
      const aside = Math.abs((tile.x - here.x) * dy) + Math.abs((tile.y - here.y) * dx);
      const far = ahead + 3 * aside;
      if (ahead > 1 && far < best) [best, found] = [far, tile];
    }
    if (found !== null) this.reach(found.node.name);
  }

  chooseReached() {
    const name = this.marks.selected;
    if (this.plan?.by_name.has(name)) this.told.chosen({ kind: "node", name });
  }

  /**
   * Goes to a node by keys.
   * @param {string} name
   */
  reach(name) {
    this.told.reached(name);
    const tile = this.plan?.by_name.get(name);
    if (tile === undefined) return;
    const { width, height } = this.size();
    const { camera } = this;
    const x = (tile.x - camera.x) * camera.scale;
    const y = (tile.y - camera.y) * camera.scale;
    const dx = Math.min(0, x - 20) + Math.max(0, x + TILE.width * camera.scale + 20 - width);
    const dy = Math.min(0, y - 20) + Math.max(0, y + TILE.height * camera.scale + 20 - height);
    if (dx !== 0 || dy !== 0) this.move(dx, dy);
  }
}

/** @param {import("./layout.js").Plan} plan */
function whole(plan) {
  return { width: plan.width, height: plan.height };
}

/** @param {{x: number, y: number, width: number, height: number}[]} boxes */
function boundsOf(boxes) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const box of boxes) {
    left = Math.min(left, box.x);
    top = Math.min(top, box.y);
    right = Math.max(right, box.x + box.width);
    bottom = Math.max(bottom, box.y + box.height);
  }
  return { x: left, y: top, width: right - left, height: bottom - top };
}

// The forest on a canvas. What is small on the screen is drawn simply, what is outside of it not at
// all, and what is broken last and never too small to be seen. Every state has a shape of its own
// beside its colour: free is hollow, used is solid, held is half, gone is struck through.

import { COLOURS as GROUP_COLOURS } from "./badges.js";
import { drawBands, drawBoxes } from "./boxes.js";
import { drawAssumed, drawPods, drawRings } from "./marks.js";
import { Pen } from "./pen.js";
import { drawTiles } from "./tiles.js";
import { drawCuts, drawWires } from "./wires.js";

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
 * @property {Map<string, {index: number, pods: number}[]>} pods of groups of pods, by node
 * @property {Map<string, string>} assumed what is assumed of nodes: `down`, `free`, `drain`
 */

const COLOURS = /** @type {const} */ ([
  ...GROUP_COLOURS,
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
  "link",
  "panel",
]);

/** @typedef {(typeof COLOURS)[number]} Colour a variable of the style sheet that a canvas takes */
/** @typedef {Record<Colour, string>} Look */

/**
 * The colours of the style sheet as it is now, each as a canvas takes it.
 * @returns {Look}
 */
export function look() {
  const probe = document.createElement("i");
  document.body.append(probe);
  const shown = getComputedStyle(probe);
  const found = COLOURS.map((name) => {
    probe.style.color = `var(--${name})`;
    return [name, shown.color];
  });
  probe.remove();
  return /** @type {Look} */ (Object.fromEntries(found));
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
  drawBoxes(pen);
  drawWires(pen);
  drawTiles(pen);
  drawCuts(pen);
  drawBands(pen);
}

/**
 * Draws over the forest what is assumed, where pods would stand, and the frames around what is
 * chosen, pointed at, or named by a finding.
 * @param {CanvasRenderingContext2D} ctx
 * @param {Scene} scene
 */
export function drawMarks(ctx, scene) {
  ctx.setTransform(scene.ratio, 0, 0, scene.ratio, 0, 0);
  const pen = new Pen(ctx, scene);
  drawAssumed(pen);
  drawPods(pen);
  drawRings(pen);
}

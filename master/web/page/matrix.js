// The link matrix of a node as a picture: how well each pair of GPUs is joined.

import { svg } from "./dom.js";
import { t } from "./strings.js";

const CELL = 24;
const MARGIN = 22;
/** From the best to the worst; a kind that is not here is drawn as unknown. */
const CLASSES = {
  direct: ["MX", "NV", "HCCS", "HCCS_SW", "SIO", "UB"],
  near: ["PIX", "PXB"],
  far: ["PHB", "NODE", "ETH"],
  farthest: ["SYS", "NA"],
};

/**
 * @param {Api.LinkMatrix} matrix
 * @param {(index: number) => boolean} is_ill
 */
export function matrixPicture(matrix, is_ill) {
  const count = matrix.gpus.length;
  const size = MARGIN + count * CELL;
  const picture = svg("svg", {
    class: "matrix",
    role: "img",
    viewBox: `0 0 ${size} ${size}`,
    "aria-label": `${t("matrix")}: ${summary(matrix)}`,
  });
  for (let row = 0; row < count; row += 1) {
    const middle = MARGIN + (row + 0.5) * CELL;
    const ill = is_ill(row) ? "axis ill" : "axis";
    picture.append(
      svg("text", { class: ill, x: middle, y: MARGIN - 7 }, String(row)),
      svg("text", { class: ill, x: MARGIN - 11, y: middle + 4 }, String(row)),
    );
    for (let column = 0; column < count; column += 1) picture.append(cell(matrix, row, column));
  }
  return picture;
}

/**
 * @param {Api.LinkMatrix} matrix
 * @param {number} row
 * @param {number} column
 */
function cell(matrix, row, column) {
  const link = matrix.links[row]?.[column] ?? { kind: "?", code: "?", count: 0 };
  const x = MARGIN + column * CELL;
  const y = MARGIN + row * CELL;
  const words = row === column ? "" : link.code;
  return svg(
    "g",
    {},
    svg("title", {}, `GPU ${row} – GPU ${column}: ${link.code}`),
    svg("rect", {
      class: `link ${row === column ? "self" : classOf(link.kind)}`,
      x: x + 1,
      y: y + 1,
      width: CELL - 2,
      height: CELL - 2,
      rx: 3,
    }),
    svg("text", { class: "code", x: x + CELL / 2, y: y + CELL / 2 + 3 }, words.slice(0, 4)),
  );
}

/** @param {string} kind */
function classOf(kind) {
  return Object.entries(CLASSES).find(([, kinds]) => kinds.includes(kind))?.[0] ?? "unknown";
}

/**
 * How many pairs have which link, for who cannot see it.
 * @param {Api.LinkMatrix} matrix
 */
function summary(matrix) {
  /** @type {Map<string, number>} */
  const pairs = new Map();
  matrix.links.forEach((row, at) => {
    for (const link of row.slice(at + 1, matrix.gpus.length)) {
      pairs.set(link.code, (pairs.get(link.code) ?? 0) + 1);
    }
  });
  return [...pairs].map(([code, number]) => `${number} ${code}`).join(", ");
}

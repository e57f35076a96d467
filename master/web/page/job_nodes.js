// Which nodes a job may use, in words as `topo place` takes them, and as the master does. Pure.

import { Refused } from "./api.js";
import { t } from "./strings.js";

/** Fields of as many words as somebody gives. */
export const LISTS = /** @type {const} */ (["selector", "tolerations", "exclude"]);

/** @typedef {Record<(typeof LISTS)[number], string[]>} Words */

/**
 * The words that stand in a text, one a line.
 * @param {string} text
 */
export function linesOf(text) {
  const lines = text.split(/[\r\n]+/).map((line) => line.trim());
  return lines.filter((line) => line !== "");
}

/**
 * The fields of a request to the master. Of words that `flawOf` refuses it is not to be asked.
 * @param {Words} words
 */
export function requestOf({ selector, tolerations, exclude }) {
  return {
    selector: Object.fromEntries(selector.map((word) => parted(word, "="))),
    tolerations: tolerations.map(tolerationOf),
    exclude,
  };
}

/**
 * The words of a request of the master.
 * @param {Api.NodesOfJob} request
 * @returns {Words}
 */
export function wordsOf({ selector, tolerations, exclude }) {
  return {
    selector: Object.entries(selector).map(([key, value]) => `${key}=${value}`),
    tolerations: tolerations.map(wordOf),
    exclude,
  };
}

/**
 * What stands against sending it: labels that the master's object of labels could not say.
 * @param {Words} words
 */
export function flawOf({ selector }) {
  /** @type {Map<string, string>} */
  const given = new Map();
  for (const word of selector) {
    const [key, value] = parted(word, "=");
    const refused = (/** @type {string} */ what, /** @type {string} */ fix) =>
      new Refused(400, what, fix, "selector");
    if (key === "" || value === undefined)
      return refused(t("no_label", { word }), t("write_label"));
    if ((given.get(key) ?? value) !== value) {
      return refused(t("label_twice", { key }), t("give_once"));
    }
    given.set(key, value);
  }
  return null;
}

/**
 * `KEY[=VALUE][:EFFECT]`, as kubectl writes taints; without a key it is every taint.
 * @param {string} word
 */
function tolerationOf(word) {
  const [taint = "", effect = ""] = parted(word, ":");
  const [key = "", value] = parted(taint, "=");
  return {
    key,
    ...(value === undefined ? { operator: "Exists" } : { operator: "Equal", value }),
    ...(effect !== "" && { effect }),
  };
}

/** @param {Api.NodesOfJob["tolerations"][number]} toleration */
function wordOf({ key, operator, value, effect }) {
  const taint = operator === "Exists" ? key : `${key}=${value}`;
  return taint === "" || effect !== "" ? `${taint}:${effect}` : taint;
}

/**
 * What stands before the first such sign, and after it; that alone where there is none.
 * @param {string} word
 * @param {string} sign
 * @returns {[string, string?]}
 */
function parted(word, sign) {
  const at = word.indexOf(sign);
  return at < 0 ? [word] : [word.slice(0, at), word.slice(at + 1)];
}

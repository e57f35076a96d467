// The slider over the kept moments, and what differs from the one that it stands at.

import { addCompare, showCompare } from "./compare.js";
import { byId, h } from "./dom.js";
import { problemsThen } from "./problems.js";
import { hashOf } from "./route.js";
import { clock, duration, t } from "./strings.js";

const SHOWN = 200;

/**
 * Puts the slider below the forest.
 * @param {import("./past.js").Past} past
 */
export function addSlider(past) {
  const slider = h("input", {
    id: "past-slider",
    type: "range",
    min: 0,
    max: 0,
    value: 0,
    "data-label": "past_label",
    oninput: () => past.open(past.moments[Number(rangeOf().value)]?.at ?? ""),
  });
  const bar = h(
    "div",
    { id: "past", class: "empty" },
    slider,
    h("output", { id: "past-time", for: "past-slider" }),
    addCompare(past),
    h("button", {
      id: "past-live",
      type: "button",
      "data-t": "past_live",
      onclick: () => past.open(""),
    }),
  );
  byId("forest").append(bar);
}

function rangeOf() {
  return /** @type {HTMLInputElement} */ (byId("past-slider"));
}

/**
 * Where the slider stands, in words; and where it is in the past, that it is.
 * @param {import("./past.js").Past} past
 * @param {import("./live.js").State} live
 */
export function showSlider(past, live) {
  const { moments, then, wanted, failure } = past;
  const range = rangeOf();
  byId("past").classList.toggle("empty", moments.length === 0 && failure === "");
  const at = wanted || then?.at || "";
  range.max = String(moments.length);
  const place = moments.findLastIndex((moment) => moment.at <= at);
  range.value = String(at === "" ? moments.length : Math.max(0, place));
  const words = failure || (wanted !== "" ? t("past_wait") : then === null ? "" : asOf(past));
  const text = words || atItsEnd(past, live);
  if (byId("past-time").textContent !== text) byId("past-time").textContent = text;
  range.setAttribute("aria-valuetext", text);
  byId("past").classList.toggle("is-past", then !== null);
  byId("past").classList.toggle("failed", failure !== "");
  byId("past-live").hidden = then === null && wanted === "";
  showCompare(past);
  if (then === null) return;
  document.body.dataset["stage"] = "past";
  const pill = byId("state");
  pill.className = "pill past";
  const state = t("past_state", { clock: clock(then.at) });
  if (pill.textContent !== state) pill.textContent = state;
}

/**
 * What the right end of the slider is: now, or, while nobody answers, when somebody did last.
 * @param {import("./past.js").Past} past
 * @param {import("./live.js").State} live
 */
function atItsEnd(past, { stage, true_ms }) {
  const first = past.moments[0];
  if (first === undefined) return "";
  if (stage === "lost" && !Number.isNaN(true_ms)) {
    return t("past_heard", { clock: clock(true_ms), age: duration((Date.now() - true_ms) / 1000) });
  }
  return t("past_back", { age: duration(past.age_s(first.at)) });
}

/**
 * The time of a moment of the past as it is told: `as of 14:02:11, 3 min ago`.
 * @param {import("./past.js").Past} past
 */
function asOf(past) {
  const at = past.then?.at ?? "";
  return t("past_as_of", { clock: clock(at), age: duration(past.age_s(at)) });
}

/**
 * What stands in the place of the problems: what was wrong, what led to it, and what has changed since.
 * @param {import("./past.js").Past} past
 * @param {import("./problems.js").Act} act
 * @returns {Child[]}
 */
export function thenList(past, act) {
  const { then } = past;
  if (then === null) return [];
  const { compared } = then;
  return [
    h("h2", { class: "verdict", id: "problems-title" }, asOf(past)),
    h("p", { class: "old" }, t("past_not_now")),
    ...problemsThen(then.picture, act),
    ...(compared === null
      ? changes("past_since", t("past_since"), then.after, "past_same")
      : changes("past_between", between(compared), compared.changes, "past_alike")),
    ...changes("past_led", t("past_led"), then.before, "past_first"),
  ];
}

/** @param {import("./past.js").Compared} compared */
function between({ from, to }) {
  return t("past_between", { from: clock(from), to: clock(to) });
}

/**
 * @param {string} kind
 * @param {string} title
 * @param {Api.Change[]} list
 * @param {string} nothing
 * @returns {Child[]}
 */
function changes(kind, title, list, nothing) {
  const more = list.length - SHOWN;
  return [
    h("h3", { class: "moved-title" }, title),
    list.length === 0
      ? h("p", { class: "quiet" }, t(nothing))
      : h("ul", { class: `moved ${kind}` }, list.slice(0, SHOWN).map(change)),
    more > 0 && h("p", { class: "quiet" }, `+${more}`),
  ];
}

/** @param {Api.Change} one */
function change({ what, subject, before, after, why }) {
  const kind = what.split("-")[0] ?? "";
  const name = h("bdi", {}, subject);
  const is_place = kind === "node" || kind === "group";
  return h(
    "li",
    {},
    is_place ? h("a", { href: hashOf(kind, subject) }, name) : name,
    " ",
    h("span", { class: "what" }, t(`moved_${what.replace("-", "_")}`)),
    " ",
    [before, after].filter(Boolean).map((word, nth) => [nth > 0 && " → ", end(word)]),
    why !== "" && h("p", { class: "quiet" }, why),
  );
}

/** A path, a code, or a status in words. @param {string} word */
function end(word) {
  return word === "Ready" || word === "NotReady" ? t(word) : h("bdi", {}, word);
}

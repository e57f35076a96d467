// With which other moment the one at the slider is compared: any that is kept, or now.

import { byId, h } from "./dom.js";
import { clock, spoken, t } from "./strings.js";

/** What the list was made of. */
let made_of = "";

/**
 * The choice of the other moment.
 * @param {import("./past.js").Past} past
 */
export function addCompare(past) {
  return h(
    "div",
    { id: "past-compare", hidden: true },
    h("label", { for: "past-with", "data-t": "past_with" }),
    h("select", { id: "past-with", onchange: () => past.compare(choice().value) }),
  );
}

function choice() {
  return /** @type {HTMLSelectElement} */ (byId("past-with"));
}

/**
 * The kept moments as they are listed, from the newest; there is a choice while one is looked at.
 * @param {import("./past.js").Past} past
 */
export function showCompare(past) {
  byId("past-compare").hidden = past.then === null;
  const { moments, other } = past;
  const wanted = [spoken(), moments.length, moments[0]?.at, moments.at(-1)?.at, other].join(" ");
  const is_open = document.activeElement === choice() && choice().value === other;
  if (made_of !== wanted && !is_open) {
    made_of = wanted;
    const is_listed = other === "" || moments.some((moment) => moment.at === other);
    choice().replaceChildren(
      option("", t("past_now")),
      ...(is_listed ? [] : [option(other, clock(other))]),
      ...moments.toReversed().map((moment) => option(moment.at, told(moment))),
    );
  }
  if (choice().value !== other) choice().value = other;
}

/**
 * @param {string} value
 * @param {string} text
 */
function option(value, text) {
  return h("option", { value }, text);
}

/** @param {Api.Moment} moment */
function told({ at, changes }) {
  const count = Object.values(changes).reduce((sum, each) => sum + each, 0);
  return t("past_changes", { clock: clock(at), n: count });
}

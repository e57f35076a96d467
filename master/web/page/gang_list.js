// The gangs on the left: those that wait in the order of their turns, each with why and with what
// would let it in, then those on nodes with a problem, then the others.

import { h } from "./dom.js";
import { ageOf, idOf, jobText, stateOf, waits } from "./gang_words.js";
import { hashOf } from "./route.js";
import { t } from "./strings.js";

/** So many are listed of those that wait, and of the others. */
const LISTED = 30;

/**
 * @param {import("./gangs.js").Known} known
 * @param {Api.Finding[]} findings
 * @returns {Child[]}
 */
export function gangList({ gangs, at_ms, trouble }, findings) {
  const jobs = new Set(findings.flatMap((finding) => finding.jobs ?? []));
  const waiting = gangs.filter(waits);
  const others = gangs.filter((gang) => !waits(gang));
  const at_risk = others.filter(({ namespace, name }) => jobs.has(`${namespace}.${name}`));
  const is_known = !Number.isNaN(at_ms);
  return [
    h(
      "h2",
      { class: "verdict", id: "gangs-title" },
      t("gangs"),
      is_known && h("small", {}, t("gangs_n", { n: waiting.length, m: others.length })),
    ),
    ...ageOf(at_ms, trouble),
    is_known && gangs.length === 0 && h("p", { class: "quiet" }, t("no_gangs")),
    items(waiting),
    items(at_risk, "at_risk"),
    items(others.filter((gang) => !at_risk.includes(gang))),
  ];
}

/**
 * @param {Api.GangSummary[]} gangs
 * @param {string} text what is said of each
 */
function items(gangs, text = "") {
  if (gangs.length === 0) return null;
  return h(
    "ol",
    { class: "gangs" },
    gangs.slice(0, LISTED).map((gang) => item(gang, text)),
    gangs.length > LISTED &&
      h("li", { class: "quiet" }, `+${gangs.length - LISTED} `, h("code", {}, "topo gangs")),
  );
}

/**
 * @param {Api.GangSummary} gang
 * @param {string} text
 */
function item(gang, text) {
  const id = idOf(gang);
  return h(
    "li",
    {},
    h("a", { href: hashOf("gang", id), "data-key": `gang ${gang.id}` }, h("bdi", {}, id)),
    h("p", {}, stateOf(gang), h("small", {}, ` ${jobText(gang)}`)),
    text !== "" && h("p", { class: "what" }, t(text)),
    waits(gang) && gang.text !== "" && h("p", { class: "what" }, gang.text),
    waits(gang) &&
      gang.would_fit !== "" &&
      h("p", { class: "what" }, h("b", {}, t("it_would_fit")), " ", gang.would_fit),
  );
}

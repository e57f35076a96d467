// What is wrong, first: the findings in the master's order, each with where and the next step.

import { h, marked } from "./dom.js";
import { sum } from "./picture.js";
import { duration, t } from "./strings.js";

const NAMED = 4;

/** @typedef {{go: (finding: Api.Finding) => void, light: (names: string[]) => void}} Act */

/**
 * @param {import("./picture.js").Picture} picture
 * @param {Act} act
 * @param {boolean} is_lost whether it may be otherwise by now
 * @returns {Child[]}
 */
export function problemList(picture, act, is_lost) {
  if (picture.judged === null) {
    return [h("h2", { class: "verdict", id: "problems-title" }, t("judging")), ...age(picture)];
  }
  const wrong = wrongOf(picture);
  return [
    is_lost && h("p", { class: "old" }, t("last_seen")),
    h("h2", { class: verdictClass(wrong), id: "problems-title" }, ...verdict(picture)),
    ...age(picture),
    wrong === 0 && h("p", { class: "quiet" }, wellText(picture)),
    findingList(picture, act),
  ];
}

/**
 * What was wrong at a moment of the past, under the heading that names the moment.
 * @param {import("./picture.js").Picture} picture
 * @param {Act} act
 * @returns {Child[]}
 */
export function problemsThen(picture, act) {
  const title = h("h3", { class: verdictClass(wrongOf(picture)) }, ...verdict(picture));
  return [title, findingList(picture, act)];
}

/** @param {import("./picture.js").Picture} picture */
function wrongOf({ findings }) {
  return findings.filter((each) => each.severity === "wrong").length;
}

/** @param {number} wrong */
function verdictClass(wrong) {
  return wrong > 0 ? "verdict bad" : "verdict good";
}

/**
 * @param {import("./picture.js").Picture} picture
 * @returns {Child[]}
 */
function verdict(picture) {
  const wrong = wrongOf(picture);
  const notes = picture.findings.length - wrong;
  return [
    h("span", {
      class: `sign ${wrong > 0 ? "sign-bad" : "sign-good"}`,
      "aria-hidden": "true",
    }),
    headline(wrong),
    notes > 0 && h("small", {}, t("notes_n", { n: notes })),
  ];
}

/**
 * @param {import("./picture.js").Picture} picture
 * @param {Act} act
 */
function findingList({ findings }, act) {
  return h(
    "ol",
    { class: "findings" },
    findings.map((each, nth) => item(each, nth, act)),
  );
}

/** @param {number} wrong */
function headline(wrong) {
  if (wrong === 0) return t("well");
  return wrong === 1 ? t("problem") : t("problems_n", { n: wrong });
}

/** @param {import("./picture.js").Picture} picture */
function wellText(picture) {
  const { nodes, document } = picture;
  if (nodes.size === 0) return t("empty");
  const all_answer = document.sources.every((source) => source.state === "ok");
  const is_well = all_answer && sum(picture).ready === nodes.size;
  return is_well ? t("well_text", { n: nodes.size }) : "";
}

/**
 * What the master itself says of the age of its tree.
 * @param {import("./picture.js").Picture} picture
 */
function age({ document, copy_age_s }) {
  const lines = [];
  const OLD_S = 15;
  if (copy_age_s > OLD_S) lines.push(t("copy_of", { age: duration(copy_age_s) }));
  if (document.restored_age_s !== null) {
    lines.push(t("restored", { age: duration(document.restored_age_s) }));
  }
  return lines.map((line) => h("p", { class: "old" }, line));
}

/**
 * @param {Api.Finding} finding
 * @param {number} nth
 * @param {Act} act
 */
function item(finding, nth, act) {
  const is_wrong = finding.severity === "wrong";
  const light = () => act.light(finding.subjects);
  const dark = () => act.light([]);
  return h(
    "li",
    { class: is_wrong ? "finding wrong" : "finding note" },
    h(
      "button",
      {
        class: "finding-head",
        "data-key": `${finding.code} ${finding.subject}`,
        "data-nth": nth,
        onclick: () => act.go(finding),
        onpointerenter: light,
        onpointerleave: dark,
        onfocus: light,
        onblur: dark,
      },
      h("span", {
        class: `sign ${is_wrong ? "sign-bad" : "sign-note"}`,
        "aria-hidden": "true",
      }),
      h(
        "span",
        { class: "finding-text" },
        h("bdi", { class: "subject" }, subject(finding)),
        h("span", { class: "what" }, finding.what),
      ),
    ),
    h("p", { class: "next" }, h("b", {}, t("next"), " "), marked(finding.next_step)),
  );
}

/**
 * Where it is: what the master names, such as one group, or the first of the nodes that it lists.
 * @param {Api.Finding} finding
 */
function subject({ subject: where, subjects }) {
  const more = subjects.length - NAMED;
  return more > 0 && where.startsWith(`${subjects[0]},`)
    ? `${subjects.slice(0, NAMED).join(", ")} +${more}`
    : where;
}

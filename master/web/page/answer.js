// What the master answers to a job that is to be placed: the groups, how good that is and why, or
// what stands against it and the smallest change that would let it in.

import { badgeOf } from "./badges.js";
import { h, marked } from "./dom.js";
import { hashOf } from "./route.js";
import { t } from "./strings.js";

/** So many groups are listed; the map shows all. */
const LISTED = 64;
const NODES_NAMED = 8;

/**
 * @param {Api.Placement} answer
 * @param {{use: (suggestion: Api.Suggestion) => void, light: (names: string[]) => void}} act
 * @returns {Child[]}
 */
export function answerOf(answer, act) {
  return answer.feasible ? plan(answer, act.light) : refusal(answer, act.use);
}

/**
 * @param {Api.Fits} plan
 * @param {(names: string[]) => void} light
 * @returns {Child[]}
 */
function plan({ groups, mode, gpu_type, inside, used_reserve, objective, ...proof }, light) {
  const split = groups.filter(({ domains }) => domains.length > 1).length;
  const facts = [
    mode,
    gpu_type,
    inside && insideText(inside),
    used_reserve && t("from_reserve"),
    split > 0 && t("split_n", { n: split }),
  ];
  return [
    h(
      "h3",
      { class: "verdict good" },
      h("span", { class: "sign sign-good", "aria-hidden": "true" }),
      t("placed_in", { n: groups.length }),
    ),
    h("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")),
    h("p", {}, proofText({ objective, ...proof })),
    groupList(groups, light),
    whyList(proof.explanation),
    aims({ objective, ...proof }),
  ];
}

/**
 * The one group that all of a job is inside, where it asked for that.
 * @param {Api.Inside} group
 */
export function insideText({ kind, path, fabric }) {
  const words = { kind, path: path.join("/"), fabric };
  return fabric === "" ? t("inside_group", words) : t("inside_of", words);
}

/**
 * The groups in rank order, each with its mark, where it is, and its nodes.
 * @param {Api.PodGroup[]} groups
 * @param {(names: string[]) => void} light
 */
export function groupList(groups, light) {
  return h(
    "ol",
    { class: "pod-groups" },
    groups.slice(0, LISTED).map((group) => groupItem(group, light)),
    groups.length > LISTED && h("li", { class: "quiet" }, `+${groups.length - LISTED}`),
  );
}

/**
 * @param {Api.PodGroup} group
 * @param {(names: string[]) => void} light
 */
function groupItem({ index, tail, domains, nodes }, light) {
  const { mark, colour } = badgeOf(index);
  const paths = domains.map(({ path }) => path.join("/"));
  const more = nodes.length - NODES_NAMED;
  return h(
    "li",
    { onpointerenter: () => light(paths), onpointerleave: () => light([]) },
    h("span", { class: `chip ${colour}` }, mark),
    h(
      "span",
      {},
      domains.map(({ path }, at) => [
        at > 0 && " + ",
        h("a", { href: hashOf("group", path.join("/")) }, h("bdi", {}, path.join(" › "))),
      ]),
      domains.length > 1 && h("b", { class: "split" }, ` ${t("split")}`),
      tail && h("small", {}, ` ${t("tail")}`),
      h(
        "small",
        { class: "nodes" },
        nodes
          .slice(0, NODES_NAMED)
          .map(({ name, pods }, at) => [
            at > 0 && ", ",
            h("bdi", {}, name),
            pods > 1 && ` ×${pods}`,
          ]),
        more > 0 && ` +${more}`,
      ),
    ),
  );
}

/**
 * In one sentence how good the plan is, and how that is known.
 * @param {Pick<Api.Fits, "objective" | "bounds" | "certified">} of
 */
function proofText({ objective, bounds, certified }) {
  const names = Object.keys(objective);
  const open = names.filter((name) => !certified[name]);
  if (names.length === 0) return "";
  if (open.length === 0) return `✓ ${t("proven_all", { n: names.length })}`;
  const parts = open.map((name) => {
    const bound = bounds[name];
    const value = numberOf(objective[name]);
    return bound === null || bound === undefined
      ? `${aimName(name)} ${value}`
      : t("aim_bound", { aim: aimName(name), value, bound });
  });
  return t("proven_some", {
    n: names.length - open.length,
    m: names.length,
    open: parts.join("; "),
  });
}

/** @param {string[]} sentences */
function whyList(sentences) {
  if (sentences.length === 0) return null;
  return h(
    "section",
    {},
    h("h3", {}, t("reasons")),
    h(
      "ul",
      { class: "sentences" },
      sentences.map((each) => h("li", {}, marked(each))),
    ),
  );
}

/**
 * What placements are compared by, the first that differs decides.
 * @param {Pick<Api.Fits, "objective" | "bounds" | "certified">} of
 */
function aims({ objective, bounds, certified }) {
  const names = Object.keys(objective);
  if (names.length === 0) return null;
  return h(
    "details",
    {},
    h("summary", {}, t("aims")),
    h(
      "table",
      {},
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          ["aim", "value", "bound", "proven"].map((key) => h("th", { scope: "col" }, t(key))),
        ),
      ),
      h(
        "tbody",
        {},
        names.map((name) =>
          h(
            "tr",
            {},
            h("th", { scope: "row" }, aimName(name)),
            h("td", {}, numberOf(objective[name])),
            h("td", {}, bounds[name] ?? "–"),
            h("td", {}, certified[name] ? "✓" : "–"),
          ),
        ),
      ),
    ),
  );
}

/** @param {string} name */
function aimName(name) {
  const known = t(`aim_${name}`);
  return known === `aim_${name}` ? name.replaceAll("_", " ") : known;
}

/**
 * A number, or a profile {capacity: change} as `-1×16 +1×8`.
 * @param {number | Record<string, number> | undefined} value
 */
function numberOf(value) {
  if (typeof value !== "object") return String(value ?? "");
  const parts = Object.entries(value).map(([size, by]) => `${by > 0 ? "+" : ""}${by}×${size}`);
  return parts.join(" ") || "=";
}

/**
 * @param {Api.NoFit} refused
 * @param {(suggestion: Api.Suggestion) => void} use
 * @returns {Child[]}
 */
function refusal({ failed, shortfall, never, would_fit, explanation }, use) {
  const { needed = 0, available = 0, missing = 0 } = shortfall;
  return [
    h(
      "h3",
      { class: "verdict bad" },
      h("span", { class: "sign sign-bad", "aria-hidden": "true" }),
      t(never ? "never_fits" : "fits_not_now"),
    ),
    h("p", {}, t(`failed_${failed}`), " ", t("shortfall", { needed, available, missing })),
    would_fit.length > 0 &&
      h(
        "section",
        {},
        h("h3", {}, t("would_fit")),
        h(
          "ul",
          { class: "suggestions" },
          would_fit.map((each, at) =>
            h(
              "li",
              {},
              h("span", {}, each.text),
              (each.request !== null || each.assume !== null) &&
                h(
                  "button",
                  { type: "button", "data-key": `use ${at}`, onclick: () => use(each) },
                  t(each.request === null ? "what_if" : "use_this"),
                ),
            ),
          ),
        ),
      ),
    whyList(explanation),
  ];
}

// What is said of a gang in both the list and its panel.

import { h } from "./dom.js";
import { jobOf } from "./job.js";
import { wordsOf } from "./job_nodes.js";
import { clock, t } from "./strings.js";

const WELL = new Set(["growing", "bound", "opened", "placed"]);
const ON_THEIR_WAY = new Set(["in-line", "pods-missing", "waived", "native"]);

/** @param {Api.GangSummary} gang */
export function waits({ state }) {
  return !WELL.has(state) && state !== "waived";
}

/** @param {Api.GangSummary} gang */
export function idOf({ namespace, name }) {
  return `${namespace}/${name}`;
}

/** @param {{state: Api.GangSummary["state"]}} gang or one of its past states */
export function stateOf({ state }) {
  const [sign, look] = WELL.has(state)
    ? ["sign-good", "up"]
    : ON_THEIR_WAY.has(state)
      ? ["sign-note", "unconfirmed"]
      : ["sign-bad", "down"];
  const known = t(`state_${state}`);
  return h(
    "span",
    { class: `state ${look}` },
    h("span", { class: `sign ${sign}`, "aria-hidden": "true" }),
    known === `state_${state}` ? state : known,
  );
}

/**
 * The job in a few words: pods, GPUs of each, GPUs of a group.
 * @param {Api.GangSummary} gang
 */
export function jobText({ pods, gpus_per_pod: gpus, group_size: size }) {
  return size === null ? t("job_text", { pods, gpus }) : t("job_groups_text", { pods, gpus, size });
}

/**
 * The same job, to be placed by hand.
 * @param {Api.Gang} gang
 */
export function jobOfGang({ pods, gpus_per_pod, group_size, mode, within, ...nodes }) {
  return {
    ...jobOf(new URLSearchParams()),
    ...wordsOf(nodes),
    pods: String(pods),
    gpus_per_pod: String(gpus_per_pod),
    group_size: String(group_size ?? ""),
    mode,
    within: within ?? "",
  };
}

/**
 * Says that what stands below is of a moment ago, or that there is nothing, where nothing newer is
 * known.
 * @param {number} at_ms
 * @param {import("./api.js").Refused | null} trouble
 * @returns {Child[]}
 */
export function ageOf(at_ms, trouble) {
  const said = trouble === null ? "" : [trouble.message, trouble.fix].filter(Boolean).join(" · ");
  if (Number.isNaN(at_ms)) return said === "" ? [] : [h("p", { class: "old" }, said)];
  const words = t("gangs_of", { clock: clock(at_ms) });
  return [h("p", { class: said === "" ? "old only-lost" : "old" }, words, " ", said)];
}

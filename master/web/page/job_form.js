// The form of a job that is to be placed, and of what is assumed of nodes.

import { h, refill } from "./dom.js";
import { ASSUMED, queryOf, toggled } from "./job.js";
import { JobFields, offered } from "./job_fields.js";
import { spoken, t } from "./strings.js";

/** @typedef {import("./job.js").Job} Job */
/** @typedef {import("./job.js").Assumed} Assumed */

const TOOLS = /** @type {const} */ (["look", ...ASSUMED]);
/** So many nodes of which something is assumed are listed; the map shows all. */
const LISTED = 50;

/** The fields and the buttons; what they say is told as a job. */
export class JobForm {
  /** @param {(job: Job) => void} told of another job than the one that was shown */
  constructor(told) {
    this.told = told;
    this.element = h("form", { class: "job", novalidate: true });
    this.element.addEventListener("change", (event) => this.edited(event));
    this.element.addEventListener("submit", (event) => {
      event.preventDefault();
      this.told(this.read());
    });
    this.fields = new JobFields();
    this.assumptions = h("div", { class: "assumptions" });
    this.said = h("p", { class: "quiet", role: "status" });
    /** @type {Map<string, Assumed>} */
    this.assumed = new Map();
    /** What a click on the map means: to look at what is there, or to assume something of it. */
    this.tool = /** @type {"look" | Assumed} */ ("look");
    this.language = "";
    this.shown = "";
  }

  /**
   * @param {Job} job
   * @param {import("./picture.js").Picture} picture
   */
  show(job, picture) {
    const is_new = this.language !== spoken();
    if (is_new) this.build();
    this.offer(picture);
    const query = String(queryOf(job));
    if (!is_new && query === this.shown) return;
    this.shown = query;
    this.assumed = job.assumed;
    this.fields.write(job, job.pods === "" ? usualOf(picture) : {});
    this.listAssumed();
  }

  /** The job that the fields say. */
  read() {
    return { ...this.fields.read(), assumed: this.assumed };
  }

  build() {
    this.language = spoken();
    this.fields = new JobFields();
    refill(this.element, [
      this.fields.first,
      this.fields.more,
      h("button", { class: "primary", "data-key": "place" }, t("place_it")),
      h(
        "fieldset",
        {},
        h("legend", {}, t("what_if")),
        h("p", { class: "quiet" }, t("what_if_text")),
        h(
          "div",
          { class: "tools-of-map" },
          TOOLS.map((tool) => this.toolButton(tool)),
        ),
        this.said,
        this.assumptions,
      ),
    ]);
  }

  /** @param {(typeof TOOLS)[number]} tool */
  toolButton(tool) {
    const attributes = { type: "radio", name: "tool", value: tool, checked: tool === this.tool };
    return h("label", {}, h("input", attributes), t(`tool_${tool}`));
  }

  /** @param {Event} event */
  edited({ target }) {
    if (target instanceof HTMLInputElement && target.name === "tool") {
      this.tool = /** @type {"look" | Assumed} */ (target.value);
      this.say(this.tool === "look" ? "" : t("tool_help"));
    } else if (this.shown !== "") this.told(this.read());
  }

  /** @param {string} words */
  say(words) {
    this.said.textContent = words;
  }

  /**
   * The kinds and the models that there are, to choose from.
   * @param {import("./picture.js").Picture} picture
   */
  offer(picture) {
    const kinds = new Set([...picture.groups.values()].map(({ kind }) => kind));
    const types = new Set([...picture.nodes.values()].map(({ node }) => node.gpu_type));
    for (const kind of kinds) offered(this.fields.by_name["within"], kind);
    for (const type of types) if (type !== "") offered(this.fields.by_name["gpu_type"], type);
  }

  listAssumed() {
    const all = [...this.assumed];
    refill(this.assumptions, [
      h(
        "ul",
        {},
        all.slice(0, LISTED).map(([node, word]) =>
          h(
            "li",
            {},
            h("b", { class: `assumed ${word}` }, t(`assume_${word}`)),
            h("bdi", {}, node),
            h(
              "button",
              {
                type: "button",
                "aria-label": t("assume_no_more", { name: node }),
                "data-key": `assume ${node}`,
                onclick: () => this.told(toggled(this.read(), [node], word)),
              },
              "✕",
            ),
          ),
        ),
        all.length > LISTED && h("li", { class: "quiet" }, `+${all.length - LISTED}`),
      ),
      all.length > 1 &&
        h(
          "button",
          {
            type: "button",
            "data-key": "assume nothing",
            onclick: () => this.told({ ...this.read(), assumed: new Map() }),
          },
          t("assume_nothing"),
        ),
    ]);
  }
}

/**
 * A job to begin with: two pods of as many GPUs as most nodes have.
 * @param {import("./picture.js").Picture} picture
 * @returns {Partial<Record<string, string>>}
 */
function usualOf(picture) {
  /** @type {Map<number, number>} */
  const counts = new Map();
  for (const { node } of picture.nodes.values()) {
    if (node.gpus > 0) counts.set(node.gpus, (counts.get(node.gpus) ?? 0) + 1);
  }
  const most = [...counts].sort((one, two) => two[1] - one[1])[0];
  return { pods: "2", gpus_per_pod: String(most?.[0] ?? 8) };
}

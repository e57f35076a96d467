// The fields of a job that is placed by hand: those that every job has, and, folded, the others.

import { h } from "./dom.js";
import { FIELDS } from "./job.js";
import { LISTS, linesOf } from "./job_nodes.js";
import { t } from "./strings.js";

/** @typedef {import("./job.js").Job} Job */
/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */
/** @typedef {(typeof FIELDS)[number] | (typeof LISTS)[number]} Name */

const NUMBERS = new Set(["pods", "gpus_per_pod", "group_size"]);
/**
 * What may be chosen, and how that is said.
 * @type {Partial<Record<Name, Record<string, string>>>}
 */
const OPTIONS = {
  mode: { required: "mode_required", preferred: "mode_preferred" },
  within: { "": "any" },
  gpu_type: { "": "any" },
  usage: { "": "not_said", training: "usage_training", inference: "usage_inference" },
};
const FOLDED = /** @type {const} */ (["usage", ...LISTS]);

/** The elements, and the job as they say it. */
export class JobFields {
  constructor() {
    /** @type {Record<string, Field>} */
    this.by_name = {};
    /** @type {Partial<Record<Name, string>>} */
    this.written = {};
    const first = FIELDS.filter((name) => name !== "usage");
    this.first = h(
      "div",
      { class: "fields" },
      first.map((name) => this.labelled(name)),
    );
    this.more = h(
      "details",
      {},
      h("summary", {}, t("job_more")),
      FOLDED.map((name) => h("div", { class: "folded" }, this.labelled(name), hint(name))),
    );
  }

  /** @param {Name} name */
  labelled(name) {
    const field = fieldOf(name);
    this.by_name[name] = field;
    return h("label", {}, h("span", {}, t(`job_${name}`)), field);
  }

  /**
   * @param {Job} job
   * @param {Partial<Record<string, string>>} usual what stands where the job says nothing
   */
  write(job, usual) {
    for (const name of FIELDS) {
      const value = job[name] || (usual[name] ?? "");
      if (value !== "") offered(this.by_name[name], value);
      this.put(name, value || (name === "mode" ? "required" : ""));
    }
    for (const name of LISTS) this.put(name, job[name].join("\n"));
    if (FOLDED.some((name) => job[name].length > 0)) this.unfold();
  }

  /**
   * What somebody writes in one field stays while the job becomes another by the one before.
   * @param {Name} name
   * @param {string} value
   */
  put(name, value) {
    const field = this.by_name[name];
    if (field === undefined || this.written[name] === value) return;
    this.written[name] = value;
    field.value = value;
  }

  /** The job without what is assumed of nodes. */
  read() {
    const said = (/** @type {Name} */ name) => this.by_name[name]?.value.trim() ?? "";
    const fields = FIELDS.map((name) => [name, said(name)]);
    const lists = LISTS.map((name) => [name, linesOf(said(name))]);
    return /** @type {Omit<Job, "assumed">} */ (Object.fromEntries([...fields, ...lists]));
  }

  /** @param {string} where the master's word for what it refused; empty for nothing */
  refused(where) {
    const [refused] = where.split(".");
    for (const [name, field] of Object.entries(this.by_name)) {
      if (name === refused) field.setAttribute("aria-invalid", "true");
      else field.removeAttribute("aria-invalid");
      if (name === refused && this.more.contains(field)) this.unfold();
    }
  }

  unfold() {
    this.more.setAttribute("open", "");
  }
}

/**
 * @param {Name} name
 * @returns {Field}
 */
function fieldOf(name) {
  const is_folded = FOLDED.some((each) => each === name);
  const hinted = is_folded && { "aria-describedby": `hint-${name}` };
  const attributes = { id: `job-${name}`, name, ...hinted };
  return /** @type {Field} */ (elementOf(name, attributes));
}

/**
 * @param {Name} name
 * @param {Record<string, unknown>} attributes
 */
function elementOf(name, attributes) {
  if (NUMBERS.has(name)) {
    return h("input", { ...attributes, type: "number", min: 1, inputmode: "numeric" });
  }
  const options = OPTIONS[name];
  if (options === undefined) return h("textarea", { ...attributes, rows: 1, spellcheck: "false" });
  const said = Object.entries(options);
  return h(
    "select",
    attributes,
    said.map(([value, words]) => h("option", { value }, t(words))),
  );
}

/** @param {string} name */
function hint(name) {
  return h("small", { id: `hint-${name}`, class: "quiet" }, t(`hint_${name}`));
}

/**
 * Makes a word one that can be chosen, as it is where nothing else is said for it.
 * @param {Element | undefined} select
 * @param {string} value
 */
export function offered(select, value) {
  if (!(select instanceof HTMLSelectElement)) return;
  if ([...select.options].some((option) => option.value === value)) return;
  select.append(h("option", { value }, value));
}

// The panel of placement by hand: a form for the job, what is assumed of nodes, the master's answer,
// which the map draws, and the command that asks the same. The address alone holds the job.

import { Refused, ask } from "./api.js";
import { answerOf } from "./answer.js";
import { badgesOf } from "./badges.js";
import { commandLine } from "./command.js";
import { h, refill } from "./dom.js";
import { bodyOf, changed, commandOf, jobOf, queryOf, toggled } from "./job.js";
import { JobForm } from "./job_form.js";
import { flawOf } from "./job_nodes.js";
import { hashOf } from "./route.js";
import { clock, spoken, t } from "./strings.js";

/** @typedef {import("./job.js").Job} Job */
/** @typedef {{query: string, version: string}} Asked a job, and the forest that it was asked of */

/** Of a forest that changes the same is asked after so long, or so many times what it took last. */
const REST_MS = 1000;
const REST_FACTOR = 4;
const NONE = { query: "", version: "" };

/** A panel; see `panels.js`. */
export class Placing {
  /** @param {import("./map.js").ForestMap} map */
  constructor(map) {
    this.map = map;
    this.form = new JobForm((job) => go(job));
    this.element = h("div", { class: "answer", role: "status" });
    /** @type {import("./picture.js").Picture | null} */
    this.picture = null;
    this.job = jobOf(new URLSearchParams());
    this.asked = /** @type {Asked} */ (NONE);
    this.stop = new AbortController();
    this.is_busy = false;
    /** @type {{job: Job, found: Api.Placement | Refused, at_ms: number} | null} */
    this.answer = null;
    this.drawn = "";
  }

  /**
   * @param {import("./route.js").Place} place
   * @param {HTMLElement} room
   * @param {import("./picture.js").Picture} picture
   */
  show(place, room, picture) {
    this.picture = picture;
    this.job = jobOf(place.query);
    if (!room.contains(this.element)) {
      refill(room, [
        h("h2", { "data-t": "place_job" }, t("place_job")),
        this.form.element,
        this.element,
      ]);
    }
    this.form.show(this.job, picture);
    this.map.mark({ assumed: this.job.assumed });
    if (spoken() !== this.drawn) this.draw();
    this.follow();
  }

  leave() {
    this.forget();
    this.form = new JobForm((job) => go(job));
    this.map.mark({ assumed: new Map() });
  }

  forget() {
    this.stop.abort();
    this.is_busy = false;
    this.asked = NONE;
    this.answer = null;
    this.draw();
  }

  /** Asks where the job or the forest is another than the one that was asked. */
  follow() {
    if (this.picture === null) return;
    const { run, generation, capacity_version } = this.picture.document;
    const query = String(queryOf(this.job));
    const version = `${run} ${generation} ${capacity_version}`;
    const is_other = query !== this.asked.query;
    if (this.job.pods === "") {
      if (this.asked !== NONE) this.forget();
    } else if (is_other || (version !== this.asked.version && !this.is_busy)) {
      if (is_other) this.element.setAttribute("aria-busy", "true");
      void this.ask({ query, version });
    }
  }

  /** @param {Asked} asked */
  async ask(asked) {
    const { job } = this;
    this.stop.abort();
    this.stop = new AbortController();
    const { signal } = this.stop;
    this.asked = asked;
    this.is_busy = true;
    const began_ms = performance.now();
    try {
      const flaw = flawOf(job);
      if (flaw !== null) throw flaw;
      const { document } = await ask("v1/placements", { body: bodyOf(job), signal });
      this.answer = { job, found: document, at_ms: Date.now() };
    } catch (error) {
      if (signal.aborted) return;
      if (!(error instanceof Refused)) throw error;
      this.answer = { job, found: error, at_ms: Date.now() };
      // What was not judged is asked again with the next picture.
      if (error.status === 0 || error.status >= 500) this.asked = { ...asked, version: "" };
    }
    this.draw();
    const rest_ms = Math.max(REST_MS, REST_FACTOR * (performance.now() - began_ms));
    await new Promise((resolve) => setTimeout(resolve, rest_ms));
    if (signal.aborted) return;
    this.is_busy = false;
    if (this.asked.version !== "") this.follow();
  }

  draw() {
    this.drawn = spoken();
    this.element.removeAttribute("aria-busy");
    const { answer } = this;
    const found = answer?.found;
    const plan = found && "feasible" in found && found.feasible ? found.groups : [];
    this.map.mark({ pods: badgesOf(plan) });
    this.form.fields.refused(found instanceof Refused ? found.field : "");
    refill(this.element, answer === null ? [] : this.said(answer));
  }

  /**
   * @param {NonNullable<Placing["answer"]>} answer
   * @returns {Child[]}
   */
  said({ job, found, at_ms }) {
    if (found instanceof Refused) return [refused(flawOf(job) ?? found)];
    return [
      h("p", { class: "old only-lost" }, t("answer_of", { clock: clock(at_ms) })),
      ...answerOf(found, {
        use: (suggestion) => go(changed(job, suggestion)),
        light: (names) => this.map.mark({ lit: new Set(names) }),
      }),
      commandLine(commandOf(job)),
    ];
  }

  /**
   * A click on the map assumes what the form says, of a node or of all nodes of a group.
   * @param {import("./map.js").Target | null} target
   */
  takes(target) {
    const { tool } = this.form;
    if (tool === "look") return false;
    const nodes = target === null ? [] : this.nodesOf(target);
    if (nodes.length > 0) go(toggled(this.form.read(), nodes, tool));
    return true;
  }

  /** @param {import("./map.js").Target} target */
  nodesOf({ kind, name }) {
    if (kind === "node") return [name];
    const nodes = [...(this.picture?.nodes ?? [])];
    const inside = nodes.filter(([, { path }]) => `${path.join("/")}/`.startsWith(`${name}/`));
    return kind === "group" ? inside.map(([node]) => node) : [];
  }

  /**
   * A node that was gone to by keys, which Enter takes.
   * @param {string} name
   */
  reached(name) {
    const { tool } = this.form;
    if (tool === "look") return false;
    this.form.say(t("enter_takes", { name, word: t(`assume_${tool}`) }));
    return true;
  }
}

/** @param {Job} job */
function go(job) {
  location.hash = hashOf("place", "", queryOf(job));
}

/** @param {Refused} error */
function refused({ message, fix, field }) {
  const words = field === "" ? message : `${field}: ${message}`;
  return h("p", { class: "old" }, h("b", {}, words), " ", fix);
}

// The forest as it was: which moment is looked at, its picture, and what differs from it.

import { Refused, ask } from "./api.js";
import { pictureOf } from "./picture.js";

const LISTED = "500";
/** A moment is kept a second after it came at the latest. */
const KEPT_MS = 2_000;
const LIST_AGAIN_MS = 60_000;
/** A slider that is dragged asks for the moment at which it rests. */
const REST_MS = 120;

/**
 * @typedef {object} Then the moment that is looked at
 * @property {string} at since when it was so
 * @property {import("./picture.js").Picture} picture
 * @property {Api.Change[]} before what led to it from the moment before
 * @property {Api.Change[]} after what has changed since
 */

/** Who is told: of another picture, list or failure, and that it is live again. */
export class Past {
  /** @param {{shown: () => void, listed: () => void, left: () => void}} told */
  constructor(told) {
    this.told = told;
    /** @type {Api.Moment[]} */
    this.moments = [];
    /** @type {Then | null} */
    this.then = null;
    this.failure = "";
    /** What is asked for, and not shown yet. */
    this.wanted = "";
    this.ahead_ms = 0;
    this.due_ms = 0;
    this.turn = 0;
    this.generation = -1;
  }

  /** Seconds since a time of the master, by the master's clock. @param {string} at */
  age_s(at) {
    return Math.max(0, (Date.now() + this.ahead_ms - Date.parse(at)) / 1000);
  }

  /** What of the address is looked at; empty for what is now. */
  static asked() {
    return new URLSearchParams(location.search).get("at") ?? "";
  }

  /**
   * Called every second: the list follows the forest.
   * @param {import("./picture.js").Picture | null} live
   */
  async tick(live) {
    if (live === null) return;
    const now_ms = performance.now();
    const { generation } = live.document;
    if (generation !== this.generation) this.due_ms = Math.min(this.due_ms, now_ms + KEPT_MS);
    this.generation = generation;
    if (now_ms < this.due_ms) return;
    this.due_ms = now_ms + LIST_AGAIN_MS;
    try {
      await this.list();
      const { then } = this;
      if (then !== null) {
        const after = await difference({ from: then.at });
        if (then === this.then) then.after = after;
      }
      this.told.listed();
    } catch (error) {
      if (!(error instanceof Refused)) throw error; // another time: the stage says what is lost
    }
  }

  async list() {
    const { document } = await ask("v1/history", { query: { limit: LISTED } });
    this.ahead_ms = Date.parse(document.now) - Date.now();
    this.moments = document.moments;
  }

  /** @param {string} at a moment; empty for what is now */
  open(at) {
    this.turn += 1;
    this.failure = "";
    this.wanted = at;
    if (at === "") {
      this.then = null;
      keepAddress("");
      this.told.left();
      return;
    }
    const { turn } = this;
    this.told.listed();
    setTimeout(() => {
      if (turn === this.turn) void this.fetch(at, turn);
    }, REST_MS);
  }

  /**
   * @param {string} at
   * @param {number} turn
   */
  async fetch(at, turn) {
    try {
      if (this.moments.length === 0) await this.list();
      const { document } = await ask("v1/topology", { query: { at } });
      const since = document.as_of?.at ?? at;
      const earlier = this.moments.findLast((moment) => moment.at < since)?.at;
      const [after, before] = await Promise.all([
        difference({ from: since }),
        earlier === undefined ? [] : difference({ from: earlier, to: since }),
      ]);
      if (turn !== this.turn) return;
      const judged = { generation: document.generation, run: document.run, findings: [] };
      const picture = pictureOf(uncounted(document), judged, 0);
      this.then = { at: since, picture, before, after };
      keepAddress(since);
      this.wanted = "";
      this.told.shown();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (turn !== this.turn) return;
      this.wanted = "";
      this.failure = [error.message, error.fix].filter(Boolean).join(" · ");
      this.told.listed();
    }
  }
}

/** @param {Record<string, string>} query */
async function difference(query) {
  const { document } = await ask("v1/topology/diff", { query });
  return /** @type {Api.Change[]} */ (document.changes);
}

/**
 * The forest without its GPUs: which of them were free is not kept, and none is shown as such.
 * @param {Api.Topology} document
 */
function uncounted(document) {
  /** @param {Api.Node | Api.Group} vertex */
  const enter = (vertex) => {
    if ("child" in vertex) {
      vertex.capacity.gpus = 0;
      vertex.child.forEach(enter);
    } else {
      vertex.gpus = 0;
    }
  };
  document.groups.forEach(enter);
  document.unplaced.forEach(enter);
  return document;
}

/** @param {string} at */
function keepAddress(at) {
  const url = new URL(location.href);
  if (at === "") url.searchParams.delete("at");
  else url.searchParams.set("at", at);
  if (url.href !== location.href) history.replaceState(null, "", url);
}

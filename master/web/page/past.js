// The forest as it was: which moment is looked at, its picture, and what differs from it.

import { Refused, ask } from "./api.js";
import { pictureOf } from "./picture.js";

const LISTED = "500";
/** A moment is kept a second after it came at the latest. */
const KEPT_MS = 2_000;
const LIST_AGAIN_MS = 60_000;
/** A slider that is dragged asks for the moment at which it rests. */
const REST_MS = 120;
/** @type {Pick<Api.Diff, "changes">} */
const NONE = { changes: [] };

/**
 * @typedef {object} Then the moment that is looked at
 * @property {string} at since when it was so
 * @property {import("./picture.js").Picture} picture
 * @property {Api.Change[]} before what led to it from the moment before
 * @property {Api.Change[]} after what has changed since
 * @property {Compared | null} compared with another moment; null where that is now
 */

/**
 * @typedef {object} Compared what differs from the moment that is looked at
 * @property {string} at since when the other moment was so
 * @property {string} from the earlier of both
 * @property {string} to
 * @property {Api.Change[]} changes
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
    /** The other moment, that this one is compared with; empty for what is now. */
    this.other = "";
    this.ahead_ms = 0;
    this.due_ms = 0;
    this.turn = 0;
    this.generation = -1;
  }

  /** Seconds since a time of the master, by the master's clock. @param {string} at */
  age_s(at) {
    return Math.max(0, (Date.now() + this.ahead_ms - Date.parse(at)) / 1000);
  }

  /** Opens what the address names: a moment, and one to compare it with; else what is now. */
  openAsked() {
    const query = new URLSearchParams(location.search);
    this.open(query.get("at") ?? "", query.get("with") ?? "");
  }

  /** @param {string} other a moment; empty for what is now */
  compare(other) {
    this.open(this.wanted || (this.then?.at ?? ""), other);
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
        const { changes: after } = await difference({ from: then.at });
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

  /**
   * @param {string} at a moment; empty for what is now
   * @param {string} other what it is compared with
   */
  open(at, other = this.other) {
    this.turn += 1;
    this.failure = "";
    this.wanted = at;
    this.other = at === "" ? "" : other;
    if (at === "") {
      this.then = null;
      keepAddress("", "");
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
      const [found, after, before, compared] = await Promise.all([
        ask("v1/findings", { query: { at: since } }),
        difference({ from: since }),
        earlier === undefined ? NONE : difference({ from: earlier, to: since }),
        this.other === "" ? null : comparison(since, this.other),
      ]);
      if (turn !== this.turn) return;
      const picture = pictureOf(uncounted(document), found.document, 0);
      this.then = {
        at: since,
        picture,
        before: before.changes,
        after: after.changes,
        compared,
      };
      this.wanted = "";
      this.other = compared?.at ?? "";
      keepAddress(since, this.other);
      this.told.shown();
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (turn !== this.turn) return;
      this.wanted = "";
      this.other = this.then?.compared?.at ?? "";
      this.failure = [error.message, error.fix].filter(Boolean).join(" · ");
      this.told.listed();
    }
  }
}

/**
 * @param {Record<string, string>} query
 * @returns {Promise<Api.Diff>}
 */
async function difference(query) {
  return (await ask("v1/topology/diff", { query })).document;
}

/**
 * What differs between two moments, from the earlier to the later.
 * @param {string} at
 * @param {string} other
 * @returns {Promise<Compared>}
 */
async function comparison(at, other) {
  const is_earlier = other < at;
  const ends = is_earlier ? { from: other, to: at } : { from: at, to: other };
  const { from_at: from, to_at: to, changes } = await difference(ends);
  return { at: is_earlier ? from : to, from, to, changes };
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
      vertex.is_uncounted = true;
    }
  };
  document.groups.forEach(enter);
  document.unplaced.forEach(enter);
  return document;
}

/**
 * @param {string} at
 * @param {string} other
 */
function keepAddress(at, other) {
  const url = new URL(location.href);
  for (const [name, moment] of Object.entries({ at, with: other })) {
    if (moment === "") url.searchParams.delete(name);
    else url.searchParams.set(name, moment);
  }
  if (url.href !== location.href) history.replaceState(null, "", url);
}

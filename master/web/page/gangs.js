// The jobs whose pods go together, as the master had them last. No event tells of them: they are
// asked for while somebody looks, at most so often, and what is old is told as old.

import { Refused, ask } from "./api.js";

const POLL_MS = 5_000;
/** After an answer that took long, so many times that. */
const REST_FACTOR = 4;

/**
 * @typedef {object} Known
 * @property {Api.GangSummary[]} gangs in the order of their turns, then the others
 * @property {number} at_ms when they were so, on the clock of the day; NaN while nobody has said
 * @property {Refused | null} trouble why there is nothing newer
 * @property {Api.Off | null} off why the master that is looked at places none
 */

/** @type {Known} */
export const NOTHING = { gangs: [], at_ms: NaN, trouble: null, off: null };

/** Asks again and again, for one page. */
export class Gangs {
  /** @param {() => void} told that something is known anew */
  constructor(told) {
    this.told = told;
    this.known = NOTHING;
    this.is_asking = false;
    this.next_ms = 0;
    /** The run of the master that places none: it is not asked again. */
    this.none_at = "";
  }

  /**
   * Called every second or so.
   * @param {string} run of the master
   * @param {boolean} is_live
   */
  tick(run, is_live) {
    const is_due = performance.now() >= this.next_ms && run !== this.none_at;
    if (is_live && is_due && !this.is_asking && !document.hidden) void this.ask(run);
  }

  /** @param {string} run */
  async ask(run) {
    this.is_asking = true;
    const began_ms = performance.now();
    try {
      const answer = await ask("v1/gangs");
      const { gangs, off = null } = answer.document;
      this.known = { gangs, at_ms: Date.now(), trouble: null, off };
      this.none_at = off === null ? "" : run;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.known = { ...this.known, trouble: error };
    } finally {
      this.is_asking = false;
      const took_ms = performance.now() - began_ms;
      this.next_ms = began_ms + Math.max(POLL_MS, REST_FACTOR * took_ms);
    }
    this.told();
  }
}

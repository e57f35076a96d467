// Keeps the picture true: fetches it, follows the stream, and says how old it is when it cannot.

import { Refused, ask } from "./api.js";
import { pictureOf, recount } from "./picture.js";
import { follow } from "./stream.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
/** A picture is fetched again only after so many times what the last fetch took. */
const REST_FACTOR = 4;
const REST_MS = 200;
const BEHIND_MS = 500;

/**
 * @typedef {object} State
 * @property {"starting" | "live" | "lost"} stage
 * @property {number} since_ms when this stage began, on the clock of `performance.now`
 * @property {string} why it is lost
 * @property {string} fix
 * @property {number} true_ms when the picture was known to be true last; NaN where there is none
 */

/** One follower of one master. */
export class Live {
  /**
   * @param {{picture: (picture: import("./picture.js").Picture) => void,
   *   counts: () => void, state: (state: State) => void}} told
   */
  constructor(told) {
    this.told = told;
    /** @type {import("./picture.js").Picture | null} */
    this.picture = null;
    /** @type {State} */
    this.state = {
      stage: "starting",
      since_ms: performance.now(),
      why: "",
      fix: "",
      true_ms: NaN,
    };
    this.is_wanted = false;
    this.is_fetching = false;
    /** @type {AbortController} */
    this.connection = new AbortController();
    /** The generation that an event told of; the picture is behind while it has a lower one. */
    this.told_of = { generation: 0 };
  }

  /** Works until the page is closed. */
  async run() {
    for (let wait_ms = FIRST_WAIT_MS; ;) {
      this.connection = new AbortController();
      try {
        await this.fetch();
        this.enter("live");
        wait_ms = FIRST_WAIT_MS;
        await this.listen();
        throw new Refused(0, "the master ended the stream");
      } catch (error) {
        this.connection.abort();
        const { message, fix = "" } = /** @type {Refused} */ (error);
        this.enter("lost", message, fix);
      }
      await pause(wait_ms * (0.5 + Math.random()));
      wait_ms = Math.min(2 * wait_ms, LONGEST_WAIT_MS);
    }
  }

  /**
   * @param {State["stage"]} stage
   * @param {string} why
   * @param {string} fix
   */
  enter(stage, why = "", fix = "") {
    const is_new = stage !== this.state.stage;
    const since_ms = is_new ? performance.now() : this.state.since_ms;
    this.state = { ...this.state, stage, since_ms, why, fix };
    this.told.state(this.state);
  }

  async listen() {
    const { document } = /** @type {import("./picture.js").Picture} */ (this.picture);
    this.told_of = { generation: 0 };
    const since = `${document.generation}.${document.run}`;
    for await (const event of follow(since, this.connection.signal)) {
      if (!this.is_wanted && !this.is_fetching) this.confirm();
      if (event.name === "comment") this.look();
      else this.take(event);
    }
  }

  /** Ages stand in what is wrong, so that is asked for again with each sign of life. */
  look() {
    if ((this.picture?.findings.length ?? 0) > 0) this.want();
  }

  /** @param {import("./stream.js").StreamEvent} event */
  take(event) {
    if (event.name === "hold") return;
    const data = JSON.parse(event.data);
    if (event.name !== "capacity") {
      this.told_of = data;
      this.want();
    } else if (this.picture !== null && recount(this.picture, data)) {
      if (data.nodes.length + data.groups.length > 0) this.told.counts();
    } else {
      this.want();
    }
  }

  /** Fetches again: at once, or when the fetch that is under way is done. */
  want() {
    this.is_wanted = true;
    if (!this.is_fetching) void this.renew(this.connection);
  }

  /** @param {AbortController} connection */
  async renew(connection) {
    this.is_fetching = true;
    try {
      while (this.is_wanted && !connection.signal.aborted) {
        const began_ms = performance.now();
        this.is_wanted = false;
        await this.fetch();
        const behind = (this.picture?.document.generation ?? 0) < this.told_of.generation;
        const took_ms = performance.now() - began_ms;
        await pause(behind ? BEHIND_MS : Math.max(REST_MS, REST_FACTOR * took_ms));
        if (behind) this.is_wanted = true;
      }
    } catch (error) {
      connection.abort(error);
    } finally {
      this.is_fetching = false;
    }
  }

  async fetch() {
    const { signal } = this.connection;
    const [forest, found] = await Promise.all([
      ask("v1/topology", { signal }),
      ask("v1/findings", { signal }),
    ]);
    this.picture = pictureOf(forest.document, found.document.findings, forest.copy_age_s);
    this.confirm();
    this.told.picture(this.picture);
  }

  confirm() {
    this.state = { ...this.state, true_ms: performance.now() };
  }
}

/**
 * Waits, or until the network or the page comes back.
 * @param {number} ms
 * @returns {Promise<void>}
 */
function pause(ms) {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      removeEventListener("online", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    addEventListener("online", end);
  });
}

// Keeps the picture true: fetches it, follows the stream, and says how old it is when it cannot.

import { OFFLINE, Refused, ask } from "./api.js";
import { AS_PLANNED, DIFFER, cablesOf } from "./cables.js";
import { judge, pictureOf, recount } from "./picture.js";
import { SILENCE_MS, follow } from "./stream.js";

const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 5_000;
/** A picture is fetched again only after so many times what the last fetch took. */
const REST_FACTOR = 4;
const REST_MS = 200;
const BEHIND_MS = 500;
/** No event tells of a source that fails, nor of ages: a picture that is so old is fetched again. */
const LOOK_MS = 15_000;
/** A page in the background ticks once a minute. */
const SLEPT_MS = 90_000;

/**
 * @typedef {object} State
 * @property {"starting" | "live" | "lost"} stage
 * @property {number} since_ms when this stage began, on the clock of the day, as this browser has it;
 *   of a lost one: when the picture was known to be true last, or when somebody began to wait for one
 * @property {string} why it is lost
 * @property {string} fix
 * @property {number} true_ms when the picture was known to be true last; NaN where there is none
 */

/** One try to follow: what was asked of it ends with it. */
class Connection {
  stop = new AbortController();
  /** Whether the picture is to be fetched again, and whether that is under way. */
  is_wanted = false;
  is_fetching = false;
  /** The id of the last event that tells of a change. */
  told_of = "";
}

/** One follower of one master. */
export class Live {
  /**
   * @param {{picture: (picture: import("./picture.js").Picture) => void,
   *   judged: () => void, counts: () => void, state: (state: State) => void}} told
   */
  constructor(told) {
    this.told = told;
    /** @type {import("./picture.js").Picture | null} */
    this.picture = null;
    /** @type {State} */
    this.state = {
      stage: "starting",
      since_ms: Date.now(),
      why: "",
      fix: "",
      true_ms: NaN,
    };
    this.connection = new Connection();
    this.ticked_ms = Date.now();
    /** When the picture and what is wrong were fetched last. */
    this.fetched_ms = -Infinity;
    this.wait_ms = FIRST_WAIT_MS;
  }

  /** Works until the page is closed. */
  async run() {
    addEventListener("offline", () => this.leave());
    addEventListener("online", () => this.hasten());
    for (;;) {
      this.connection = new Connection();
      try {
        await this.fetch();
        await this.listen();
        throw new Refused(0, "the master ended the stream");
      } catch (error) {
        this.connection.stop.abort();
        const { message, fix = "" } = /** @type {Refused} */ (error);
        this.enter("lost", message, fix);
      }
      await pause(this.wait_ms * (0.5 + Math.random()));
      this.wait_ms = Math.min(2 * this.wait_ms, LONGEST_WAIT_MS);
    }
  }

  /**
   * @param {State["stage"]} stage
   * @param {string} why
   * @param {string} fix
   */
  enter(stage, why = "", fix = "") {
    const is_new = stage !== this.state.stage;
    const heard_ms = this.state.true_ms || this.state.since_ms;
    const began_ms = stage === "lost" ? heard_ms : Date.now();
    const since_ms = is_new ? began_ms : this.state.since_ms;
    this.state = { ...this.state, stage, since_ms, why, fix };
    this.told.state(this.state);
  }

  async listen() {
    const { document } = /** @type {import("./picture.js").Picture} */ (this.picture);
    const { connection } = this;
    const since = `${document.generation}.${document.run}`;
    for await (const event of follow(since, connection.stop.signal)) {
      connection.stop.signal.throwIfAborted();
      if (this.state.stage !== "live") this.enter("live");
      this.wait_ms = FIRST_WAIT_MS;
      if (!connection.is_wanted && !connection.is_fetching) this.confirm();
      const is_due = performance.now() - this.fetched_ms > LOOK_MS;
      if (event.name !== "comment") this.take(event);
      else if (is_due || this.isBehind("")) this.want();
    }
  }

  /** @param {import("./stream.js").StreamEvent} event */
  take(event) {
    if (event.name === "hold") return;
    const data = JSON.parse(event.data);
    if (event.name !== "capacity") {
      this.connection.told_of = event.id;
      this.want();
    } else if (this.picture !== null && recount(this.picture, data)) {
      if (data.nodes.length + data.groups.length > 0) this.told.counts();
    } else {
      this.want();
    }
  }

  /** Fetches again: at once, or when the fetch that is under way is done. */
  want() {
    const { connection } = this;
    connection.is_wanted = true;
    if (!connection.is_fetching) void this.renew(connection);
  }

  /** @param {Connection} connection */
  async renew(connection) {
    connection.is_fetching = true;
    try {
      while (connection.is_wanted && !connection.stop.signal.aborted) {
        const began_ms = performance.now();
        connection.is_wanted = false;
        await this.fetch();
        const is_behind = this.isBehind(connection.told_of);
        const took_ms = performance.now() - began_ms;
        await pause(is_behind ? BEHIND_MS : Math.max(REST_MS, REST_FACTOR * took_ms));
        if (is_behind) connection.is_wanted = true;
      }
    } catch (error) {
      connection.stop.abort(error);
    } finally {
      connection.is_fetching = false;
    }
  }

  /**
   * Whether the picture is of before an event, or what is wrong of before the picture: another
   * replica answered, which knows it later, or the answer was made a moment ago.
   * @param {string} id of the event; another run counts otherwise
   */
  isBehind(id) {
    const [generation, run] = id.split(".");
    const { document, judged } = /** @type {import("./picture.js").Picture} */ (this.picture);
    if (judged?.run === document.run && judged.generation < document.generation) return true;
    return run === document.run && document.generation < Number(generation);
  }

  async fetch() {
    if (this.picture === null) {
      await this.fetchFirst();
      return;
    }
    const { signal } = this.connection.stop;
    const [forest, found] = await Promise.all([
      ask("v1/topology", { signal }),
      ask("v1/findings", { signal }),
    ]);
    signal.throwIfAborted();
    const picture = pictureOf(forest.document, found.document, forest.copy_age_s);
    picture.cables = await this.fetchCables(picture);
    this.picture = picture;
    this.fetched_ms = performance.now();
    this.confirm();
    this.told.picture(this.picture);
  }

  /** The forest is shown before it is judged: of a large one the master makes one after the other. */
  async fetchFirst() {
    const { signal } = this.connection.stop;
    const forest = await ask("v1/topology", { signal });
    const picture = pictureOf(forest.document, null, forest.copy_age_s);
    picture.cables = await this.fetchCables(picture);
    this.picture = picture;
    this.confirm();
    this.told.picture(picture);
    judge(picture, (await ask("v1/findings", { signal })).document);
    this.fetched_ms = performance.now();
    this.told.judged();
  }

  /**
   * What the plan of the cables says of wires between nodes. The forest is shown without it, too: a
   * replica may not know it yet.
   * @param {import("./picture.js").Picture} picture
   */
  async fetchCables({ document, nodes }) {
    if (!document.warnings.some((each) => each.code === DIFFER)) return AS_PLANNED;
    const { signal } = this.connection.stop;
    try {
      return cablesOf((await ask("v1/wiring", { signal })).document, nodes);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof Refused) return AS_PLANNED;
      throw error;
    }
  }

  /**
   * The browser lost its network: a stream that stands may stay silent for long. A master on the
   * same machine answers the next try all the same.
   */
  leave() {
    this.connection.stop.abort(new Refused(0, OFFLINE));
    this.enter("lost", OFFLINE);
  }

  /** There is a network again: a try that began without one is given up for another. */
  hasten() {
    if (this.state.stage !== "lost") return;
    this.wait_ms = FIRST_WAIT_MS;
    this.connection.stop.abort(new Refused(0, "the network has just come back"));
  }

  /**
   * Called every second or so: a machine that slept has heard nothing, whatever its timers say, and
   * a first answer that is long in coming is said to be, while it is waited for.
   */
  tick() {
    const now_ms = Date.now();
    if (now_ms - this.ticked_ms > SLEPT_MS) {
      this.connection.stop.abort(new Refused(0, "this browser was asleep"));
    }
    this.ticked_ms = now_ms;
    const { stage, since_ms, true_ms } = this.state;
    if (stage === "starting" && now_ms - (true_ms || since_ms) > SILENCE_MS) {
      this.enter("lost", "no answer yet");
    }
  }

  confirm() {
    this.state = { ...this.state, true_ms: Date.now() };
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

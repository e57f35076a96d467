// Server-sent events over fetch. The browser's own EventSource hides the comments by which a
// stream shows that it still lives, and why a master refuses one.

import { Refused, address, parsed } from "./api.js";

/** The master writes at least every 2 s. */
export const SILENCE_MS = 5_000;
const LONGEST = 16 * 1024 * 1024;

/**
 * @typedef {object} StreamEvent
 * @property {string} name `comment` for a sign of life
 * @property {string} id such as `7.5e0c21af`, empty where it moves no place
 * @property {string} data
 */

/** Cuts the text of a stream into events (WHATWG HTML, 9.2.6), whatever pieces it comes in. */
export class EventReader {
  constructor() {
    this.rest = "";
  }

  /**
   * The events that are complete with this piece.
   * @param {string} piece
   * @returns {StreamEvent[]}
   */
  take(piece) {
    this.rest += piece;
    if (this.rest.length > LONGEST) throw new Refused(0, "the stream sends an event without end");
    const parts = this.rest.split("\n\n");
    this.rest = parts.pop() ?? "";
    return parts.map(eventOf);
  }
}

/**
 * @param {string} text one event without the empty line that ends it
 * @returns {StreamEvent}
 */
function eventOf(text) {
  let name = "comment";
  let id = "";
  /** @type {string[]} */
  const data = [];
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("id: ")) id = line.slice(4);
    else if (line.startsWith("data: ")) data.push(line.slice(6));
  }
  return { name, id, data: data.join("\n") };
}

/**
 * The events after a generation until the stream ends; throws `Refused` where it is not given,
 * breaks, or says nothing for `SILENCE_MS`.
 * @param {string} since such as `7.5e0c21af`
 * @param {AbortSignal} signal ends it; its reason is thrown where it is a `Refused`
 * @returns {AsyncGenerator<StreamEvent>}
 */
export async function* follow(since, signal) {
  const stop = new AbortController();
  const end = () => stop.abort(signal.reason);
  signal.addEventListener("abort", end);
  let timer = setTimeout(() => stop.abort(), SILENCE_MS);
  try {
    const answer = await fetch(address("v1/topology/events", { since }), {
      signal: stop.signal,
    });
    if (!answer.ok || answer.body === null) {
      const said = parsed(await answer.text()) ?? {};
      throw new Refused(answer.status, said.detail ?? `HTTP ${answer.status}`, said.fix);
    }
    const pieces = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    const reader = new EventReader();
    for (;;) {
      const { value, done } = await pieces.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(() => stop.abort(), SILENCE_MS);
      yield* reader.take(value);
    }
  } catch (error) {
    if (error instanceof Refused) throw error;
    if (signal.reason instanceof Refused) throw signal.reason;
    throw new Refused(0, stop.signal.aborted ? "the master fell silent" : "the stream broke off");
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", end);
    stop.abort();
  }
}

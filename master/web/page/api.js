// The calls of the master: each ends, and what it refuses is said in the master's own words.

/** A browser without a network still reaches a master on its own machine. */
export const OFFLINE = "this browser is offline";

const ANSWER_MS = 15_000;
const GET = { headers: { Accept: "application/json" } };
const POST = { method: "POST", headers: { ...GET.headers, "Content-Type": "application/json" } };

/** What the master, or the way to it, did not answer with. */
export class Refused extends Error {
  /**
   * @param {number} status 0 where nothing came back
   * @param {string} text
   * @param {string} fix
   * @param {string} field of what was sent that it is about; empty where it is about all
   */
  constructor(status, text, fix = "", field = "") {
    super(text);
    this.status = status;
    this.fix = fix;
    this.field = field;
  }
}

/**
 * The address of a call beside the page itself, so that it works behind a proxy's prefix too.
 * @param {string} path such as `v1/topology`
 * @param {Record<string, string>} query
 */
export function address(path, query = {}) {
  const url = new URL(path, document.baseURI);
  url.hash = "";
  url.search = new URLSearchParams(query).toString();
  return url;
}

/**
 * The document of a call, and how old a copy of it the replica has (0 at the master that leads).
 * Throws `Refused`, and what `signal` was aborted with.
 * @param {string} path
 * @param {{query?: Record<string, string>, body?: object, signal?: AbortSignal}} options with a
 *   body it is a POST
 * @returns {Promise<{document: any, copy_age_s: number}>}
 */
export async function ask(path, { query = {}, body: sent, signal } = {}) {
  const limit = AbortSignal.timeout(ANSWER_MS);
  const both = signal === undefined ? limit : AbortSignal.any([signal, limit]);
  let answer;
  let body;
  try {
    answer = await fetch(address(path, query), {
      signal: both,
      ...(sent === undefined ? GET : { ...POST, body: JSON.stringify(sent) }),
    });
    body = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    const nobody = navigator.onLine ? "nobody answers" : OFFLINE;
    throw new Refused(0, limit.aborted ? "no answer in 15 s" : nobody);
  }
  const document = parsed(body);
  if (!answer.ok || document === undefined) {
    const said = /** @type {Api.Problem} */ (document ?? {});
    const text = said.detail ?? `HTTP ${answer.status}`;
    throw new Refused(answer.status, text, said.fix, said.field);
  }
  return { document, copy_age_s: Number(answer.headers.get("Topo-Age") ?? 0) };
}

/**
 * The value of a text of JSON, undefined where it is none.
 * @param {string} text
 */
export function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

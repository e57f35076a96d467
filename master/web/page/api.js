// The calls of the master: each ends, and what it refuses is said in the master's own words.

const ANSWER_MS = 15_000;

/** What the master, or the way to it, did not answer with. */
export class Refused extends Error {
  /**
   * @param {number} status 0 where nothing came back
   * @param {string} text
   * @param {string} fix
   */
  constructor(status, text, fix = "") {
    super(text);
    this.status = status;
    this.fix = fix;
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
 * @param {{query?: Record<string, string>, signal?: AbortSignal}} options
 * @returns {Promise<{document: any, copy_age_s: number}>}
 */
export async function ask(path, { query = {}, signal } = {}) {
  const limit = AbortSignal.timeout(ANSWER_MS);
  const both = signal === undefined ? limit : AbortSignal.any([signal, limit]);
  let answer;
  let body;
  try {
    answer = await fetch(address(path, query), {
      signal: both,
      headers: { Accept: "application/json" },
    });
    body = await answer.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, limit.aborted ? "no answer in 15 s" : "nobody answers");
  }
  const document = parsed(body);
  if (!answer.ok || document === undefined) {
    const said = /** @type {Api.Problem} */ (document ?? {});
    throw new Refused(answer.status, said.detail ?? `HTTP ${answer.status}`, said.fix ?? "");
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

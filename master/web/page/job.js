// A job that is to be placed by hand: as the address has it, as the master is asked, as a command.
// Pure. What stands in a field is passed on as it is: the master alone says what a job may be.

import { LISTS, linesOf, requestOf, wordsOf } from "./job_nodes.js";

/** What may be assumed of a node, in the master's words. */
export const ASSUMED = /** @type {const} */ (["down", "free", "drain"]);

/** @typedef {(typeof ASSUMED)[number]} Assumed */

/**
 * @typedef {object} Job
 * @property {string} pods
 * @property {string} gpus_per_pod
 * @property {string} group_size empty: the job is one group
 * @property {string} mode
 * @property {string} within empty: anywhere
 * @property {string} gpu_type empty: any
 * @property {string} usage empty: nobody says
 * @property {string[]} selector `KEY=VALUE` of labels
 * @property {string[]} tolerations `KEY[=VALUE][:EFFECT]` of taints
 * @property {string[]} exclude names of nodes
 * @property {Map<string, Assumed>} assumed by names of nodes
 */

export const FIELDS = /** @type {const} */ ([
  "pods",
  "gpus_per_pod",
  "group_size",
  "mode",
  "within",
  "gpu_type",
  "usage",
]);

const NUMBERS = new Set(["pods", "gpus_per_pod", "group_size"]);

/** @param {URLSearchParams} query */
export function jobOf(query) {
  /** @type {Map<string, Assumed>} */
  const assumed = new Map();
  for (const word of ASSUMED) for (const node of query.getAll(word)) assumed.set(node, word);
  return /** @type {Job} */ ({
    ...Object.fromEntries(FIELDS.map((name) => [name, query.get(name) ?? ""])),
    ...Object.fromEntries(LISTS.map((name) => [name, query.getAll(name).flatMap(linesOf)])),
    assumed,
  });
}

/** @param {Job} job */
export function queryOf(job) {
  const query = new URLSearchParams();
  for (const name of FIELDS) if (job[name] !== "") query.set(name, job[name]);
  for (const name of LISTS) for (const word of job[name]) query.append(name, word);
  for (const [node, word] of job.assumed) query.append(word, node);
  return query;
}

/**
 * The body of `POST /v1/placements`.
 * @param {Job} job
 */
export function bodyOf(job) {
  /** @type {Record<string, unknown>} */
  const body = { explain: true };
  for (const name of FIELDS) {
    const is_number = NUMBERS.has(name) && /^\d{1,15}$/.test(job[name]);
    if (job[name] !== "") body[name] = is_number ? Number(job[name]) : job[name];
  }
  const nodes = requestOf(job);
  for (const name of LISTS) if (job[name].length > 0) body[name] = nodes[name];
  if (job.assumed.size > 0) body["assume"] = assumptionsOf(job);
  return body;
}

/** @param {Job} job */
function assumptionsOf(job) {
  const nodes = [...job.assumed];
  return Object.fromEntries(
    ASSUMED.map((word) => [word, nodes.filter(([, as]) => as === word).map(([name]) => name)]),
  );
}

/**
 * The line that asks the same in a terminal.
 * @param {Job} job
 */
export function commandOf(job) {
  const options = { pods: job.pods, gpus: job.gpus_per_pod, "group-size": job.group_size };
  const more = { mode: job.mode, within: job.within, "gpu-type": job.gpu_type, usage: job.usage };
  const given = Object.entries({ ...options, ...more }).filter(([, value]) => value !== "");
  const lists = { selector: job.selector, toleration: job.tolerations, exclude: job.exclude };
  for (const [name, words] of Object.entries(lists)) {
    for (const word of words) given.push([name, word]);
  }
  for (const [node, word] of job.assumed) given.push([`assume-${word}`, node]);
  return ["topo place", ...given.map(([name, word]) => `--${name}=${quoted(word)}`)].join(" ");
}

/**
 * A word as a shell reads it, whatever is in it.
 * @param {string} word
 */
export function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/**
 * The job with what a suggestion of the master would change.
 * @param {Job} job
 * @param {Api.Suggestion} suggestion
 * @returns {Job}
 */
export function changed(job, { request, assume }) {
  const assumed = new Map(job.assumed);
  for (const word of ASSUMED) for (const node of assume?.[word] ?? []) assumed.set(node, word);
  if (request === null) return { ...job, assumed };
  const fields = FIELDS.map((name) => [name, said(request[name])]);
  return /** @type {Job} */ ({ ...Object.fromEntries(fields), ...wordsOf(request), assumed });
}

/** @param {string | number | null} value */
function said(value) {
  return value === null ? "" : String(value);
}

/**
 * The job with a word assumed of nodes, or, where it is assumed of all of them, without.
 * @param {Job} job
 * @param {string[]} nodes
 * @param {Assumed} word
 * @returns {Job}
 */
export function toggled(job, nodes, word) {
  const assumed = new Map(job.assumed);
  const is_off = nodes.every((node) => assumed.get(node) === word);
  for (const node of nodes) {
    if (is_off) assumed.delete(node);
    else assumed.set(node, word);
  }
  return { ...job, assumed };
}

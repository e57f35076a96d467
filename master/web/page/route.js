// What is looked at, as the address of it: `#/node/NAME` can be sent to a colleague.

/**
 * @typedef {object} Place
 * @property {string} kind `node`, `group`, `wire`, `gang`, `place`, or empty for nothing
 * @property {string} name of the node, path of the group, `node/slot` of the wire, `namespace/name`
 *   of the gang; empty where the kind says it all
 * @property {URLSearchParams} query what else is asked of it
 */

const KINDS = new Set(["node", "group", "wire", "gang", "place"]);

/**
 * @param {string} hash
 * @returns {Place}
 */
export function placeOf(hash) {
  const [path = "", ...rest] = hash.replace(/^#/, "").split("?");
  const query = new URLSearchParams(rest.join("?"));
  const [, kind = "", ...parts] = path.split("/");
  if (!KINDS.has(kind)) return { kind: "", name: "", query };
  try {
    return { kind, name: parts.map(decodeURIComponent).join("/"), query };
  } catch {
    return { kind: "", name: "", query };
  }
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {URLSearchParams} query
 */
export function hashOf(kind, name = "", query = new URLSearchParams()) {
  const parts = name === "" ? [] : name.split("/").map(encodeURIComponent);
  const asked = query.size > 0 ? `?${query}` : "";
  return `#/${[kind, ...parts].join("/")}${asked}`;
}

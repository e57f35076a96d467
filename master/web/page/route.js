// What is looked at, as the address of it: `#/node/NAME` can be sent to a colleague.

/**
 * @typedef {object} Place
 * @property {string} kind `node`, `group`, `wire`, or empty for nothing
 * @property {string} name of the node, path of the group, `node/slot` of the wire
 */

const KINDS = new Set(["node", "group", "wire"]);

/**
 * @param {string} hash
 * @returns {Place}
 */
export function placeOf(hash) {
  const [, kind = "", ...rest] = hash.replace(/^#/, "").split("/");
  if (!KINDS.has(kind)) return { kind: "", name: "" };
  try {
    return { kind, name: rest.map(decodeURIComponent).join("/") };
  } catch {
    return { kind: "", name: "" };
  }
}

/**
 * @param {string} kind
 * @param {string} name
 */
export function hashOf(kind, name) {
  return `#/${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
}

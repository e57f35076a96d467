// The forest as it was at one moment, indexed. Pure: a document in, values out.

import { AS_PLANNED } from "./cables.js";

/**
 * @typedef {object} Placed a node with where it stands
 * @property {Api.Node} node
 * @property {string[]} path of its group; empty where it is in none
 * @property {Api.Wire[]} wires that end at it
 */

/**
 * @typedef {object} Picture
 * @property {Api.Topology} document
 * @property {Api.Findings | null} judged null until the first of them came
 * @property {Api.Finding[]} findings of it
 * @property {Map<string, Placed>} nodes by name
 * @property {Map<string, Api.Group>} groups by path, joined with /
 * @property {number} copy_age_s how old the replica's copy was when it was fetched
 * @property {import("./cables.js").Cables} cables that are not as the plan has them
 */

/**
 * @param {Api.Topology} document
 * @param {Api.Findings | null} judged
 * @param {number} copy_age_s
 * @returns {Picture}
 */
export function pictureOf(document, judged, copy_age_s) {
  /** @type {Map<string, Placed>} */
  const nodes = new Map();
  /** @type {Map<string, Api.Group>} */
  const groups = new Map();
  /** @param {Api.Group} group */
  const enter = (group) => {
    groups.set(group.path.join("/"), group);
    for (const child of group.child) {
      if (isGroup(child)) enter(child);
      else nodes.set(child.name, { node: child, path: group.path, wires: [] });
    }
  };
  document.groups.forEach(enter);
  for (const node of document.unplaced) nodes.set(node.name, { node, path: [], wires: [] });
  for (const wire of document.wires) {
    nodes.get(wire.node)?.wires.push(wire);
    if (wire.peer !== null && wire.peer !== wire.node) nodes.get(wire.peer)?.wires.push(wire);
  }
  const findings = judged?.findings ?? [];
  return { document, judged, findings, nodes, groups, copy_age_s, cables: AS_PLANNED };
}

/**
 * Enters what is wrong with a picture.
 * @param {Picture} picture
 * @param {Api.Findings} judged
 */
export function judge(picture, judged) {
  picture.judged = judged;
  picture.findings = judged.findings;
}

/**
 * @param {Api.Node | Api.Group} vertex
 * @returns {vertex is Api.Group}
 */
export function isGroup(vertex) {
  return "child" in vertex;
}

/**
 * Takes an event of the stream into the picture; false where an earlier one was missed, so that
 * the whole has to be fetched.
 * @param {Picture} picture
 * @param {Api.CapacityEvent} event
 */
export function recount(picture, event) {
  const { document, nodes, groups } = picture;
  if (event.run !== document.run || event.since > document.capacity_version) return false;
  if (event.capacity_version <= document.capacity_version) return true;
  for (const each of event.nodes) {
    const placed = nodes.get(each.name);
    if (placed === undefined) return false;
    Object.assign(placed.node, each);
  }
  for (const each of event.groups) {
    const group = groups.get(each.path.join("/"));
    if (group === undefined) return false;
    group.capacity = each.capacity;
  }
  document.capacity_version = event.capacity_version;
  return true;
}

/**
 * @typedef {object} Sum
 * @property {number} nodes
 * @property {number} ready
 * @property {number} gpus
 * @property {number} free
 * @property {number} used
 * @property {number} held
 * @property {number} out GPUs that are not there for anybody: of nodes that are not ready, cordoned
 */

/**
 * What there is, over all nodes.
 * @param {Picture} picture
 * @returns {Sum}
 */
export function sum(picture) {
  const all = { nodes: 0, ready: 0, gpus: 0, free: 0, used: 0, held: 0, out: 0 };
  for (const { node } of picture.nodes.values()) {
    all.nodes += 1;
    all.ready += node.status === "Ready" ? 1 : 0;
    all.gpus += node.gpus;
    all.free += node.free_gpus;
    all.used += node.used_gpus;
    all.held += node.held_gpus;
  }
  all.out = Math.max(0, all.gpus - all.free - all.used - all.held);
  return all;
}

/**
 * The other end of a wire, seen from a node: its name and slot, null where nobody states it.
 * @param {Api.Wire} wire
 * @param {string} from
 */
export function farEnd(wire, from) {
  if (wire.node !== from) return { name: wire.node, slot: wire.slot };
  return wire.peer === null ? null : { name: wire.peer, slot: wire.peer_slot };
}

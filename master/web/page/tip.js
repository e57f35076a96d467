// What stands beside the pointer: in two lines what is under it.

import { byId, h, refill } from "./dom.js";
import { t } from "./strings.js";

/**
 * Shows the tip of a target at a point of the map, or hides it.
 * @param {import("./picture.js").Picture | null} picture
 * @param {import("./map.js").Target | null} target
 * @param {{x: number, y: number, width: number, height: number}} at the point, and the map's size
 */
export function showTip(picture, target, { x, y, width, height }) {
  const tip = byId("tip");
  tip.hidden = target === null || picture === null;
  if (target === null || picture === null) return;
  refill(tip, tipOf(picture, target));
  tip.style.left = `${Math.max(4, Math.min(x + 14, width - tip.offsetWidth - 8))}px`;
  const below = y + 18 + tip.offsetHeight < height;
  tip.style.top = `${below ? y + 18 : Math.max(4, y - tip.offsetHeight - 10)}px`;
}

/**
 * @param {import("./picture.js").Picture} picture
 * @param {import("./map.js").Target} target
 * @returns {Child[]}
 */
function tipOf(picture, { kind, name }) {
  if (kind === "wire") return ofWire(picture, name);
  if (kind === "group") {
    const group = picture.groups.get(name);
    if (group === undefined) return [name];
    const { ready, nodes, free_gpus: free, gpus } = group.capacity;
    const room = gpus > 0 ? ` · ${free}/${gpus} ${t("gpus_free")}` : "";
    const counts = `${group.kind} · ${ready}/${nodes} ${t("nodes")}${room}`;
    return [h("b", {}, h("bdi", {}, group.name)), h("br"), counts, why(group.reasons)];
  }
  const node = picture.nodes.get(name)?.node;
  if (node === undefined) return [name];
  const room = node.gpus > 0 ? ` · ${node.free_gpus}/${node.gpus} ${t("gpus_free")}` : "";
  const counts = `${t(node.status)}${room}`;
  const reasons = node.reason === undefined ? node.reasons : [node.reason, ...node.reasons];
  return [h("b", {}, h("bdi", {}, name)), h("br"), counts, why(reasons)];
}

/**
 * @param {import("./picture.js").Picture} picture
 * @param {string} name
 * @returns {Child[]}
 */
function ofWire(picture, name) {
  const wires = picture.nodes.get(name.slice(0, name.lastIndexOf("/")))?.wires ?? [];
  const wire = wires.find((each) => `${each.node}/${each.slot}` === name);
  if (wire === undefined) return [name];
  const far = wire.peer === null ? wire.server : `${wire.peer} ${slot(wire.peer_slot)}`;
  return [h("b", {}, t(wire.state)), ` ${wire.node} ${slot(wire.slot)} – ${far}`];
}

/** @param {Api.Reason[]} reasons */
function why(reasons) {
  return reasons.slice(0, 3).map(({ text }) => h("p", {}, text));
}

/** @param {number | null} number */
function slot(number) {
  return number === null ? "" : t("slot", { n: number });
}

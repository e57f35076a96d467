// Where the plan of the cables differs from what is there, between nodes. Pure: a document in, values out.

export const DIFFER = "cables-differ-from-plan";

/**
 * @typedef {object} Cables
 * @property {Api.Wire[]} planned wires of the plan that are not there
 * @property {Set<string>} wrong ends of wires that are not as planned, `node/slot`
 */

/** @type {Cables} */
export const AS_PLANNED = { planned: [], wrong: new Set() };

/**
 * The cables of the findings with nodes at both ends; a switch has no place in the forest.
 * @param {Api.Wiring} wiring
 * @param {Map<string, unknown>} nodes by name
 * @returns {Cables}
 */
export function cablesOf({ places }, nodes) {
  /** @type {Cables} */
  const cables = { planned: [], wrong: new Set() };
  const findings = places.flatMap((place) => place.findings);
  for (const { verdict, cables: of_finding } of findings) {
    if (verdict === "slow" || verdict === "unseen") continue;
    for (const { end, planned, found } of of_finding) {
      if (found !== null) {
        for (const { device, port } of [end, found]) cables.wrong.add(`${device}/${port}`);
      }
      if (planned === null || !nodes.has(end.device) || !nodes.has(planned.device)) continue;
      cables.planned.push({
        node: end.device,
        slot: Number(end.port),
        peer: planned.device,
        peer_slot: Number(planned.port),
        server: "",
        state: "down",
      });
    }
  }
  return cables;
}

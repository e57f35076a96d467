// How groups of pods are told apart: each by its number, a shape and a colour, as `topo place` has
// them. Pure.

const SHAPES = ["■", "▲", "◆", "▼", "★"];
export const COLOURS = /** @type {const} */ (["g0", "g1", "g2", "g3", "g4", "g5"]);

/**
 * @param {number} index of the group
 * @returns {{mark: string, colour: (typeof COLOURS)[number]}}
 */
export function badgeOf(index) {
  const [shape, colour] = [SHAPES[index % SHAPES.length], COLOURS[index % COLOURS.length]];
  return { mark: `${shape}${index}`, colour: colour ?? COLOURS[0] };
}

/**
 * Which pods stand on which node, from the groups of a plan.
 * @param {Api.PodGroup[]} groups
 * @returns {Map<string, {index: number, pods: number}[]>}
 */
export function badgesOf(groups) {
  /** @type {Map<string, {index: number, pods: number}[]>} */
  const by_node = new Map();
  for (const { index, nodes } of groups) {
    for (const { name, pods } of nodes) {
      const there = by_node.get(name) ?? [];
      there.push({ index, pods });
      by_node.set(name, there);
    }
  }
  return by_node;
}

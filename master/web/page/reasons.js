// The panel of a node, a group or a wire: why it is as it is, with what its own worker said.

import { Refused, ask } from "./api.js";
import { h, refill } from "./dom.js";
import { placeOf } from "./route.js";
import { whyOf } from "./why.js";

/** A panel over `whyOf`; what the workers say of their nodes is asked when one is looked at. */
export class Reasons {
  constructor() {
    /** @type {{name: string, detail: Api.NodeDetail} | null} */
    this.known = null;
    /** @type {import("./picture.js").Picture | null} the newest that was shown */
    this.picture = null;
  }

  /**
   * @param {import("./route.js").Place} place
   * @param {HTMLElement} room
   * @param {import("./picture.js").Picture} picture
   */
  show(place, room, picture) {
    this.picture = picture;
    const is_past = picture.document.as_of !== undefined;
    const detail = !is_past && this.known?.name === place.name ? this.known.detail : null;
    refill(room, whyOf(picture, place, detail));
    // What a worker said is not kept, and what it says now is not what it said then.
    if (!is_past && place.kind === "node" && picture.nodes.has(place.name)) {
      void this.more(place.name, room);
    }
  }

  /**
   * What the node's own worker said, which no event tells of.
   * @param {string} name
   * @param {HTMLElement} room
   */
  async more(name, room) {
    const isAway = () => {
      const now = placeOf(location.hash);
      return now.kind !== "node" || now.name !== name;
    };
    try {
      const { document: part } = await ask("v1/topology", { query: { node: name } });
      const { picture } = this;
      if (isAway() || picture === null || picture.document.as_of !== undefined) return;
      this.known = { name, detail: part.node };
      const placed = picture.nodes.get(name);
      const leaf = leafOf(part, name);
      if (placed !== undefined && leaf !== null) placed.node.since_s = leaf.since_s;
      refill(room, whyOf(picture, placeOf(location.hash), this.known.detail));
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (isAway()) return;
      room.append(h("p", { class: "old" }, error.message, " ", error.fix));
    }
  }
}

/**
 * @param {Api.Topology} part
 * @param {string} name
 * @returns {Api.Node | null}
 */
function leafOf(part, name) {
  /** @type {(Api.Node | Api.Group)[]} */
  let level = part.groups;
  while (level.length > 0) {
    const leaf = level.find((each) => each.kind === "node" && each.name === name);
    if (leaf !== undefined) return /** @type {Api.Node} */ (leaf);
    level = level.flatMap((each) => ("child" in each ? each.child : []));
  }
  return null;
}

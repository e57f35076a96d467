// What stands beside the forest: the panel of the place that the address names.

import { byId, refill } from "./dom.js";
import { placeOf } from "./route.js";

/**
 * @typedef {object} Panel what is shown of the places of some kinds
 * @property {(place: import("./route.js").Place, room: HTMLElement,
 *   picture: import("./picture.js").Picture) => void} show fills the room; called when the address
 *   names another place, and whenever the picture or the language is another
 * @property {() => void} [leave] called before another panel has the room
 * @property {(target: import("./map.js").Target | null) => boolean} [takes] whether a click on the
 *   map was for the panel; without it each opens what it is on
 * @property {(name: string) => boolean} [reached] the same of a node that was gone to by keys
 */

/** Which panel has the room; the address alone decides. */
export class Panels {
  /** @param {Record<string, Panel>} by_kind */
  constructor(by_kind) {
    this.by_kind = by_kind;
    /** @type {Panel | null} */
    this.open = null;
  }

  /** @param {import("./picture.js").Picture | null} picture null while there is none */
  show(picture) {
    const place = placeOf(location.hash);
    const panel = this.by_kind[place.kind] ?? null;
    const room = byId("why-body");
    if (panel !== this.open) {
      this.open?.leave?.();
      refill(room, []);
    }
    this.open = panel;
    byId("why").hidden = panel === null;
    document.body.classList.toggle("with-why", panel !== null);
    if (picture !== null) panel?.show(place, room, picture);
  }

  /** @param {import("./map.js").Target | null} target */
  take(target) {
    return this.open?.takes?.(target) ?? false;
  }

  /** @param {string} name */
  reach(name) {
    return this.open?.reached?.(name) ?? false;
  }
}

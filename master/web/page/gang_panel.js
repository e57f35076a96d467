// The panel of one gang: where it stands and why, what would let it in, and its groups, which the
// map draws.

import { Refused, ask } from "./api.js";
import { groupList, insideText } from "./answer.js";
import { badgesOf } from "./badges.js";
import { commandLine } from "./command.js";
import { h, refill } from "./dom.js";
import { ageOf, idOf, jobOfGang, jobText, stateOf, waits } from "./gang_words.js";
import { queryOf, quoted } from "./job.js";
import { hashOf } from "./route.js";
import { clock, duration, t } from "./strings.js";

/** A panel; see `panels.js`. */
export class GangPanel {
  /**
   * @param {import("./map.js").ForestMap} map
   * @param {import("./gangs.js").Gangs} gangs
   */
  constructor(map, gangs) {
    this.map = map;
    this.gangs = gangs;
    /** The gang that is looked at, as `namespace/name`, and whether the map went to its nodes. */
    this.name = "";
    this.is_shown = false;
    /** @type {{gang: Api.Gang, at_ms: number} | null} */
    this.known = null;
    /** @type {Refused | null} */
    this.trouble = null;
    /** The list that the gang was asked of. */
    this.asked_ms = NaN;
    /** @type {HTMLElement | null} */
    this.room = null;
  }

  /**
   * @param {import("./route.js").Place} place
   * @param {HTMLElement} room
   */
  show({ name }, room) {
    if (name !== this.name) this.leave();
    this.name = name;
    this.room = room;
    const found = this.gangs.known.gangs.find((gang) => idOf(gang) === name);
    const { at_ms } = this.gangs.known;
    if (found !== undefined && at_ms !== this.asked_ms) {
      this.asked_ms = at_ms;
      void this.ask(found.id, name);
    }
    this.draw();
  }

  leave() {
    this.name = "";
    this.is_shown = false;
    this.known = null;
    this.trouble = null;
    this.asked_ms = NaN;
    this.map.mark({ pods: new Map(), lit: new Set() });
  }

  /**
   * @param {string} id
   * @param {string} name of the gang that was looked at when it was asked
   */
  async ask(id, name) {
    try {
      const { document } = await ask(`v1/gangs/${encodeURIComponent(id)}`);
      if (name !== this.name) return;
      this.known = { gang: document, at_ms: Date.now() };
      this.trouble = null;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      if (name !== this.name) return;
      this.trouble = error;
    }
    this.draw();
  }

  draw() {
    const { room, known } = this;
    if (room === null) return;
    const { gangs } = this.gangs.known;
    const summary = gangs.find((gang) => idOf(gang) === this.name);
    if (summary === undefined) {
      this.map.mark({ pods: new Map() });
      refill(room, this.none());
      return;
    }
    this.map.mark({ pods: badgesOf(known?.gang.groups ?? []) });
    if (known !== null && !this.is_shown) {
      this.is_shown = true;
      this.map.goTo(known.gang.groups.flatMap(({ nodes }) => nodes.map(({ name }) => name)));
    }
    refill(room, this.said(summary));
  }

  /**
   * What stands there while the gang is not known, or where there is none.
   * @returns {Child[]}
   */
  none() {
    const { name } = this;
    const { at_ms, trouble, off } = this.gangs.known;
    const words = Number.isNaN(at_ms) ? t("starting") : t("absent_gang", { name });
    const said = off ?? (trouble && { detail: trouble.message, fix: trouble.fix });
    return [
      h("h2", {}, h("span", { class: "kind" }, t("gang")), h("bdi", { class: "name" }, name)),
      h("p", {}, said === null ? words : [said.detail, ". ", said.fix]),
    ];
  }

  /**
   * @param {Api.GangSummary} gang
   * @returns {Child[]}
   */
  said(gang) {
    const { known } = this;
    const { at_ms, trouble } = this.gangs.known;
    const inside = known?.gang.inside;
    const facts = [
      gang.kind,
      gang.mode,
      inside ? insideText(inside) : gang.within && t("within_one", { kind: gang.within }),
      gang.priority !== 0 && t("priority", { n: gang.priority }),
      t("old_for", { time: duration(gang.age_s) }),
    ];
    return [
      h(
        "h2",
        {},
        h("span", { class: "kind" }, t("gang")),
        h("bdi", { class: "name" }, this.name),
        stateOf(gang),
      ),
      ...ageOf(known?.at_ms ?? at_ms, this.trouble ?? trouble),
      h("p", {}, jobText(gang)),
      h("p", { class: "quiet" }, facts.filter(Boolean).join(" · ")),
      whySection(gang),
      h(
        "section",
        {},
        h("h3", {}, t("pods")),
        h(
          "p",
          {},
          t("pods_n", {
            there: gang.there,
            placed: gang.placed,
            bound: gang.bound,
            pods: gang.pods,
          }),
        ),
        known !== null &&
          groupList(known.gang.groups, (names) => this.map.mark({ lit: new Set(names) })),
      ),
      known !== null && historySection(known.gang.history),
      known !== null && placeLink(known.gang),
      commandLine(`topo why ${quoted(this.name)}`),
    ];
  }
}

/** @param {Api.Gang} gang */
function placeLink(gang) {
  const place = hashOf("place", "", queryOf(jobOfGang(gang)));
  return h("p", { class: "next-place" }, h("a", { href: place }, t("place_same")));
}

/**
 * The last states of the gang, the newest first.
 * @param {Api.Transition[]} history
 */
function historySection(history) {
  if (history.length === 0) return null;
  const lines = history.toReversed().map((each) => {
    const time = h("time", { datetime: each.at }, clock(each.at));
    return h("li", {}, time, " ", stateOf(each), " ", each.text);
  });
  return h(
    "section",
    {},
    h("h3", {}, t("gang_history")),
    h("ul", { class: "sentences history" }, ...lines),
  );
}

/** @param {Api.GangSummary} gang */
function whySection(gang) {
  const { text, ahead, would_fit } = gang;
  if (text === "" && ahead === null && would_fit === "") return null;
  return h(
    "section",
    {},
    h("h3", {}, t(waits(gang) ? "why_waits" : "reasons")),
    h(
      "ul",
      { class: "sentences" },
      text !== "" && h("li", {}, text),
      ahead !== null && h("li", {}, t("ahead_n", { n: ahead })),
      would_fit !== "" && h("li", {}, h("b", {}, t("it_would_fit")), " ", would_fit),
    ),
  );
}

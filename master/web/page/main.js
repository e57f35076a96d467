// The page: puts the parts together, and holds what is chosen, how it looks and what it speaks.

import { byId, h, refill } from "./dom.js";
import { gangList } from "./gang_list.js";
import { GangPanel } from "./gang_panel.js";
import { Gangs, NOTHING } from "./gangs.js";
import { openHelp } from "./help.js";
import { keep, kept } from "./kept.js";
import { Live } from "./live.js";
import { ForestMap } from "./map.js";
import { Panels } from "./panels.js";
import { Past } from "./past.js";
import { sum } from "./picture.js";
import { Placing } from "./placing.js";
import { problemList } from "./problems.js";
import { Reasons } from "./reasons.js";
import { hashOf, placeOf } from "./route.js";
import { searching } from "./search.js";
import { addSlider, showSlider, thenList } from "./slider.js";
import { showBanner, showStage } from "./stage.js";
import { LANGUAGES, speak, spoken, t } from "./strings.js";
import { showTip } from "./tip.js";

const THEMES = ["auto", "dark", "light"];
/** Where a letter is a letter. */
const TYPED_IN = "input, select, textarea";

let theme = kept("theme", THEMES) ?? "auto";
/** @type {import("./picture.js").Picture | null} */
let picture = null;
let nth_problem = -1;

const map = new ForestMap(/** @type {HTMLCanvasElement} */ (byId("map")), {
  chosen: (target) => {
    if (panels.take(target)) return;
    location.hash = target === null ? "" : hashOf(target.kind, target.name);
  },
  reached: (name) => {
    if (panels.reach(name)) map.mark({ selected: name });
    else location.hash = hashOf("node", name);
  },
  pointed: (target, x, y) => showTip(picture, target, { x, y, ...map.size() }),
});
const live = new Live({
  picture: (of) => past.then === null && showPicture(of),
  judged: showProblems,
  counts: showCounts,
  state: showLife,
});
const past = new Past({
  shown: () => past.then !== null && showPicture(past.then.picture),
  listed: () => (showProblems(), showState()),
  left: () => (live.picture === null ? showState() : showPicture(live.picture)),
});
const reasons = new Reasons();
const placing = new Placing(map);
const gangs = new Gangs(showGangs);
const gang = new GangPanel(map, gangs);
const panels = new Panels({ node: reasons, group: reasons, wire: reasons, gang, place: placing });

/** @param {import("./picture.js").Picture} of */
function showPicture(of) {
  picture = of;
  map.show(of);
  showSum();
  showProblems();
  showPanel();
  showState();
  document.body.dataset["generation"] = String(of.document.generation);
  const differ = of.cables.wrong.size + of.cables.planned.length > 0;
  document.body.dataset["plan"] = differ ? "differs" : "";
}

function showCounts() {
  if (past.then !== null) return;
  showSum();
  map.redraw();
  showPanel();
}

function showLife() {
  showState();
  showProblems();
  tickGangs();
}

function tickGangs() {
  if (picture !== null) gangs.tick(picture.document.run, live.state.stage === "live");
}

function showGangs() {
  const is_none = gangs.known === NOTHING || gangs.known.off !== null;
  byId("gangs").hidden = is_none || past.then !== null;
  refill(byId("gangs"), gangList(gangs.known, picture?.findings ?? []));
  if (placeOf(location.hash).kind === "gang") showPanel();
}

function showPanel() {
  panels.show(picture);
}

/** After another place was named. */
function showPlace() {
  const { kind, name } = placeOf(location.hash);
  if (kind !== "place") map.mark({ selected: kind === "node" || kind === "group" ? name : "" });
  showPanel();
}

function showProblems() {
  if (picture === null) return;
  const act = { go: goTo, light: lit };
  const is_lost = live.state.stage === "lost";
  const list = past.then === null ? problemList(picture, act, is_lost) : thenList(past, act);
  refill(byId("problems"), list);
}

/** Whether the picture is live, or of which moment of the past; in both, whether nobody is heard. */
function showState() {
  showBanner(live.state, past.then !== null);
  if (past.then === null) showStage(live.state);
  showSlider(past, live.state);
}

/** @param {string[]} names */
function lit(names) {
  map.mark({ lit: new Set(names) });
}

/** @param {Api.Finding} finding */
function goTo(finding) {
  map.goTo(finding.subjects);
  const node = finding.subjects.find((name) => picture?.nodes.has(name));
  const group = finding.subjects.find((name) => picture?.groups.has(name));
  const is_of_group = group !== undefined && group === finding.subject;
  if (node !== undefined && !is_of_group) location.hash = hashOf("node", node);
  else if (group !== undefined) location.hash = hashOf("group", group);
}

function showSum() {
  if (picture === null) return;
  const all = sum(picture);
  /** @type {[string, string, string][]} */
  const parts = [
    ["nodes", `${all.ready}/${all.nodes}`, all.ready < all.nodes ? "bad" : ""],
    ["gpus_free", String(all.free), "free"],
    ["gpus_used", String(all.used), "used"],
    ["gpus_held", String(all.held), "held"],
    ["gpus_out", String(all.out), "out"],
  ];
  const told = picture.document.as_of === undefined ? parts : parts.slice(0, 1);
  refill(
    byId("sum"),
    told.map(([key, number, state]) =>
      h(
        "div",
        { class: state },
        h("dt", {}, key !== "nodes" && h("i", { class: `gpu ${state}` }), t(key)),
        h("dd", {}, number),
      ),
    ),
  );
}

/** Everything of the page itself in the language that is spoken. */
function translate() {
  document.documentElement.lang = spoken();
  document.title = t("title");
  for (const each of document.querySelectorAll("[data-t]")) {
    each.textContent = t(each.getAttribute("data-t") ?? "");
  }
  for (const each of document.querySelectorAll("[data-label]")) {
    const words = t(each.getAttribute("data-label") ?? "");
    each.setAttribute("aria-label", words);
    if (each.tagName !== "CANVAS") each.setAttribute("title", words);
  }
  byId("find").setAttribute("placeholder", t("search"));
  byId("theme").setAttribute("aria-label", t(`theme_${theme}`));
  byId("theme").setAttribute("title", t(`theme_${theme}`));
  showSum();
  showProblems();
  showGangs();
  showState();
  map.redraw();
  showPanel();
}

/** @param {string} word */
function dress(word) {
  theme = word;
  document.documentElement.dataset["theme"] = word;
  byId("theme").setAttribute("aria-label", t(`theme_${word}`));
  byId("theme").setAttribute("title", t(`theme_${word}`));
  map.recolour();
}

/** @param {KeyboardEvent} event */
function key(event) {
  if (/** @type {HTMLDialogElement} */ (byId("help")).open) return;
  const typing = event.target instanceof Element && event.target.matches(TYPED_IN);
  if (event.key === "Escape") {
    byId("found").hidden = true;
    if (!byId("why").hidden) location.hash = "";
    byId("map").focus();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.key === "/") {
    event.preventDefault();
    byId("find").focus();
  } else if (event.key === "?") {
    openHelp();
  } else if (event.key === "j") {
    location.hash = hashOf("place");
  } else if (event.key === "n" || event.key === "p") {
    nextProblem(event.key === "n" ? 1 : -1);
  }
}

/** @param {number} by */
function nextProblem(by) {
  const count = picture?.findings.length ?? 0;
  if (count === 0) return;
  nth_problem = (nth_problem + by + count) % count;
  const button = byId("problems").querySelector(`[data-nth="${nth_problem}"]`);
  if (button instanceof HTMLElement) {
    button.focus();
    button.click();
  }
}

function listen() {
  byId("language").addEventListener("click", () => {
    const next = LANGUAGES[(LANGUAGES.indexOf(spoken()) + 1) % LANGUAGES.length] ?? "en";
    keep("language", next);
    speak(next);
    translate();
  });
  byId("theme").addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(theme) + 1) % THEMES.length] ?? "auto";
    keep("theme", next);
    dress(next);
  });
  byId("helper").addEventListener("click", openHelp);
  byId("fit").addEventListener("click", () => map.fit());
  byId("closer").addEventListener("click", () => map.zoom(1.4));
  byId("farther").addEventListener("click", () => map.zoom(1 / 1.4));
  byId("close").addEventListener("click", () => {
    location.hash = "";
    byId("map").focus();
  });
  searching({ picture: () => picture, go: (names) => map.goTo(names) });
  addEventListener("hashchange", showPlace);
  addEventListener("keydown", key);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.recolour());
  setInterval(() => {
    live.tick();
    void past.tick(live.picture);
    showState();
    tickGangs();
  }, 1000);
}

/** What drawing costs, for who measures it. */
Object.assign(globalThis, { topoPage: { frames: map.frames, map, live } });

const asked = new URLSearchParams(location.search).get("lang");
const native = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
speak(asked ?? kept("language", LANGUAGES) ?? native);
dress(theme);
addSlider(past);
translate();
listen();
showPlace();
past.openAsked();
void live.run();

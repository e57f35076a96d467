// The page: puts the parts together, and holds what is chosen, how it looks and what it speaks.

import { Refused, ask } from "./api.js";
import { byId, h, refill } from "./dom.js";
import { Live } from "./live.js";
import { ForestMap } from "./map.js";
import { sum } from "./picture.js";
import { problemList } from "./problems.js";
import { hashOf, placeOf } from "./route.js";
import { LANGUAGES, duration, speak, spoken, t } from "./strings.js";
import { whyOf } from "./why.js";

const THEMES = ["auto", "dark", "light"];
const MOST_FOUND = 30;

let theme = kept("theme", THEMES) ?? "auto";
/** @type {import("./picture.js").Picture | null} */
let picture = null;
/** @type {{name: string, detail: Api.NodeDetail} | null} */
let known = null;
let nth_problem = -1;

const map = new ForestMap(/** @type {HTMLCanvasElement} */ (byId("map")), {
  chosen: (target) => {
    location.hash = target === null ? "" : hashOf(target.kind, target.name);
  },
  pointed: tooltip,
});
const live = new Live({ picture: showPicture, counts: showCounts, state: showStage });

/**
 * What this browser keeps of a choice, null where it keeps nothing or something else.
 * @param {string} key
 * @param {string[]} words
 */
function kept(key, words) {
  try {
    const word = localStorage.getItem(`topo-${key}`);
    return word !== null && words.includes(word) ? word : null;
  } catch {
    return null;
  }
}

/**
 * @param {string} key
 * @param {string} word
 */
function keep(key, word) {
  try {
    localStorage.setItem(`topo-${key}`, word);
  } catch {
    // A browser that keeps nothing shows the page all the same.
  }
}

/** @param {import("./picture.js").Picture} of */
function showPicture(of) {
  picture = of;
  map.show(of);
  showSum();
  showProblems();
  void showWhy();
  showState();
  document.body.dataset["generation"] = String(of.document.generation);
}

function showCounts() {
  showSum();
  map.redraw();
  if (picture !== null) void showWhy();
}

function showProblems() {
  if (picture === null) return;
  const is_lost = live.state.stage === "lost";
  refill(byId("problems"), problemList(picture, { go: goTo, light: lit }, is_lost));
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
  if (node !== undefined) location.hash = hashOf("node", node);
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
  refill(
    byId("sum"),
    parts.map(([key, number, state]) =>
      h(
        "div",
        { class: state },
        h("dt", {}, key !== "nodes" && h("i", { class: `gpu ${state}` }), t(key)),
        h("dd", {}, number),
      ),
    ),
  );
}

function showStage() {
  showState();
  showProblems();
}

/** Says whether the picture is live; where it is not, since when and how old it is. */
function showState() {
  const { stage, since_ms, why, fix, true_ms } = live.state;
  const is_lost = stage === "lost";
  document.body.dataset["stage"] = stage;
  const pill = byId("state");
  const words = is_lost ? t("lost") : t(stage);
  if (pill.textContent !== words) pill.textContent = words;
  pill.className = `pill ${stage}`;
  const banner = byId("banner");
  banner.hidden = !is_lost;
  if (!is_lost) return;
  const now = Date.now();
  const age_s = (now - true_ms) / 1000;
  const clock = new Date(true_ms).toLocaleTimeString(spoken());
  const old = Number.isNaN(true_ms)
    ? t("no_picture")
    : t("picture_of", { clock, age: duration(age_s) });
  const text = `${t("lost_for", { time: duration((now - since_ms) / 1000) })}: ${old}.`;
  byId("banner-text").textContent = text;
  byId("banner-why").textContent = [why, fix].filter(Boolean).join(" · ");
}

async function showWhy() {
  const place = placeOf(location.hash);
  const panel = byId("why");
  map.mark({ selected: place.kind === "wire" ? "" : place.name });
  panel.hidden = place.kind === "";
  document.body.classList.toggle("with-why", place.kind !== "");
  if (place.kind === "" || picture === null) return;
  const detail = known?.name === place.name ? known.detail : null;
  refill(byId("why-body"), whyOf(picture, place, detail));
  if (place.kind === "node" && picture.nodes.has(place.name)) await showDetail(place);
}

/**
 * What the node's own worker said, which no event tells of.
 * @param {import("./route.js").Place} place
 */
async function showDetail(place) {
  try {
    const { document: part } = await ask("v1/topology", { query: { node: place.name } });
    const now = placeOf(location.hash);
    if (now.kind !== "node" || now.name !== place.name || picture === null) return;
    known = { name: place.name, detail: part.node };
    const placed = picture.nodes.get(place.name);
    const leaf = leafOf(part, place.name);
    if (placed !== undefined && leaf !== null) placed.node.since_s = leaf.since_s;
    refill(byId("why-body"), whyOf(picture, place, known.detail));
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    byId("why-body").append(h("p", { class: "old" }, error.message, " ", error.fix));
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

/**
 * @param {import("./map.js").Target | null} target
 * @param {number} x
 * @param {number} y
 */
function tooltip(target, x, y) {
  const tip = byId("tip");
  tip.hidden = target === null || picture === null;
  if (target === null || picture === null) return;
  refill(tip, tipOf(picture, target));
  const room = map.size();
  tip.style.left = `${Math.max(4, Math.min(x + 14, room.width - tip.offsetWidth - 8))}px`;
  const below = y + 18 + tip.offsetHeight < room.height;
  tip.style.top = `${below ? y + 18 : Math.max(4, y - tip.offsetHeight - 10)}px`;
}

/**
 * @param {import("./picture.js").Picture} of
 * @param {import("./map.js").Target} target
 * @returns {Child[]}
 */
function tipOf(of, { kind, name }) {
  if (kind === "wire") {
    const cut = name.lastIndexOf("/");
    const wires = of.nodes.get(name.slice(0, cut))?.wires ?? [];
    const wire = wires.find((each) => `${each.node}/${each.slot}` === name);
    if (wire === undefined) return [name];
    const far = wire.peer === null ? wire.server : `${wire.peer} ${slot(wire.peer_slot)}`;
    return [h("b", {}, t(wire.state)), ` ${wire.node} ${slot(wire.slot)} – ${far}`];
  }
  if (kind === "group") {
    const group = of.groups.get(name);
    if (group === undefined) return [name];
    const { ready, nodes, free_gpus: free, gpus } = group.capacity;
    const counts = `${group.kind} · ${ready}/${nodes} ${t("nodes")} · ${free}/${gpus} ${t("gpus_free")}`;
    return [h("b", {}, h("bdi", {}, group.name)), h("br"), counts, why(group.reasons)];
  }
  const node = of.nodes.get(name)?.node;
  if (node === undefined) return [name];
  const counts = `${t(node.status)} · ${node.free_gpus}/${node.gpus} ${t("gpus_free")}`;
  const reasons = node.reason === undefined ? node.reasons : [node.reason, ...node.reasons];
  return [h("b", {}, h("bdi", {}, name)), h("br"), counts, why(reasons)];
}

/** @param {Api.Reason[]} reasons */
function why(reasons) {
  return reasons.slice(0, 3).map(({ text }) => h("p", {}, text));
}

/** @param {number | null} number */
function slot(number) {
  return number === null ? "" : t("slot", { n: number });
}

/** @param {string} text */
function find(text) {
  const list = byId("found");
  const wanted = text.trim().toLowerCase();
  list.hidden = wanted === "" || picture === null;
  if (wanted === "" || picture === null) return;
  const nodes = [...picture.nodes.keys()].map((name) => ({ kind: "node", name }));
  const groups = [...picture.groups.keys()].map((name) => ({ kind: "group", name }));
  const all = [...groups, ...nodes].filter(({ name }) => name.toLowerCase().includes(wanted));
  all.sort((one, two) => one.name.length - two.name.length);
  refill(list, [
    h("li", { class: "quiet" }, t("found", { n: all.length })),
    ...all
      .slice(0, MOST_FOUND)
      .map(({ kind, name }) =>
        h(
          "li",
          {},
          h(
            "a",
            { href: hashOf(kind, name), onclick: () => chosenIn(list, name) },
            h("span", { class: "kind" }, t(kind)),
            h("bdi", {}, name),
          ),
        ),
      ),
  ]);
}

/**
 * @param {HTMLElement} list
 * @param {string} name
 */
function chosenIn(list, name) {
  list.hidden = true;
  map.goTo([name]);
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
  showState();
  map.redraw();
  void showWhy();
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
  const typing = event.target instanceof HTMLInputElement;
  if (event.key === "Escape") {
    byId("found").hidden = true;
    if (!byId("why").hidden) location.hash = "";
    byId("map").focus();
  } else if (typing || event.ctrlKey || event.metaKey || event.altKey) {
    return;
  } else if (event.key === "/") {
    event.preventDefault();
    byId("find").focus();
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
  byId("fit").addEventListener("click", () => map.fit());
  byId("closer").addEventListener("click", () => map.zoom(1.4));
  byId("farther").addEventListener("click", () => map.zoom(1 / 1.4));
  byId("close").addEventListener("click", () => {
    location.hash = "";
    byId("map").focus();
  });
  const input = /** @type {HTMLInputElement} */ (byId("find"));
  input.addEventListener("input", () => find(input.value));
  input.addEventListener("keydown", (event) => {
    const first = byId("found").querySelector("a");
    if (first === null || (event.key !== "ArrowDown" && event.key !== "Enter")) return;
    event.preventDefault();
    if (event.key === "Enter") first.click();
    else first.focus();
  });
  addEventListener("hashchange", () => void showWhy());
  addEventListener("keydown", key);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => map.recolour());
  setInterval(() => {
    live.tick();
    showState();
  }, 1000);
}

/** What drawing costs, for who measures it. */
Object.assign(globalThis, { topoPage: { frames: map.frames, map, live } });

const asked = new URLSearchParams(location.search).get("lang");
const native = navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
speak(asked ?? kept("language", LANGUAGES) ?? native);
dress(theme);
translate();
listen();
void live.run();

// Why something is as it is: all that the master knows of a node, a group or a wire.

import { commandLine } from "./command.js";
import { h, marked } from "./dom.js";
import { quoted } from "./job.js";
import { matrixPicture } from "./matrix.js";
import { farEnd, isGroup } from "./picture.js";
import { hashOf } from "./route.js";
import { duration, t } from "./strings.js";

/** @typedef {import("./picture.js").Picture} Picture */

const MANY = 60;

/**
 * What is said of a place; `detail` is what a node's own worker said, null while it is not here.
 * @param {Picture} picture
 * @param {import("./route.js").Place} place
 * @param {Api.NodeDetail | null} detail
 * @returns {Child[]}
 */
export function whyOf(picture, place, detail) {
  return [h("p", { class: "old only-lost" }, t("last_seen")), ...placeOf(picture, place, detail)];
}

/**
 * @param {Picture} picture
 * @param {import("./route.js").Place} place
 * @param {Api.NodeDetail | null} detail
 * @returns {Child[]}
 */
function placeOf(picture, place, detail) {
  if (place.kind === "node") return ofNode(picture, place.name, detail);
  if (place.kind === "group") return ofGroup(picture, place.name);
  return ofWire(picture, place.name);
}

/**
 * @param {Picture} picture
 * @param {string} name
 * @param {Api.NodeDetail | null} detail
 * @returns {Child[]}
 */
function ofNode(picture, name, detail) {
  const placed = picture.nodes.get(name);
  if (placed === undefined) return absent("node", name);
  const { node, path, wires } = placed;
  const reasons = node.reason === undefined ? node.reasons : [node.reason, ...node.reasons];
  return [
    title(t("node"), name, node.status),
    h("p", { class: "path" }, crumbs(path)),
    h(
      "p",
      { class: "quiet" },
      node.since_s === null ? t("since_before") : t("since", { time: duration(node.since_s) }),
    ),
    reasonList(reasons),
    findingsOf(picture, name),
    wireSection(name, wires, detail),
    gpuSection(node, detail),
    uplinksSection(detail),
    placesSection(detail),
    partsSection(detail),
    saidBy(picture, path, detail),
    conflictsOf(picture, name),
    identity(detail),
    commandLine(`topo node ${quoted(name)}`),
  ];
}

/**
 * @param {Picture} picture
 * @param {string} path
 * @returns {Child[]}
 */
function ofGroup(picture, path) {
  const group = picture.groups.get(path);
  if (group === undefined) return absent("group", path);
  const { capacity } = group;
  const out = capacity.gpus - capacity.free_gpus - capacity.used_gpus - capacity.held_gpus;
  return [
    title(group.kind, group.name, group.status),
    group.path.length > 1 && h("p", { class: "path" }, crumbs(group.path.slice(0, -1))),
    reasonList(group.reasons),
    findingsOf(picture, path),
    section(
      t("gpus"),
      bar({
        used: capacity.used_gpus,
        held: capacity.held_gpus,
        free: capacity.free_gpus,
        out: Math.max(0, out),
      }),
    ),
    section(
      t("members"),
      group.expected !== null &&
        h("p", { class: "quiet" }, t("expected", { n: capacity.nodes, m: group.expected })),
      h("ul", { class: "members" }, group.child.slice(0, MANY).map(member)),
      group.child.length > MANY && h("p", { class: "quiet" }, `+${group.child.length - MANY}`),
    ),
    saidBy(picture, group.path, null),
    conflictsOf(picture, group.name),
    commandLine(`topo tree --group=${quoted(path)}`),
  ];
}

/**
 * @param {Picture} picture
 * @param {string} name
 * @returns {Child[]}
 */
function ofWire(picture, name) {
  const cut = name.lastIndexOf("/");
  const node = name.slice(0, cut);
  const slot = Number(name.slice(cut + 1));
  const wires = picture.nodes.get(node)?.wires ?? [];
  const wire = wires.find((each) => each.node === node && each.slot === slot);
  if (wire === undefined) return absent("wire", name);
  const far = farEnd(wire, node);
  return [
    h(
      "h2",
      {},
      h("span", { class: "kind" }, t("wire")),
      h("span", { class: `state ${wire.state}` }, t(wire.state)),
    ),
    h(
      "dl",
      { class: "ends" },
      h("dt", {}, nodeLink(node)),
      h("dd", {}, t("slot", { n: slot })),
      h("dt", {}, far === null ? t("to_server", { server: wire.server }) : nodeLink(far.name)),
      far !== null && far.slot !== null && h("dd", {}, t("slot", { n: far.slot })),
    ),
    findingsOf(picture, node),
  ];
}

/**
 * @param {"node" | "group" | "wire"} kind
 * @param {string} name
 * @returns {Child[]}
 */
function absent(kind, name) {
  return [
    h("h2", {}, h("bdi", {}, name)),
    h("p", {}, t(`absent_${kind}`, { name })),
    h("p", { class: "quiet" }, t("absent_hint")),
  ];
}

/**
 * @param {string} kind
 * @param {string} name
 * @param {Api.Status} status
 */
function title(kind, name, status) {
  const sign = status === "Ready" ? "sign-good" : "sign-bad";
  return h(
    "h2",
    {},
    h("span", { class: "kind" }, kind),
    h("bdi", { class: "name" }, name),
    h(
      "span",
      { class: `state ${status === "Ready" ? "up" : "down"}` },
      h("span", { class: `sign ${sign}`, "aria-hidden": "true" }),
      t(status),
    ),
  );
}

/** @param {string[]} path */
function crumbs(path) {
  if (path.length === 0) return t("unplaced");
  return path.map((name, at) => [
    at > 0 && " › ",
    h("a", { href: hashOf("group", path.slice(0, at + 1).join("/")) }, h("bdi", {}, name)),
  ]);
}

/**
 * @param {string} name
 * @param {...Child} children
 */
function section(name, ...children) {
  return h("section", {}, h("h3", {}, name), ...children);
}

/** @param {Api.Reason[]} reasons */
function reasonList(reasons) {
  const texts = new Map(reasons.map((reason) => [reason.text, reason]));
  if (texts.size === 0) return null;
  return section(
    t("reasons"),
    h(
      "ul",
      { class: "reasons" },
      [...texts.values()].map(({ code, text }) => h("li", {}, text, " ", h("code", {}, code))),
    ),
  );
}

/**
 * @param {Picture} picture
 * @param {string} subject
 */
function findingsOf(picture, subject) {
  const found = picture.findings.filter((finding) => finding.subjects.includes(subject));
  if (found.length === 0) return null;
  return section(
    t("next"),
    h(
      "ul",
      { class: "reasons" },
      found.map((each) =>
        h("li", {}, each.what, h("p", { class: "next" }, marked(each.next_step))),
      ),
    ),
  );
}

/** @param {{used: number, held: number, free: number, out: number}} counts */
function bar(counts) {
  const all = Object.entries(counts).filter(([, number]) => number > 0);
  return h(
    "p",
    { class: "bar" },
    all.map(([state, number]) =>
      h(
        "span",
        {},
        h("i", { class: `gpu ${state}`, "aria-hidden": "true" }),
        `${number} ${t(state)}`,
      ),
    ),
  );
}

/**
 * @param {Api.Node} node
 * @param {Api.NodeDetail | null} detail
 */
function gpuSection(node, detail) {
  const out = node.gpus - node.free_gpus - node.used_gpus - node.held_gpus;
  const counts = { used: node.used_gpus, held: node.held_gpus, free: node.free_gpus };
  const gpus = detail?.gpus ?? [];
  const matrix = detail?.matrix;
  const ill = gpus.filter((gpu) => gpu.healthy === false || gpu.trouble !== "");
  return section(
    `${t("gpus")} · ${node.gpus} ${node.gpu_type}`,
    bar({ ...counts, out: Math.max(0, out) }),
    node.cordoned && h("p", { class: "quiet" }, t("cordoned")),
    node.pool && h("p", { class: "quiet" }, t("pool", { pool: node.pool })),
    (node.shared ?? []).map((cards) => h("p", { class: "quiet" }, t("shared", { ...cards }))),
    (node.cards ?? []).length > 0 &&
      h("ul", { class: "plain cards" }, (node.cards ?? []).slice(0, MANY).map(sharedCard)),
    ill.length > 0 &&
      h(
        "ul",
        { class: "reasons" },
        ill.map((gpu) =>
          h("li", {}, `${t("gpu", { n: gpu.index })}: `, gpu.trouble || t("unhealthy")),
        ),
      ),
    matrix
      ? h(
          "figure",
          {},
          matrixPicture(matrix, (index) => gpus[index]?.healthy === false),
          h("figcaption", {}, t("matrix")),
        )
      : detail !== null && h("p", { class: "quiet" }, t("matrix_none")),
  );
}

/** What is free of a card that pods share, in the units of its family. @param {Api.Card} card */
function sharedCard(card) {
  const [cores, memory] = card.family === "gpu-manager" ? ["1/100", "256 MiB"] : ["%", "MiB"];
  const parts = [
    card.total.shares > 0 && t("card_shares", { free: card.free.shares, of: card.total.shares }),
    t("card_cores", { free: card.free.cores, of: card.total.cores, unit: cores }),
    t("card_memory", { free: card.free.memory, of: card.total.memory, unit: memory }),
  ].filter(Boolean);
  const name = [card.id, card.model, card.mode].filter(Boolean).join(" · ");
  const said = card.healthy ? parts.join(", ") : t("unhealthy");
  return h("li", {}, h("bdi", {}, name), `: ${said}`);
}

/**
 * @param {string} name
 * @param {Api.Wire[]} wires
 * @param {Api.NodeDetail | null} detail
 */
function wireSection(name, wires, detail) {
  if (wires.length === 0) {
    return section(t("wires"), h("p", { class: "quiet" }, t("no_wires")));
  }
  const texts = new Map((detail?.wires ?? []).map((wire) => [wire.slot, wire.text]));
  const rows = wires.map((wire) => {
    const own = wire.node === name ? wire.slot : wire.peer_slot;
    return { wire, own, far: farEnd(wire, name) };
  });
  rows.sort((one, two) => (one.own ?? 0) - (two.own ?? 0));
  return section(
    t("wires"),
    h(
      "ul",
      { class: "wires" },
      rows.map(({ wire, own, far }) =>
        h(
          "li",
          { class: wire.state },
          h("span", { class: "slot" }, own === null ? "" : t("slot", { n: own })),
          h("span", { class: `cable ${wire.state}`, "aria-hidden": "true" }),
          h(
            "span",
            {},
            far === null
              ? t("to_server", { server: wire.server })
              : [nodeLink(far.name), far.slot !== null && ` ${t("slot", { n: far.slot })}`],
            h("span", { class: `state ${wire.state}` }, t(wire.state)),
            wire.state !== "up" && h("small", {}, texts.get(own ?? -1) ?? ""),
          ),
        ),
      ),
    ),
  );
}

/**
 * The cables to switches that begin beside GPUs, or whose switch is not seen.
 * @param {Api.NodeDetail | null} detail
 */
function uplinksSection(detail) {
  const shown = (detail?.uplinks ?? []).filter(
    (each) => each.gpus.length > 0 || each.unseen_s !== null,
  );
  return (
    shown.length > 0 &&
    section(
      t("uplinks"),
      h(
        "ul",
        { class: "plain" },
        shown.map((each) => h("li", {}, uplinkWords(each).join(" · "))),
      ),
    )
  );
}

/**
 * Its groups in each fabric, where there are several.
 * @param {Api.NodeDetail | null} detail
 */
function placesSection(detail) {
  const places = detail?.places ?? [];
  return (
    places.length > 0 &&
    section(
      t("places"),
      h(
        "ul",
        { class: "plain" },
        places.map((each) =>
          h("li", {}, `${each.fabric}: ${each.path.join(" / ") || t("unplaced")}`),
        ),
      ),
    )
  );
}

/** @param {Api.Uplink} uplink */
function uplinkWords(uplink) {
  return [
    uplink.gpus.length > 0 && t("gpu", { n: uplink.gpus.join(", ") }),
    [uplink.adapter, uplink.interface].filter(Boolean).join(" "),
    `${uplink.switch} ${uplink.port}`,
    uplink.rate,
    uplink.rail !== null && t("rail", { n: uplink.rail }),
    uplink.unseen_s !== null && t("unseen", { time: duration(uplink.unseen_s) }),
  ].filter(Boolean);
}

/**
 * Ports and probes of which somebody should know.
 * @param {Api.NodeDetail | null} detail
 */
function partsSection(detail) {
  const ports = (detail?.ports ?? []).filter((port) => port.state === "down" || port.trouble);
  const nics = (detail?.nics ?? []).filter((nic) => !nic.up);
  const probes = (detail?.probes ?? []).filter((probe) => probe.state !== "ok");
  return [
    (ports.length > 0 || nics.length > 0) &&
      section(
        t("ports_bad"),
        h(
          "ul",
          { class: "reasons" },
          ports
            .slice(0, MANY)
            .map((port) =>
              h(
                "li",
                {},
                `${t("gpu", { n: port.gpu })} : ${port.port} `,
                port.trouble || port.state,
              ),
            ),
          nics.slice(0, MANY).map((nic) => h("li", {}, `${nic.hca} : ${nic.port} ${nic.state}`)),
        ),
      ),
    probes.length > 0 &&
      section(
        t("probes_bad"),
        h(
          "ul",
          { class: "reasons" },
          probes.map((each) =>
            h("li", {}, h("b", {}, each.probe), ` ${each.state} ${each.detail}`),
          ),
        ),
      ),
  ];
}

/**
 * @param {Picture} picture
 * @param {string[]} path
 * @param {Api.NodeDetail | null} detail
 */
function saidBy(picture, path, detail) {
  const group = picture.groups.get(path.join("/"));
  const lines = [];
  if (detail !== null) lines.push(spoke(detail));
  if (group?.source) lines.push(`${group.name}: ${t("stated_by", { source: group.source })}`);
  if (group !== undefined && group.confirmed_by.length > 0) {
    const sources = group.confirmed_by.join(", ");
    lines.push(`${group.name}: ${t("confirmed_by", { sources })}`);
  }
  for (const source of picture.document.sources) {
    const time = duration(source.failing_s ?? 0);
    const age = duration(source.age_s ?? 0);
    lines.push(`${source.source}: ${t(`source_${source.state}`, { age, time })} ${source.trouble}`);
  }
  return section(
    t("said_by"),
    h(
      "ul",
      { class: "plain" },
      lines.map((line) => h("li", {}, line)),
    ),
  );
}

/** @param {Api.NodeDetail} detail */
function spoke(detail) {
  if (detail.beat_age_s === null) return t("worker_never");
  return t(detail.stale ? "worker_stale" : "worker_spoke", { age: duration(detail.beat_age_s) });
}

/**
 * @param {Picture} picture
 * @param {string} subject
 */
function conflictsOf(picture, subject) {
  const found = picture.document.conflicts.filter((each) => each.subjects.includes(subject));
  if (found.length === 0) return null;
  return section(
    t("conflicts"),
    h(
      "ul",
      { class: "reasons" },
      found.map((each) =>
        h(
          "li",
          {},
          each.text,
          each.since_s !== null &&
            h("span", { class: "quiet" }, ` (${t("since", { time: duration(each.since_s) })})`),
          h("p", { class: "next" }, marked(each.fix)),
        ),
      ),
    ),
  );
}

/** @param {Api.NodeDetail | null} detail */
function identity(detail) {
  const who = detail?.identity;
  if (!who) return null;
  /** @type {[string, string][]} */
  const rows = [
    ["hostname", who.hostname],
    ["IP", who.internal_ip],
    ["system UUID", who.system_uuid],
    ["boot", who.boot_id],
  ];
  return section(
    t("identity"),
    h(
      "dl",
      { class: "facts" },
      rows
        .filter(([, value]) => value)
        .map(([key, value]) => [h("dt", {}, key), h("dd", {}, value)]),
    ),
  );
}

/** @param {Api.Node | Api.Group} vertex */
function member(vertex) {
  const is_well = vertex.status === "Ready";
  const href = isGroup(vertex)
    ? hashOf("group", vertex.path.join("/"))
    : hashOf("node", vertex.name);
  return h(
    "li",
    {},
    h("span", { class: `sign ${is_well ? "sign-good" : "sign-bad"}`, "aria-hidden": "true" }),
    h("a", { href }, h("bdi", {}, vertex.name)),
    !is_well && h("small", {}, ` ${t(vertex.status)}`),
  );
}

/** @param {string} name */
function nodeLink(name) {
  return h("a", { href: hashOf("node", name) }, h("bdi", {}, name));
}

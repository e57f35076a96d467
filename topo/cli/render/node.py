"""One node from the inside: identity, GPUs, link matrix, ports, peers, NICs, probes, reasons."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.gpus import UPLINKS, render_uplinks
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Indented
from topo.cli.render.shapes.matrix import Matrix
from topo.cli.render.shapes.rows import Column, Rows, table
from topo.cli.render.terminal import Glyphs
from topo.cli.render.tree import render_conflict
from topo.cli.render.words import amount_text, path_text, reason_lines, status_mark, status_style
from topo.model.durations import age
from topo.model.forest import LinkState
from topo.model.machine import (
    FabricKind,
    Gpu,
    GpuFabric,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeIdentity,
    PortState,
    ProbeHealth,
    ProbeState,
)
from topo.model.rest.topology import (
    CardDocument,
    LinkSuspicionDocument,
    NodeDetailDocument,
    NodeDocument,
    NodeWireDocument,
    TopologyDocument,
    is_group,
    walk,
)

_GIB = 1 << 30
_LINK_STYLES = {
    LinkKind.SELF: "bright_black",
    LinkKind.METAXLINK: "bold green",
    LinkKind.NVLINK: "bold green",
    LinkKind.HCCS: "bold green",
    LinkKind.HCCS_SW: "bold green",
    LinkKind.SIO: "bold green",
    LinkKind.UNIFIED_BUS: "bold green",
    LinkKind.PIX: "cyan",
    LinkKind.PXB: "cyan",
    LinkKind.PHB: "blue",
    LinkKind.NUMA_NODE: "yellow",
    LinkKind.SYSTEM: "red",
    LinkKind.UNKNOWN: "bold magenta",
}
"""Greener is closer; colour only repeats what the code says."""
_FABRIC_CELLS = attrgetter("gpu", "state", "status", "cluster_uuid", "clique", "rack", "tray")
_SUPER_POD_CELLS = attrgetter("gpu", "cluster_uuid", "server", "size", "rack")
_PROBE_STYLES = {ProbeState.OK: "green", ProbeState.ABSENT: "dim"}


def render_node(document: TopologyDocument, name: str, glyphs: Glyphs) -> RenderableType:
    """Render the answer of `/v1/topology?node=NAME`."""
    return Stack(*_blocks(document, name, glyphs))


def _blocks(document: TopologyDocument, name: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    unplaced = next((e for e in document["unplaced"] if e["name"] == name), None)
    leaves = ((path[:-1], v) for path, v in walk(document["groups"]) if not is_group(v))
    path, leaf = next((found for found in leaves if found[1]["name"] == name), ((), unplaced))
    if leaf is not None:
        yield _head(leaf, path, glyphs)
        yield from _confirmations(document, path)
        yield from reason_lines(leaf["reasons"], glyphs)
    if unplaced is not None:
        why = Text(f"in no group: {plain(unplaced['reason'].text)}", style="yellow")
        yield Hanging(Text("  "), why)
    if leaf is not None and (cards := leaf.get("cards", [])):
        yield Text("\nshared cards", style="bold")
        yield Indented(_cards(cards, glyphs))
    yield from (
        render_conflict(entry, glyphs) for entry in document["conflicts"] if name in entry.subjects
    )
    detail = document["node"]
    if detail is None or detail["identity"] is None:
        yield Text("  no worker has reported this node", style="yellow")
    else:
        yield Text(f"  last message of its worker {age(detail['beat_age_s'])} ago", style="dim")
    if detail is None:
        return
    for title, block in _sections(detail, glyphs):
        yield Text(f"\n{title}", style="bold")
        yield Indented(block)


def _head(node: NodeDocument, path: Sequence[str], glyphs: Glyphs) -> Hanging:
    head = Text().append(plain(node["name"]), style=f"bold {status_style(node['status'])}")
    head.append(f"  {plain(node['status'])}", style=status_style(node["status"]))
    head.append(f"  in {path_text(path)}" if path else "", style="dim")
    return Hanging(status_mark(node["status"], glyphs).append(" "), head)


def _confirmations(document: TopologyDocument, path: tuple[str, ...]) -> Iterator[Text]:
    """Yield who else states exactly the nodes of the innermost group."""
    for at, group in walk(document["groups"]):
        if is_group(group) and at == path and group["confirmed_by"]:
            names = ", ".join(map(plain, group["confirmed_by"]))
            yield Text(f"  {plain(group['name'])} is confirmed by {names}", style="dim")


def _sections(detail: NodeDetailDocument, glyphs: Glyphs) -> Iterator[tuple[str, RenderableType]]:
    """Yield what is known of a node, each part with its title; absent parts are left out."""
    yield from _where(detail)
    if (held := detail["suspicion"]) is not None and held["links"]:
        yield "links that were not as they should be", _held(held["links"], glyphs)
    if identity := detail["identity"]:
        yield "identity", _identity(identity)
    if gpus := detail["gpus"]:
        yield "GPUs", _gpus(gpus, glyphs)
    if matrix := detail["matrix"]:
        yield "links inside the node", render_matrix(matrix)
    if ports := detail["ports"]:
        yield "link ports", _ports(ports, glyphs)
    if detail["peers"] is not None or detail["wires"]:
        yield "servers at the other end", _peers(detail, glyphs)
    if fabrics := detail["fabrics"]:
        is_super_pod = any(fabric.kind is FabricKind.SUPER_POD for fabric in fabrics)
        title = "super pod" if is_super_pod else "NVLink fabric"
        yield title, _fabrics(fabrics, glyphs, is_super_pod=is_super_pod)
    yield from _network(detail, glyphs)
    if probes := detail["probes"]:
        yield "probes", _probes(probes)


def _where(detail: NodeDetailDocument) -> Iterator[tuple[str, RenderableType]]:
    """Yield its groups in each fabric, the tree first, and those that each source writes down."""
    if places := detail["places"]:
        yield "its groups in each fabric", _paths((e["fabric"], e["path"]) for e in places)
    if stated := detail["stated"]:
        yield "where each source puts it", _paths((e["source"], e["path"]) for e in stated)


def _paths(paths: Iterable[tuple[str, Sequence[str]]]) -> Rows:
    """Return paths, each behind the name of what has it."""
    return table("", "", rows=((Text(name, style="dim"), path_text(path)) for name, path in paths))


def _held(links: Sequence[LinkSuspicionDocument], glyphs: Glyphs) -> Rows:
    """Return the evidence against links, with its score and when the suspicion ends by itself."""
    columns = ("link", "score", "suspected", Column("evidence", prose=True))
    return table(*columns, rows=(_held_link(each, glyphs) for each in links))


def _held_link(link: LinkSuspicionDocument, glyphs: Glyphs) -> tuple[Text | str, ...]:
    told = [
        f"{each['count']} {each['kind']}, last {age(each['last_age_s'])} ago"
        for each in link["evidence"]
    ]
    told += [f"confirmed: {plain(link['confirmed'])}"] if link["confirmed"] is not None else []
    until = "" if link["lifted_in_s"] is None else f" for {age(link['lifted_in_s'])} more"
    is_held = link["suspected"]
    words = Text(
        f"{glyphs.attention} yes{until}" if is_held else "no", "yellow" if is_held else "dim"
    )
    return link["link"] or "several at once", f"{link['score']:g}", words, plain("; ".join(told))


def _identity(identity: NodeIdentity) -> Rows:
    stated = (
        ("host name", identity.hostname),
        ("internal IP", identity.internal_ip),
        ("provider id", identity.provider_id),
        ("system UUID", identity.system_uuid),
        ("boot id", identity.boot_id),
    )
    rows = ((Text(label, style="dim"), value) for label, value in stated if value)
    return table("", "", rows=rows)


def _verdict(good: bool | None, words: str, glyphs: Glyphs) -> Text:  # noqa: FBT001 - a fact
    """Return words behind the mark of a fact that is true, false, or unknown (None)."""
    if good is None:
        return Text(f"{glyphs.dot} {words}", style="dim")
    sign = glyphs.ready if good else glyphs.not_ready
    return Text(f"{sign} {words}", style="green" if good else "red")


def _health(part: Gpu | GpuFabric, glyphs: Glyphs) -> Text:
    words = {True: "healthy", False: "failed", None: "not said"}[part.healthy]
    return _verdict(part.healthy, f"{words} {plain(part.trouble)}".strip(), glyphs)


def _gpus(gpus: Iterable[Gpu], glyphs: Glyphs) -> Rows:
    columns = ("#", "model", "memory", "NUMA", "PCI", "uuid", Column("health", prose=True))
    rows = (
        (gpu.index, gpu.model, _memory(gpu), gpu.numa, gpu.bdf, gpu.uuid, _health(gpu, glyphs))
        for gpu in gpus
    )
    return table(*columns, rows=rows)


def _cards(cards: Iterable[CardDocument], glyphs: Glyphs) -> Rows:
    amounts = (Column(title, prose=True) for title in ("free", "of"))
    rows = (
        (
            *(card["id"], card["family"], card["model"], card["mode"]),
            amount_text(card["family"], card["free"]),
            amount_text(card["family"], card["total"]),
            _verdict(card["healthy"], "healthy" if card["healthy"] else "failed", glyphs),
        )
        for card in cards
    )
    return table("card", "family", "model", "mode", *amounts, "health", rows=rows)


def _memory(gpu: Gpu) -> str | None:
    return f"{gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else None


def render_matrix(matrix: LinkMatrix) -> Matrix:
    """Render the link matrix with the codes of the tool, and the NUMA node of each row."""
    names = (*matrix.gpus, *matrix.nics)
    titles = [Text(plain(name)) for name in names]
    if numa := any(entry is not None for entry in matrix.numa):
        titles.append(Text("NUMA"))
    rows = []
    for index, (name, row) in enumerate(zip(names, matrix.links, strict=False)):
        cells = [Text(plain(cell.code), style=_LINK_STYLES.get(cell.kind, "")) for cell in row]
        cells += [Text()] * (len(names) - len(cells))
        place = matrix.numa[index] if index < len(matrix.numa) else None
        tail = [Text("" if place is None else str(place), style="dim")] if numa else []
        rows.append((Text(plain(name), style="dim"), cells + tail))
    return Matrix(titles, rows, right=frozenset({len(names)}))


def _ports(ports: Sequence[LinkPort], glyphs: Glyphs) -> Rows:
    """Render one row per GPU: ports by state, and each port that is down or degraded."""
    by_gpu: dict[int, list[LinkPort]] = defaultdict(list)
    for port in ports:
        by_gpu[port.gpu].append(port)
    columns = ("GPU", "up", "down", "unused", Column("trouble", prose=True))
    return table(*columns, rows=(_ports_of(g, by_gpu[g], glyphs) for g in sorted(by_gpu)))


def _ports_of(gpu: int, ports: Sequence[LinkPort], glyphs: Glyphs) -> tuple[int | Text, ...]:
    count = Counter(port.state for port in ports)
    down = count[PortState.DOWN]
    bad = [port for port in ports if port.state is PortState.DOWN or port.trouble]
    words = ", ".join(f"port {port.port} {plain(port.trouble)}".strip() for port in bad)
    trouble = _verdict(good=False, words=words, glyphs=glyphs) if bad else Text()
    if bad and not down:
        trouble = Text(f"{glyphs.attention} {words}", style="yellow")
    return gpu, count[PortState.UP], down, count[PortState.UNUSED], trouble


def _peers(detail: NodeDetailDocument, glyphs: Glyphs) -> RenderableType:
    """Render this server and those that should be at the other ends, also of cut cables."""
    rows: list[tuple[Text | str | int, ...]] = []
    if detail["peers"] is not None:
        here = Text(plain(detail["peers"].local), style="dim")
        rows.append((Text("this", style="dim"), Text(), Text(), here))
    rows += [_wire(wire, glyphs) for wire in detail["wires"]]
    drawn = table("slot", "node", "state", "server", rows=rows)
    if detail["neighbours"]:
        return drawn
    return Stack(drawn, Text("wired to no known node", style="yellow"))


def _wire(wire: NodeWireDocument, glyphs: Glyphs) -> tuple[Text | str | int, ...]:
    state = _verdict(wire["state"] is LinkState.UP, wire["state"].value, glyphs)
    if wire["state"] is LinkState.UNCONFIRMED:
        state = Text(f"{glyphs.attention} {wire['state'].value}", style="yellow")
    return wire["slot"], ", ".join(wire["nodes"]) or "not known", state, wire["server"]


def _fabrics(fabrics: Sequence[GpuFabric], glyphs: Glyphs, *, is_super_pod: bool) -> Rows:
    joined = any(fabric.member_of is not None for fabric in fabrics)
    health = Column("health", prose=True)
    columns: tuple[str | Column, ...]
    columns = ("GPU", "state", "status", "cluster", "clique", "rack", "tray", health)
    cells = _FABRIC_CELLS
    if is_super_pod:
        columns, cells = ("NPU", "super pod", "server", "NPUs", "rack", health), _SUPER_POD_CELLS
    rows = ((*cells(fabric), _fabric_health(fabric, glyphs, joined=joined)) for fabric in fabrics)
    return table(*columns, rows=rows)


def _fabric_health(fabric: GpuFabric, glyphs: Glyphs, *, joined: bool) -> Text:  # a fact
    """Return the health; a GPU in no domain is unhealthy where others of its node are in one."""
    if fabric.member_of is None:
        return _verdict(False if joined else None, "in no domain", glyphs)
    return _health(fabric, glyphs)


def _network(detail: NodeDetailDocument, glyphs: Glyphs) -> Iterator[tuple[str, RenderableType]]:
    if nics := detail["nics"]:
        yield "network ports", _nics(nics, glyphs)
    if neighbours := detail["nic_neighbours"]:
        yield "at the other ends, by LLDP", _nic_neighbours(neighbours)
    if cables := detail["uplinks"]:
        yield UPLINKS, render_uplinks(cables)


def _nics(nics: Iterable[NetworkPort], glyphs: Glyphs) -> Rows:
    columns = ("port", "state", "rate", "layer", "NUMA", "node GUID")
    return table(*columns, rows=(_nic(nic, glyphs) for nic in nics))


def _nic_neighbours(neighbours: Iterable[NicNeighbour]) -> Rows:
    rows = ((each.nic, each.name or each.chassis, plain(each.port)) for each in neighbours)
    return table("interface", "device", "port", rows=rows)


def _nic(nic: NetworkPort, glyphs: Glyphs) -> tuple[Text | str | int | None, ...]:
    state = _verdict(nic.up, plain(nic.state) or ("up" if nic.up else "down"), glyphs)
    rate = f"{nic.rate_gbps:g} Gb/s" if nic.rate_gbps is not None else None
    return f"{nic.hca}/{nic.port}", state, rate, nic.link_layer, nic.numa, nic.node_guid


def _probes(probes: Iterable[ProbeHealth]) -> Rows:
    rows = (
        (
            probe.probe,
            Text(probe.state.value, style=_PROBE_STYLES.get(probe.state, "red")),
            Text(plain(probe.detail), style="dim"),
        )
        for probe in probes
    )
    return table("probe", "state", Column("detail", prose=True), rows=rows)

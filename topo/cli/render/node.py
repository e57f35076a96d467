"""One node from the inside: identity, GPUs, link matrix, ports, peers, NICs, probes, reasons."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from rich import box
from rich.console import Group as Stack
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs
from topo.cli.render.tree import conflict
from topo.cli.render.words import age, joined, mark, reason_lines, style, table
from topo.model.machine import (
    Gpu,
    GpuFabric,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NodeIdentity,
    PortState,
    ProbeHealth,
    ProbeState,
    ServerPeers,
)
from topo.model.rest.topology import NodeDetailDocument, NodeDocument, TopologyDocument, walk

_GIB = 1 << 30
_LINK_STYLES = {
    LinkKind.SELF: "bright_black",
    LinkKind.METAXLINK: "bold green",
    LinkKind.NVLINK: "bold green",
    LinkKind.HCCS: "bold green",
    LinkKind.HCCS_SW: "bold green",
    LinkKind.SIO: "bold green",
    LinkKind.PIX: "cyan",
    LinkKind.PXB: "cyan",
    LinkKind.PHB: "blue",
    LinkKind.NUMA_NODE: "yellow",
    LinkKind.SYSTEM: "red",
    LinkKind.UNKNOWN: "bold magenta",
}
"""Greener is closer; colour only repeats what the code says."""
_PROBE_STYLES = {ProbeState.OK: "green", ProbeState.ABSENT: "dim"}


def page(document: TopologyDocument, name: str, glyphs: Glyphs) -> RenderableType:
    """The answer of `/v1/topology?node=NAME` for people."""
    return Stack(*_blocks(document, name, glyphs))


def _blocks(document: TopologyDocument, name: str, glyphs: Glyphs) -> Iterator[RenderableType]:
    unplaced = next((e for e in document.unplaced if e.name == name), None)
    leaves = ((path[:-1], v) for path, v in walk(document.groups) if isinstance(v, NodeDocument))
    path, leaf = next((found for found in leaves if found[1].name == name), ((), unplaced))
    if leaf is not None:
        yield _head(leaf, path, glyphs) + reason_lines(leaf.reasons, glyphs)
    if unplaced is not None:
        yield Text(f"  in no group: {plain(unplaced.reason.text)}", style="yellow")
    yield from (conflict(entry, glyphs) for entry in document.conflicts if name in entry.subjects)
    detail = document.node
    if detail is None or detail.identity is None:
        yield Text("  no worker has reported this node", style="yellow")
        return
    yield Text(f"  last message of its worker {age(detail.beat_age_s)} ago", style="dim")
    for title, block in _sections(detail, glyphs):
        yield Text(f"\n{title}", style="bold")
        yield Padding(block, (0, 0, 0, 2), expand=False)


def _head(node: NodeDocument, path: Sequence[str], glyphs: Glyphs) -> Text:
    head = mark(node.status, glyphs)
    head.append(f" {plain(node.name)}", style="bold")
    head.append(f"  {plain(node.status)}", style=style(node.status))
    return head.append(f"  in {joined(path)}" if path else "", style="dim")


def _sections(detail: NodeDetailDocument, glyphs: Glyphs) -> Iterator[tuple[str, RenderableType]]:
    """The parts that the worker reported, each with its title; absent parts are left out."""
    if identity := detail.identity:
        yield "identity", _identity(identity)
    if gpus := detail.gpus:
        yield "GPUs", _gpus(gpus, glyphs)
    if matrix := detail.matrix:
        yield "links inside the node", drawn(matrix)
    if ports := detail.ports:
        yield "link ports", _ports(ports, glyphs)
    if peers := detail.peers:
        yield "servers at the other end", _peers(peers, detail.neighbours, glyphs)
    if fabrics := detail.fabrics:
        yield "NVLink fabric", _fabrics(fabrics, glyphs)
    if nics := detail.nics:
        yield "network ports", _nics(nics, glyphs)
    if probes := detail.probes:
        yield "probes", _probes(probes)


def _identity(identity: NodeIdentity) -> Table:
    rows = table("", "")
    rows.show_header = False
    for label, value in (
        ("host name", identity.hostname),
        ("internal IP", identity.internal_ip),
        ("provider id", identity.provider_id),
        ("system UUID", identity.system_uuid),
        ("boot id", identity.boot_id),
    ):
        if value:
            rows.add_row(Text(label, style="dim"), plain(value))
    return rows


def _verdict(good: bool | None, words: str, glyphs: Glyphs) -> Text:  # noqa: FBT001 - a fact
    """Words with the mark of a fact that holds, does not hold, or is not known."""
    if good is None:
        return Text(f"{glyphs.dot} {words}", style="dim")
    sign = glyphs.ready if good else glyphs.not_ready
    return Text(f"{sign} {words}", style="green" if good else "red")


_HEALTH = {True: "healthy", False: "failed", None: "not said"}


def _gpus(gpus: Iterable[Gpu], glyphs: Glyphs) -> Table:
    rows = table("#", "model", "memory", "NUMA", "PCI", "uuid", "health")
    for gpu in gpus:
        memory = f"{gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else ""
        numa = "" if gpu.numa is None else str(gpu.numa)
        health = " ".join(filter(None, (_HEALTH[gpu.healthy], plain(gpu.trouble))))
        rows.add_row(
            str(gpu.index),
            plain(gpu.model or ""),
            memory,
            numa,
            plain(gpu.bdf or ""),
            plain(gpu.uuid or ""),
            _verdict(gpu.healthy, health, glyphs),
        )
    return rows


def drawn(matrix: LinkMatrix) -> Table:
    """The link matrix with the codes as the tool printed them."""
    names = (*matrix.gpus, *matrix.nics)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for name in names:
        table.add_column(plain(name), justify="center", no_wrap=True)
    if numa := any(entry is not None for entry in matrix.numa):
        table.add_column("NUMA", justify="right")
    for index, (name, row) in enumerate(zip(names, matrix.links, strict=False)):
        cells = [Text(plain(cell.code), style=_LINK_STYLES.get(cell.kind, "")) for cell in row]
        place = matrix.numa[index] if index < len(matrix.numa) else None
        tail = [Text("" if place is None else str(place), style="dim")] if numa else []
        table.add_row(Text(plain(name), style="dim"), *cells, *tail)
    return table


def _ports(ports: Sequence[LinkPort], glyphs: Glyphs) -> Table:
    """One row per GPU: ports by state, and every port that is down with its trouble."""
    rows = table("GPU", "up", "down", "unused", "trouble")
    for gpu in sorted({port.gpu for port in ports}):
        mine = [port for port in ports if port.gpu == gpu]
        count = Counter(port.state for port in mine)
        down = [port for port in mine if port.state is PortState.DOWN]
        words = ", ".join(f"port {port.port} {plain(port.trouble)}".strip() for port in down)
        rows.add_row(
            str(gpu),
            str(count[PortState.UP]),
            str(count[PortState.DOWN]),
            str(count[PortState.UNUSED]),
            _verdict(good=False, words=words, glyphs=glyphs) if down else Text(),
        )
    return rows


_CONNECTED = {True: "connected", False: "not connected", None: "state not said"}


def _peers(peers: ServerPeers, neighbours: Sequence[str], glyphs: Glyphs) -> RenderableType:
    rows = table("slot", "server", "state")
    rows.add_row(Text("this", style="dim"), Text(plain(peers.local), style="dim"), Text())
    for peer in peers.remotes:
        words = _CONNECTED[peer.connected]
        rows.add_row(str(peer.slot), plain(peer.uuid), _verdict(peer.connected, words, glyphs))
    if not neighbours:
        return Stack(rows, Text("wired to no known node", style="yellow"))
    return Stack(rows, Text(f"wired to {', '.join(map(plain, neighbours))}"))


def _fabrics(fabrics: Iterable[GpuFabric], glyphs: Glyphs) -> Table:
    rows = table("GPU", "state", "status", "cluster", "clique", "rack", "tray", "health")
    for fabric in fabrics:
        health = " ".join(filter(None, (_HEALTH[fabric.healthy], plain(fabric.trouble))))
        rows.add_row(
            str(fabric.gpu),
            plain(fabric.state),
            plain(fabric.status),
            plain(fabric.cluster_uuid or ""),
            "" if fabric.clique is None else str(fabric.clique),
            plain(fabric.rack or ""),
            plain(fabric.tray or ""),
            _verdict(fabric.healthy, health, glyphs),
        )
    return rows


def _nics(nics: Iterable[NetworkPort], glyphs: Glyphs) -> Table:
    rows = table("port", "state", "rate", "layer", "NUMA", "node GUID")
    for nic in nics:
        rows.add_row(
            f"{plain(nic.hca)}/{nic.port}",
            _verdict(nic.up, plain(nic.state) or ("up" if nic.up else "down"), glyphs),
            f"{nic.rate_gbps:g} Gb/s" if nic.rate_gbps is not None else "",
            plain(nic.link_layer),
            "" if nic.numa is None else str(nic.numa),
            plain(nic.node_guid or ""),
        )
    return rows


def _probes(probes: Iterable[ProbeHealth]) -> Table:
    rows = table("probe", "state", "detail")
    for probe in probes:
        state = Text(probe.state.value, style=_PROBE_STYLES.get(probe.state, "red"))
        rows.add_row(plain(probe.probe), state, Text(plain(probe.detail), style="dim"))
    return rows

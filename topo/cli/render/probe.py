"""A probe output for people: its format, GPUs, islands, NICs, NUMA nodes and warnings.

A screen of 80 columns at most, also through a pipe; all that is left out is in the JSON.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.fabric import devices, groups
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import GAP, Hanging, Indented
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural
from topo.facts.outputs import LogOutput
from topo.facts.registry import READERS
from topo.facts.vendors import device
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.machine import (
    FabricKind,
    Gpu,
    GpuFabric,
    LinkErrors,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    PortState,
    ServerPeers,
)
from topo.model.observation import DeclaredForest, DeclaredGroup, DeclaredNode, ParsedProbe

COLUMNS = 80
_GIB = 1 << 30
_MOST_LINES = 6
"""Of one row: troubles, warnings, domains. More are counted; the JSON has them."""
_INDIRECT = frozenset(
    {
        LinkKind.SELF,
        LinkKind.ETHERNET,
        LinkKind.PIX,
        LinkKind.PXB,
        LinkKind.PHB,
        LinkKind.NUMA_NODE,
        LinkKind.SYSTEM,
        LinkKind.NONE,
        LinkKind.UNKNOWN,
    }
)
"""Ways over PCIe, the network or none; every other kind is a vendor's own link."""
_NUMBERED = re.compile(r"(.*?[^0-9])(0|[1-9][0-9]{0,5})", re.ASCII)
"""A name that ends with a number; one with leading zeros stands for itself."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Row:
    label: str
    lines: Sequence[str]
    bad: bool = False


def render_outputs(found: Iterable[LogOutput], glyphs: Glyphs, *, lines: bool) -> RenderableType:
    """Render the outputs one below the other; `lines` adds the lines of the text of each."""
    return Stack(*_blocks(found, glyphs, lines=lines))


def _blocks(found: Iterable[LogOutput], glyphs: Glyphs, *, lines: bool) -> Iterator[RenderableType]:
    for number, output in enumerate(found):
        head = Text("\n" if number else "")
        head.append(output.format or "unknown format", style="bold")
        reader = READERS.get(output.format or "")
        if reader is not None and reader.command:
            head.append(f"  {reader.command}", style="dim")
        if lines:
            head.append(f"  lines {output.first_line}-{output.last_line}", style="cyan")
        yield head
        answer = output.answer
        rows = _refused(answer) if isinstance(answer, Refusal) else _rows(answer, glyphs)
        yield from _drawn(tuple(rows), glyphs)


def _refused(refusal: Refusal) -> Iterator[_Row]:
    yield _Row("not read", (refusal.what,), bad=True)
    if refusal.where:
        yield _Row("at", (refusal.where,))
    yield _Row("next", (refusal.fix,))


def _drawn(rows: Sequence[_Row], glyphs: Glyphs) -> Iterator[RenderableType]:
    width = max(len(row.label) for row in rows) + GAP
    for row in rows:
        shown = list(row.lines[:_MOST_LINES])
        if len(row.lines) > _MOST_LINES:
            shown.append(f"{glyphs.ellipsis} {len(row.lines) - _MOST_LINES} more: -o json has all")
        for number, line in enumerate(shown):
            label = Text((row.label if number == 0 else "").ljust(width), style="dim")
            yield Indented(Hanging(label, Text(plain(line), style="yellow" if row.bad else "")))


def _rows(parsed: ParsedProbe, glyphs: Glyphs) -> Iterator[_Row]:
    matrix = next(_each(parsed, LinkMatrix), None)
    gpus, nics = tuple(_each(parsed, Gpu)), tuple(_each(parsed, NetworkPort))
    core = {
        "GPUs": _gpus(gpus, matrix),
        "islands": _islands(matrix) if matrix else (),
        "NICs": _nics(nics, matrix),
        "NUMA": _numa(gpus, matrix),
    }
    yield from (_Row(label, lines) for label, lines in core.items() if lines)
    yield from _links(tuple(_each(parsed, LinkPort)), parsed.absent_links)
    if errors := tuple(_each(parsed, LinkErrors)):
        yield _link_errors(errors)
    if fabrics := tuple(_each(parsed, GpuFabric)):
        yield _Row("fabric", _fabric(fabrics, glyphs))
    if neighbours := tuple(_each(parsed, NicNeighbour)):
        yield _Row("cables", tuple(map(_neighbour, neighbours)))
    for peers in _each(parsed, ServerPeers):
        yield _Row("servers", _peers(peers, glyphs))
    declared = tuple(_each(parsed, DeclaredForest))
    yield from (_Row("groups", _declared(forest)) for forest in declared)
    dumps = tuple(_each(parsed, FabricDump))
    for dump in dumps:
        yield _Row("devices", devices(dump))
        yield _Row("groups", groups(dump) or ("none: no host is named",))
    unsaid = [label for label, lines in core.items() if not lines]
    if unsaid and not (declared or dumps):
        yield _Row("not stated", (", ".join(unsaid),))
    yield _Row("warnings", parsed.warnings or ("none",), bad=bool(parsed.warnings))


def _each(parsed: ParsedProbe, kind: type[T]) -> Iterator[T]:
    for fact in parsed.facts:
        for item in fact if isinstance(fact, tuple) else (fact,):
            if isinstance(item, kind):
                yield item


def _gpus(gpus: Sequence[Gpu], matrix: LinkMatrix | None) -> tuple[str, ...]:
    if not gpus:
        return (f"{len(matrix.gpus)}  {_named(matrix.gpus)}",) if matrix else ()
    models = Counter(_model(gpu) for gpu in gpus)
    kinds = [name if len(models) == 1 else f"{count} {name}" for name, count in models.items()]
    ill = [gpu for gpu in gpus if gpu.healthy is False]
    well = all(gpu.healthy for gpu in gpus)
    words = f"{len(gpus)}  {', '.join(filter(None, kinds))}{', all healthy' if well else ''}"
    return (words.strip(), *(f"GPU {gpu.index} unhealthy: {gpu.trouble}" for gpu in ill))


def _model(gpu: Gpu) -> str:
    memory = f" {gpu.memory_bytes / _GIB:.0f} GiB" if gpu.memory_bytes else ""
    return f"{gpu.model or 'no model named'}{memory}"


def _islands(matrix: LinkMatrix) -> tuple[str, ...]:
    """Return a line per set of GPUs that the vendor's links join, directly or through others."""
    islands = [part for part in _components(matrix) if len(part) > 1]
    alone = len(matrix.gpus) - sum(map(len, islands))
    why = "not understood" if matrix.unknown_codes else "over PCIe or the network only"
    rest = [f"{alone} GPU{plural(alone)} alone: links {why}"] if alone else []
    told = [f"{_named([matrix.gpus[i] for i in part])}, {_codes(matrix, part)}" for part in islands]
    count = f"{len(islands)}  "
    more = (f"{' ' * len(count)}{line}" for line in told[1:])
    return (f"{count}{told[0]}" if told else "none", *more, *rest)


def _components(matrix: LinkMatrix) -> list[list[int]]:
    left, found = list(range(len(matrix.gpus))), []
    while left:
        part = [left.pop(0)]
        for one in part:
            part += [i for i in left if _has_direct_link(matrix, one, i)]
            left = [i for i in left if i not in part]
        found.append(sorted(part))
    return found


def _has_direct_link(matrix: LinkMatrix, a: int, b: int) -> bool:
    return not {matrix.links[a][b].kind, matrix.links[b][a].kind} <= _INDIRECT


def _codes(matrix: LinkMatrix, part: Sequence[int]) -> str:
    return ", ".join(
        sorted(
            {matrix.links[a][b].code for a in part for b in part if _has_direct_link(matrix, a, b)}
        )
    )


def _nics(nics: Sequence[NetworkPort], matrix: LinkMatrix | None) -> tuple[str, ...]:
    if not nics:
        named = matrix.nics if matrix else ()
        return (f"{len(named)}  {_named(named)}",) if named else ()
    down = [f"{nic.hca}/{nic.port} is not up: {nic.state}" for nic in nics if not nic.up]
    names = dict.fromkeys(nic.hca for nic in nics)
    up = sum(nic.up for nic in nics)
    head = f"{len(names)}  {_named(tuple(names))}, {up} of {len(nics)} port{plural(len(nics))} up"
    return (head, *down)


def _neighbour(found: NicNeighbour) -> str:
    return f"{found.nic} to {found.name or found.chassis} port {found.port}"


def _numa(gpus: Sequence[Gpu], matrix: LinkMatrix | None) -> tuple[str, ...]:
    """Return a line per NUMA node; none where none is stated."""
    places: dict[int, list[str]] = defaultdict(list)
    cpus: dict[int, set[str]] = defaultdict(set)
    stated = [(f"GPU{gpu.index}", gpu.numa, "") for gpu in gpus]
    if matrix and matrix.numa and not any(gpu.numa is not None for gpu in gpus):
        told = matrix.cpus or ("",) * len(matrix.gpus)
        stated = list(zip(matrix.gpus, matrix.numa, told, strict=True))
    for name, numa, cpu_list in stated:
        if numa is not None:
            places[numa].append(name)
            cpus[numa].add(cpu_list)
    lines = [f"{numa}  {_named(places[numa])}{_cpus(cpus[numa])}" for numa in sorted(places)]
    unknown = [name for name, numa, _ in stated if numa is None]
    if lines and unknown:
        lines.append(f"unknown of {_named(unknown)}")
    return tuple(lines)


def _cpus(lists: set[str]) -> str:
    (only,) = lists if len(lists) == 1 else ("",)
    return f", CPUs {only}" if only else ""


def _links(ports: Sequence[LinkPort], absent: Sequence[str]) -> Iterator[_Row]:
    if not ports:
        if absent:
            yield _Row("links", absent)
        return
    slow = [port for port in ports if port.state is PortState.UP and port.trouble]
    count = Counter(port.state for port in ports)
    parts = {
        "up": count[PortState.UP] - len(slow),
        "degraded": len(slow),
        "down": count[PortState.DOWN],
        "unused": count[PortState.UNUSED],
    }
    head = ", ".join(f"{number} {state}" for state, number in parts.items() if number)
    bad: dict[tuple[int, str], list[int]] = defaultdict(list)
    for port in ports:
        if port.trouble or port.state is PortState.DOWN:
            bad[port.gpu, port.trouble or port.state.value].append(port.port)
    told = [
        f"GPU {gpu} link{plural(len(links))} {', '.join(_runs(sorted(links)))}: {trouble}"
        for (gpu, trouble), links in bad.items()
    ]
    yield _Row("links", (head, *told, *absent), bad=bool(told))


def _link_errors(errors: Sequence[LinkErrors]) -> _Row:
    """Return the counters above zero, the largest first."""
    risen = sorted((e for e in errors if e.count), key=lambda e: (-e.count, e.gpu, e.link))
    head = f"{len(errors)} counter{plural(len(errors))}, {len(risen) or 'none'} above zero"
    told = (f"GPU {e.gpu} link {e.link}: {e.count} {e.kind}" for e in risen)
    return _Row("link errors", (head, *told), bad=bool(risen))


def _fabric(fabrics: Sequence[GpuFabric], glyphs: Glyphs) -> tuple[str, ...]:
    """Return a line per state and domain, and the troubles."""
    told: dict[str, list[str]] = defaultdict(list)
    for fabric in fabrics:
        domain = fabric.member_of
        words = f"in no domain ({fabric.state}{', ' * bool(fabric.status)}{fabric.status})"
        if domain:
            words = f"cluster {domain.cluster} clique {domain.clique}"
        if domain and domain.kind is FabricKind.SUPER_POD:
            words = f"{fabric.cluster_uuid} of {fabric.size} NPUs, server {fabric.server}"
        told[words].append(f"GPU{fabric.gpu}")
    bad = [f"GPU {f.gpu} unhealthy: {f.trouble}" for f in fabrics if f.healthy is False]
    return (*(f"{_named(names)} {glyphs.arrow} {words}" for words, names in told.items()), *bad)


def _peers(peers: ServerPeers, glyphs: Glyphs) -> tuple[str, ...]:
    states = {True: "connected", False: "not connected", None: "state not said"}
    told = (f"{p.slot} {glyphs.arrow} {p.uuid} {states[p.connected]}" for p in peers.remotes)
    return (f"this {peers.local}", *told)


def _declared(forest: DeclaredForest) -> tuple[str, ...]:
    kinds: Counter[str] = Counter()
    left: list[DeclaredGroup | DeclaredNode] = list(forest.roots)
    while left:
        one = left.pop()
        kinds[one.kind if isinstance(one, DeclaredGroup) else "node"] += 1
        left += one.children if isinstance(one, DeclaredGroup) else ()
    return (", ".join(f"{kinds[kind]} {kind}" for kind in sorted(kinds)),)


def _named(names: Sequence[str]) -> str:
    """Return names as people write them: `GPU 0-3, 6`, `mlx5_0-9, mlx5_bond_0`."""
    numbers: dict[str, list[int]] = defaultdict(list)
    single: list[str] = []
    for name in names:
        found = device(name)
        plainly = _NUMBERED.fullmatch(name)
        if found is not None:
            numbers[f"{found[0]} "].append(found[1])
        elif plainly is not None:
            numbers[plainly.group(1)].append(int(plainly.group(2)))
        else:
            single.append(name)
    runs = (f"{word}{', '.join(_runs(sorted(found)))}" for word, found in numbers.items())
    return ", ".join([*runs, *single])


def _runs(numbers: Sequence[int]) -> Iterator[str]:
    begin = last = numbers[0]
    for number in (*numbers[1:], None):
        if number is None or number != last + 1:
            yield str(begin) if begin == last else f"{begin}-{last}"
            begin = number if number is not None else begin
        last = number if number is not None else last

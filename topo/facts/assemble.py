"""Parsed probes of one host to `NodeFacts`: who is believed, field by field.

Result: one `NodeFacts`. Sources are taken in the order of their trust (library, command, exporter,
kernel), within the same trust in the order given. A later source fills fields that are still
unknown and never overrides one. What a source states of its GPU 3 follows that GPU to its place in
the result (see `gpu_join`).

That is right because trust is fixed per format: the same readings give the same facts in whatever
order they came, and a source that comes late can add but not contradict.

Cost: O(GPUs² + ports), the square for the link matrix.

Example: `mx-smi -L` lists GPU0 with its model and no health; `mx-smi topo -m` states the links and
NUMA node 1 of GPU0; sysfs lists the card at the same address with NUMA node 0. The GPU has the
model of the list and NUMA node 0: the kernel states it of the card, the matrix fills in only where
nobody does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from topo.facts.gpu_join import GpuTable, filled
from topo.facts.reader import Trust
from topo.facts.registry import READERS
from topo.facts.vendors import device
from topo.model.errors import Refusal
from topo.model.ids import natural_key
from topo.model.machine import (
    MAX_GPUS,
    MAX_NICS,
    MAX_PORTS,
    Gpu,
    GpuFabric,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeFacts,
    NodeIdentity,
    ProbeHealth,
    ServerPeers,
)
from topo.model.observation import ParsedProbe

T = TypeVar("T")
_OF_A_PORT = ("speed_gts", "width", "remote")


@dataclass(frozen=True, slots=True)
class _Source:
    """One parsed probe; `indexes` maps its GPU indexes to those of the result."""

    probe: ParsedProbe
    indexes: Mapping[int, int]

    def index(self, own: int) -> int:
        """Keep the number of a GPU that the source mentions and does not list."""
        return self.indexes.get(own, own)

    def each(self, kind: type[T]) -> Iterator[T]:
        """Return the items of one kind, whether they stand alone or in a tuple."""
        for fact in self.probe.facts:
            for item in fact if isinstance(fact, tuple) else (fact,):
                if isinstance(item, kind):
                    yield item


def assemble(
    identity: NodeIdentity,
    parsed: Sequence[tuple[str, ParsedProbe | Refusal | None]],
    health: Sequence[ProbeHealth],
) -> NodeFacts:
    """Return the facts of one reading; refusals and None add nothing (`health` has the reason).

    sysfs alone never adds GPUs to those that a driver lists: cards on the bus may be given to
    virtual machines. O(GPUs² + ports).
    """
    probes = [found for _, found in parsed if isinstance(found, ParsedProbe)]
    table = GpuTable()
    sources: list[_Source] = []
    for probe in sorted(probes, key=_trust):
        adding = _trust(probe) < Trust.KERNEL or not table.gpus
        listed = _Source(probe, {}).each(Gpu)
        sources.append(_Source(probe, table.merge(listed, adding=adding)))
    matrix = _matrix(sources)
    gpus = tuple(sorted((_with_numa(g, matrix) for g in table.gpus), key=lambda g: g.index))
    return NodeFacts(
        identity=identity,
        gpus=gpus[:MAX_GPUS],
        matrix=matrix,
        ports=_ports(sources, gpus)[:MAX_PORTS],
        peers=_peers(sources),
        fabrics=_fabrics(sources)[:MAX_GPUS],
        nics=_nics(sources)[:MAX_NICS],
        nic_neighbours=tuple(each for source in sources for each in source.each(NicNeighbour)),
        probes=tuple(health),
    )


def _trust(probe: ParsedProbe) -> Trust:
    reader = READERS.get(probe.format)
    return reader.trust if reader else Trust.COMMAND


def _matrix(sources: Sequence[_Source]) -> LinkMatrix | None:
    """Return the first matrix, completed by later matrices over the same GPUs."""
    best: LinkMatrix | None = None
    for source in sources:
        for matrix in source.each(LinkMatrix):
            renamed = _renamed(matrix, source)
            best = renamed if best is None else _matrix_filled(best, renamed)
    return best


def _renamed(matrix: LinkMatrix, source: _Source) -> LinkMatrix:
    """Return the matrix with its GPUs under the numbers of the result.

    A GPU that the source lists and the result has not keeps a name that joins with nothing.
    """
    listed = {gpu.index for gpu in source.each(Gpu)}
    names: list[str] = []
    for name in matrix.gpus:
        found = device(name)
        if found is None:
            names.append(name)
        elif found[1] in listed and found[1] not in source.indexes:
            names.append(f"unlisted {name}")
        else:
            names.append(f"{found[0]}{source.index(found[1])}")
    return replace(matrix, gpus=tuple(names))


def _matrix_filled(known: LinkMatrix, more: LinkMatrix) -> LinkMatrix:
    """Return `known` with NUMA nodes, CPU lists and NICs of `more` where it has none."""
    if set(known.gpus) != set(more.gpus):
        return known
    order = [more.gpus.index(name) for name in known.gpus]
    size = len(order)
    numa, cpus = known.numa or (None,) * size, known.cpus or ("",) * size
    filled = replace(
        known,
        numa=tuple(
            a if a is not None or not more.numa else more.numa[i]
            for a, i in zip(numa, order, strict=True)
        ),
        cpus=tuple(
            a or (more.cpus[i] if more.cpus else "") for a, i in zip(cpus, order, strict=True)
        ),
    )
    if known.nics or not more.nics:
        return filled
    gpu_rows = (known.links[at] + more.links[i][size:] for at, i in enumerate(order))
    nic_rows = (tuple(row[i] for i in order) + row[size:] for row in more.links[size:])
    rows = (*gpu_rows, *nic_rows)
    unknown = sum(link.kind is LinkKind.UNKNOWN for row in rows for link in row)
    return replace(filled, nics=more.nics, links=rows, unknown_codes=unknown)


def _with_numa(gpu: Gpu, matrix: LinkMatrix | None) -> Gpu:
    if gpu.numa is not None or matrix is None or not matrix.numa:
        return gpu
    for name, numa in zip(matrix.gpus, matrix.numa, strict=True):
        found = device(name)
        if found is not None and found[1] == gpu.index:
            return replace(gpu, numa=numa)
    return gpu


def _ports(sources: Sequence[_Source], gpus: Sequence[Gpu]) -> tuple[LinkPort, ...]:
    """Return the ports by GPU and number; the first source decides a port's state."""
    ports: dict[tuple[int, int], LinkPort] = {}
    for source in sources:
        reader = READERS.get(source.probe.format)
        renumber = reader.renumber if reader else None
        found = (replace(port, gpu=source.index(port.gpu)) for port in source.each(LinkPort))
        for port in renumber(found, gpus) if renumber else found:
            known = ports.get((port.gpu, port.port))
            ports[port.gpu, port.port] = port if known is None else _port_filled(known, port)
    return tuple(ports[key] for key in sorted(ports))


def _port_filled(known: LinkPort, more: LinkPort) -> LinkPort:
    """Return `known` with what else `more` states.

    Its trouble counts where both state the same port state.
    """
    if known.state is more.state and not known.trouble:
        known = replace(known, trouble=more.trouble)
    return filled(known, more, _OF_A_PORT)


def _peers(sources: Sequence[_Source]) -> ServerPeers | None:
    """Return the first source's peers; later ones about the same server add which are connected."""
    best: ServerPeers | None = None
    for source in sources:
        for peers in source.each(ServerPeers):
            if best is None:
                best = peers
            elif peers.local == best.local:
                connected = {peer.uuid: peer.connected for peer in peers.remotes}
                remotes = (
                    peer
                    if peer.connected is not None
                    else replace(peer, connected=connected.get(peer.uuid))
                    for peer in best.remotes
                )
                best = replace(best, remotes=tuple(remotes))
    return best


def _fabrics(sources: Sequence[_Source]) -> tuple[GpuFabric, ...]:
    fabrics: dict[int, GpuFabric] = {}
    for source in sources:
        for fabric in source.each(GpuFabric):
            index = source.index(fabric.gpu)
            known = fabrics.setdefault(index, replace(fabric, gpu=index))
            if known.healthy is None:
                known = replace(known, healthy=fabric.healthy, trouble=fabric.trouble)
            fabrics[index] = filled(known, fabric, ("rack", "tray", "server", "size"))
    return tuple(fabrics[index] for index in sorted(fabrics))


def _nics(sources: Sequence[_Source]) -> tuple[NetworkPort, ...]:
    nics: dict[tuple[str, int], NetworkPort] = {}
    for source in sources:
        for nic in source.each(NetworkPort):
            nics.setdefault((nic.hca, nic.port), nic)
    return tuple(nics[key] for key in sorted(nics, key=lambda key: (natural_key(key[0]), key[1])))

"""Discovery states that were told of nodes, and of dumps of their fabric."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from tests.builders import discovery, facts
from tests.support.fabric import Built
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.ids import NodeName
from topo.model.machine import NetworkPort
from topo.model.observation import (
    ClusterNodesListed,
    FabricLoaded,
    ListedNode,
    WorkerReported,
)


def read(text: str) -> FabricDump:
    """The fabric of a dump."""
    found = parse(text)
    assert not isinstance(found, Refusal), found
    (dump,) = [fact for fact in found.facts if isinstance(fact, FabricDump)]
    return dump


def dumped(*texts: str, made_at: Sequence[float] = ()) -> FabricLoaded:
    """The event of these dumps; all of one time where none is given."""
    times = made_at or [0.0] * len(texts)
    dumps = (replace(read(text), made_at=at) for text, at in zip(texts, times, strict=True))
    return FabricLoaded(tuple((f"subnet-{n}", dump) for n, dump in enumerate(dumps)))


def listed(hosts: Iterable[str]) -> ClusterNodesListed:
    """The event of a cluster that has these nodes, of 8 GPUs each."""
    return ClusterNodesListed(tuple(ListedNode(NodeName(h), "", (), (), 8) for h in hosts))


def spoken(
    host: str,
    guids: Sequence[str],
    *,
    named: str = "",
    down: Collection[str] = (),
    peers: Iterable[str] = (),
) -> WorkerReported:
    """The event of a worker that reports these adapters; `named`: its node has another name."""
    ports = tuple(
        NetworkPort(f"mlx5_{n}", 1, up=guid not in down, node_guid=fours(guid))
        for n, guid in enumerate(guids)
    )
    return WorkerReported(replace(facts(named or host, peers), nics=ports))


def fours(guid: str) -> str:
    """As sysfs writes a GUID."""
    return ":".join(guid[at : at + 4] for at in range(0, 16, 4))


def in_fabric(built: Built, hosts: Iterable[str] = (), **settings: object) -> Discovery:
    """A state that was told of the nodes by the cluster alone, and of one dump."""
    state = discovery(Mode.FABRIC, **settings)
    state.advance(0.0, listed(hosts or built.adapters), dumped(built.text()))
    state.validate()
    return state


def reports(built: Built) -> list[WorkerReported]:
    """The event of the worker of each host."""
    return [spoken(host, guids) for host, guids in built.adapters.items()]


def truth(units: Mapping[str, Sequence[str]]) -> set[frozenset[str]]:
    """The sets of hosts that share a unit."""
    return {frozenset(hosts) for hosts in units.values()}

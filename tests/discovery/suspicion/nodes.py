"""Nodes with InfiniBand ports, GPU links and counters, in one line each."""

from collections.abc import Iterable, Mapping

from tests.builders import facts
from topo.discovery.suspicion.machine import QUIET_S, Suspicions
from topo.model.ids import NodeName
from topo.model.machine import LinkCount, LinkPort, NetworkPort, NodeFacts, PortState
from topo.model.observation import LinksCounted, OperatorAct, OperatorDecided, WorkerReported

HOUR_S, DAY_S = 3600.0, 86_400.0
PORTS = tuple(f"mlx5_{number}" for number in range(8))


def host(
    name: str,
    *,
    down: Iterable[str] = (),
    slow: Iterable[str] = (),
    boot: str = "boot-1",
) -> NodeFacts:
    """A node of eight adapters with one port each; some down, some `slow` (at half)."""
    out, at_rate = set(down), dict.fromkeys(slow, 200.0)
    nics = tuple(
        NetworkPort(hca, 1, up=hca not in out, rate_gbps=at_rate.get(hca, 400.0)) for hca in PORTS
    )
    seen = facts(name, boot=boot)
    return NodeFacts(seen.identity, seen.gpus, nics=nics)


def gpu_host(name: str, *, down: Iterable[int] = (), slow: Iterable[int] = ()) -> NodeFacts:
    """A node whose GPU 0 has eighteen links."""
    out, degraded = set(down), set(slow)
    ports = tuple(
        LinkPort(
            0,
            number,
            PortState.DOWN if number in out else PortState.UP,
            trouble="slow" if number in degraded else "",
        )
        for number in range(18)
    )
    seen = facts(name)
    return NodeFacts(seen.identity, seen.gpus, ports=ports)


def counted(name: str, counts: Mapping[tuple[str, str], int]) -> LinksCounted:
    """A reading of counters, by link and kind."""
    found = tuple(LinkCount(link, kind, count) for (link, kind), count in counts.items())
    return LinksCounted(NodeName(name), found)


def decided(name: str, act: OperatorAct, link: str = "", reason: str = "") -> OperatorDecided:
    return OperatorDecided(NodeName(name), act, link, reason)


def settled(*seen: NodeFacts, at_s: float = -QUIET_S) -> Suspicions:
    """Suspicions that know these nodes for long enough to listen, at time 0."""
    state = Suspicions()
    state.advance(at_s, *map(WorkerReported, seen))
    return state


def flap(state: Suspicions, at_s: float, *seen: tuple[NodeFacts, NodeFacts]) -> None:
    """Let nodes be as they are first, then as they are last."""
    state.advance(at_s, *(WorkerReported(first) for first, _ in seen))
    state.advance(at_s, *(WorkerReported(last) for _, last in seen))


def links(state: Suspicions, name: str) -> dict[str, str]:
    """The suspected links of a node with their evidence."""
    held = state.of(NodeName(name))
    return dict(held.links) if held is not None else {}

"""Nodes with InfiniBand ports, GPU links and counters, in one line each."""

from collections.abc import Iterable, Mapping

from pydantic import TypeAdapter

from tests.builders import facts
from topo.discovery.suspicion.evidence import HALF_LIFE_S
from topo.discovery.suspicion.machine import QUIET_S, Suspicions
from topo.discovery.suspicion.memory import SuspicionMemory
from topo.model.ids import BootId, NodeName
from topo.model.machine import LinkCount, LinkPort, NetworkPort, NodeFacts, PortState
from topo.model.observation import LinksCounted, OperatorAct, OperatorDecided, WorkerReported

HOUR_S, DAY_S = 3600.0, 86_400.0
PORT = "mlx5_3 port 1"
PORTS = tuple(f"mlx5_{number}" for number in range(8))
_MEMORY = TypeAdapter(SuspicionMemory)


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


def fall(state: Suspicions, name: str, at_s: float, *hcas: str) -> None:
    """Let ports of a node fall and come back; `PORT` where none is named."""
    flap(state, at_s, (host(name, down=hcas or ["mlx5_3"]), host(name)))


def score(state: Suspicions, name: str, link: str, now_s: float) -> float:
    """What is left of the score of a link."""
    record = state.links(NodeName(name))[link]
    return record.score * 2 ** (-(now_s - record.at_s) / HALF_LIFE_S)


def restored(state: Suspicions, now_s: float, **boots: str) -> Suspicions:
    """What the next master knows; the boots of a and b are boot-1 where nothing else is said."""
    state.advance(now_s)
    kept = _MEMORY.validate_json(_MEMORY.dump_json(state.persistent_state()))
    later = Suspicions()
    known = {"a": "boot-1", "b": "boot-1"} | boots
    later.restore(kept, {NodeName(n): BootId(boot) for n, boot in known.items()}, now_s)
    return later

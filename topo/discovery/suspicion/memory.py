"""What of the suspicions survives a restart: scores and counters, with ages in place of times."""

from dataclasses import dataclass

from topo.model.ids import NodeName, ServerUuid


@dataclass(frozen=True, slots=True)
class LinkMemory:
    """One link end; `counts` are (kind, count, age), `evidence` (kind, count, first, last age)."""

    link: str
    score: float
    counts: tuple[tuple[str, int, float], ...] = ()
    evidence: tuple[tuple[str, int, float, float], ...] = ()
    is_named: bool = False
    times: int = 0
    confirmed: str | None = None
    unpaired_flaps: int = 0
    far: ServerUuid | None = None
    unpaired_age_s: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeLinksMemory:
    """The links of one node of which something is known; the reason and age of its quarantine.

    `down` are ports that fell and were not seen up since, with how long ago, and at what rate.
    """

    node: NodeName
    links: tuple[LinkMemory, ...] = ()
    quarantine: tuple[str, float] | None = None
    down: tuple[tuple[str, float, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SuspicionMemory:
    """All that is kept; `counted` are the nodes whose counters were read in their last boot.

    `quiet` are the nodes whose links train, with how long still.
    """

    nodes: tuple[NodeLinksMemory, ...] = ()
    counted: tuple[NodeName, ...] = ()
    quiet: tuple[tuple[NodeName, float], ...] = ()

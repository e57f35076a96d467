"""Hosts with GPUs, ports, NICs and fabrics that vanish or go bad, and what is said of them."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from tests.builders import (
    discovery,
    fabric_facts,
    nodes,
)
from tests.builders import facts as metax_facts
from topo.discovery.state import Discovery
from topo.model.machine import (
    Gpu,
    Link,
    LinkKind,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NodeFacts,
    PortState,
)
from topo.model.observation import WorkerReported

PROBES = Path(__file__).resolve().parents[2].parent / "shared/data/probes"


def told(state: Discovery, at_s: float, *said: NodeFacts, times: int = 1) -> Discovery:
    """The same readings, so many times."""
    for _ in range(times):
        state.advance(at_s, *map(WorkerReported, said))
    return state


def codes(state: Discovery, node: str) -> set[str]:
    """The codes of the reasons why a node is NotReady."""
    return {reason.code for reason in nodes(state)[node].reasons}


PAIR = ("a", "b")
"""The vendor's dragonfly: two nodes, wired to each other."""


def matrix(rows: Iterable[Iterable[LinkKind]]) -> LinkMatrix:
    """A link matrix of GPUs alone."""
    links = tuple(tuple(Link(kind, kind.value) for kind in row) for row in rows)
    return LinkMatrix(tuple(f"GPU{n}" for n in range(len(links))), (), links)


def islands(*sizes: int, cut: Iterable[int] = ()) -> LinkMatrix:
    """GPUs in islands of MetaXLink, the system between them; those that are `cut` have no link."""
    island = [number for number, size in enumerate(sizes) for _ in range(size)]
    gone, gpus = set(cut), range(len(island))
    return matrix(
        (
            LinkKind.SELF
            if a == b
            else LinkKind.SYSTEM
            if island[a] != island[b] or {a, b} & gone
            else LinkKind.METAXLINK
            for b in gpus
        )
        for a in gpus
    )


def host(node: str, **more: object) -> NodeFacts:
    """A node of the pair with 8 GPUs of 7 wired ports each (one more unused) and 4 NICs."""
    peer = PAIR[1 - PAIR.index(node)]
    seen = metax_facts(node, [peer], **more)  # type: ignore[arg-type]
    ports = tuple(
        LinkPort(gpu.index, port, PortState.UP if port < 7 else PortState.UNUSED)
        for gpu in seen.gpus
        for port in range(8)
    )
    nics = tuple(NetworkPort(f"mlx5_{n}", 1, up=True) for n in range(4))
    gpus = tuple(replace(gpu, model="MXC550") for gpu in seen.gpus)
    return replace(seen, gpus=gpus, ports=ports, nics=nics, matrix=islands(4, 4))


def pair(**settings: object) -> Discovery:
    """A dragonfly of two such nodes, heard twice: what one reading alone shows is no fact."""
    return told(discovery(**settings), 0.0, *map(host, PAIR), times=2)  # type: ignore[arg-type]


def restarted(state: Discovery, at_s: float, **settings: object) -> Discovery:
    """Another process of the master with the same memory."""
    again = discovery(**settings)  # type: ignore[arg-type]
    again.restore(state.persistent_state(), 1.0, at_s)
    again.validate()
    return again


def unplugged(facts: NodeFacts, gpu: int, left: int, how: PortState | None) -> NodeFacts:
    """Of the ports of a GPU only the first ones are up; the rest are in a state, or not listed."""
    ports = (
        port if port.gpu != gpu or port.port < left else how and replace(port, state=how)
        for port in facts.ports
    )
    return replace(facts, ports=tuple(port for port in ports if port))


def tray(node: str, gpus: int, model: str | None = "GB200") -> NodeFacts:
    """A tray of a clique with so many GPUs."""
    seen = fabric_facts(node, "c1", gpus=gpus)
    return replace(seen, gpus=tuple(Gpu(i, model=model) for i in range(gpus)))

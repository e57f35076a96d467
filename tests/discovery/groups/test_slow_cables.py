"""Slow cables are named by those beside them, as hosts read their own ports, and as dumps say."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import mode

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.builders import discovery
from tests.discovery.fabrics import in_fabric, spoken
from tests.discovery.rails import World, by_infiniband, by_lldp, wired
from tests.support.fabric import rails
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.ids import NodeName
from topo.model.observation import Event, WorkerReported

Port = tuple[str, int]
"""A host and the number of its adapter."""
FULL, SLOW, RAILS = 400.0, 200.0, 4
TELL: Sequence[Callable[[World], Sequence[Event]]] = (by_lldp, by_infiniband)


def reading(
    events: Iterable[Event], speeds: Mapping[Port, float], *, is_up: bool = True
) -> list[Event]:
    """The events with what each host reads of its ports, the full speed of most."""
    found: list[Event] = []
    for event in events:
        if isinstance(event, WorkerReported):
            host, nics = event.facts.identity.name, event.facts.nics
            said = (
                replace(nic, up=is_up, rate_gbps=speeds.get((host, n), FULL))
                for n, nic in enumerate(nics)
            )
            found.append(WorkerReported(replace(event.facts, nics=tuple(said))))
        else:
            found.append(event)
    return found


def named(state: Discovery) -> set[tuple[str, str]]:
    """The leaves of slow cables, by node."""
    found = [e for e in state.snapshot.forest.conflicts if e.code == "fabric-cable-slow"]
    cables = [(e.subjects[0], leaf) for e in found for leaf in re.findall(r"(\S+) port", e.text)]
    assert len(set(cables)) == len(cables)
    return set(cables)


def pods(hosts: int) -> World:
    """Two units of so many hosts on four leaves each; the vendor's are two."""
    units = {unit: [f"{unit}-{n}" for n in range(hosts)] for unit in ("a", "b")}
    return wired(units, RAILS, 1, 1)


def expected(world: World, slow: set[Port]) -> set[tuple[str, str]]:
    """Beside the ports of the leaf where most agree, else beside those of the unit."""
    at: dict[str, list[float]] = {}
    for host, leaves in world.leaves.items():
        for n, leaf in enumerate(leaves):
            at.setdefault(leaf, []).append(SLOW if (host, n) in slow else FULL)
    found = set()
    for host, n in slow:
        leaf = world.leaves[host][n]
        unit = [each for name in at if name[0] == leaf[0] for each in at[name]]
        beside = unit if at[leaf].count(SLOW) * 2 == len(at[leaf]) else at[leaf]
        if beside.count(FULL) * 2 > len(beside):
            assert mode(beside) == FULL
            found.add((host, leaf))
    return found


PORTS = st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.integers(0, RAILS - 1))


@pytest.mark.parametrize("tell", TELL)
@settings(max_examples=25)
@given(st.integers(2, 4), st.lists(PORTS, max_size=5))
@example(2, [("a", 0, 2)])
def test_cables_that_their_hosts_read_slower_than_those_beside_them_are_named(
    tell: Callable[[World], Sequence[Event]], hosts: int, drawn: list[tuple[str, int, int]]
) -> None:
    """Of the vendor's pairs neither port of a leaf decides, and the other rails do."""
    world = pods(hosts)
    slow = {(f"{unit}-{n % hosts}", rail) for unit, n, rail in drawn}
    state = discovery(Mode.FABRIC)
    events = tell(world)
    state.advance(0.0, *reading(events, dict.fromkeys(slow, SLOW)))
    assert named(state) == expected(world, slow)
    state.advance(1.0, *reading(events, {}, is_up=False))
    assert named(state) == expected(world, slow)
    state.advance(2.0, *reading(events, {}))
    state.validate()
    assert not named(state)


def test_a_host_that_reads_full_speed_again_corrects_an_older_dump() -> None:
    built = rails([["gpu-1", "gpu-2", "gpu-3"]], 2)
    adapter = built.adapters["gpu-3"][1]
    built.fabric.cut(adapter)
    built.fabric.plug(adapter, built.leaves["ib-su1-leaf-02"], "4xHDR")
    state = in_fabric(built)
    assert named(state) == {("gpu-3", "ib-su1-leaf-02")}
    state.advance(1.0, *reading([spoken("gpu-3", built.adapters["gpu-3"])], {}))
    assert not named(state)
    detail = state.detail(NodeName("gpu-3"))
    assert detail is not None
    assert [each.rate for each in detail.uplinks] == ["4xNDR", "400G"]

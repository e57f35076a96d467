"""What is told of suspicions: causes before links, and nothing that moves a node."""

import json
import re
from collections.abc import Iterable
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

import pytest

from tests.builders import declared, discovery, managed, nodes, not_ready, report, shape
from tests.discovery.suspicion.nodes import (
    DAY_S,
    HOUR_S,
    PORTS,
    counted,
    decided,
    host,
)
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.discovery.suspicion.findings import conflicts
from topo.facts import parse
from topo.facts.link_counts import link_counts
from topo.model.errors import Refusal
from topo.model.forest import NodeSuspicion, PathGroup, Status
from topo.model.ids import NodeName, SourceName
from topo.model.machine import LinkErrors
from topo.model.observation import (
    ConfigLoaded,
    LinksCounted,
    ManagerReported,
    OperatorAct,
    Ticked,
    WorkerReported,
)

OWN = Path(__file__).parent / "cases"
SHARED = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/history"
LEAVES = {f"leaf-{number}": [f"n{number}-{at}" for at in range(8)] for number in range(3)}


def told(state: Discovery) -> list[tuple[str, tuple[str, ...]]]:
    return [(each.code, each.subjects) for each in state.snapshot.forest.conflicts]


def texts(state: Discovery) -> list[str]:
    return [each.text for each in state.snapshot.forest.conflicts]


def leaves() -> Discovery:
    """Three leaves of eight nodes each, that are known for long enough."""
    state = discovery(Mode.CONFIG, beat_s=100 * DAY_S)
    state.advance(-DAY_S, ConfigLoaded(declared({"spine": LEAVES})))
    every = [name for members in LEAVES.values() for name in members]
    for at_s in (-DAY_S, -1.0):
        state.advance(at_s, *(WorkerReported(host(name)) for name in every))
    return state


def fall(state: Discovery, at_s: float, names: Iterable[str], *hcas: str) -> None:
    names = list(names)
    state.advance(at_s, *(WorkerReported(host(name, down=hcas or PORTS[3:4])) for name in names))
    state.advance(at_s + 1, *(WorkerReported(host(name)) for name in names))


def test_a_suspicion_makes_no_node_notready_and_moves_nothing():
    state = leaves()
    before, placed = state.snapshot.generation, shape(state)
    fall(state, 0.0, ["n1-3"])
    fall(state, 2.0, ["n1-3"])
    assert told(state) == [("link-suspected", ("n1-3",))]
    assert texts(state) == ["n1-3 has 1 link not to be trusted: mlx5_3 port 1: 2 flaps"]
    assert nodes(state)["n1-3"].status is Status.READY
    assert shape(state) == placed
    assert state.snapshot.generation > before
    state.validate()
    again = state.snapshot.generation
    state.advance(DAY_S, Ticked())
    assert state.snapshot.generation == again, "a score that falls is no change"
    state.advance(3 * DAY_S, Ticked())
    assert told(state) == []
    assert nodes(state)["n1-3"].suspicion is None
    state.validate()


def test_a_leaf_whose_nodes_all_lose_their_port_is_one_finding():
    state = leaves()
    for at_s in (0.0, 2.0):
        fall(state, at_s, LEAVES["leaf-1"])
    assert told(state) == [("links-suspected-together", ("spine/leaf-1", *LEAVES["leaf-1"]))]
    assert texts(state)[0].startswith(
        "8 of 8 nodes of spine/leaf-1 have links that are not to be trusted; they share a cause "
        "rather than have one each: mlx5_3 port 1 on 8 of them"
    )
    state.validate()
    for at_s in (4.0, 6.0):
        fall(state, at_s, [*LEAVES["leaf-0"], "n2-7"])
    assert [len(subjects) for _, subjects in told(state)] == [18], "most nodes of the spine"
    state.advance(8.0, decided("n2-7", OperatorAct.QUARANTINE, reason="new cable on Monday"))
    assert [code for code, _ in told(state)] == ["links-suspected-together", "quarantined"]
    state.validate()


class _Name(str):
    """A name that counts how often one is compared with another."""

    __slots__ = ()
    compared = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        _Name.compared += 1
        return str.__eq__(self, str(other))


def test_a_whole_cluster_that_is_suspected_is_told_without_comparing_all_nodes_with_all():
    count = 400
    state = discovery(Mode.CONFIG)
    leaf = [f"n{at}" for at in range(count)]
    state.advance(0.0, ConfigLoaded(declared({"spine": {"leaf": leaf}})))
    (spine,) = state.snapshot.forest.roots
    held = {
        NodeName(_Name(f"n{at}")): NodeSuspicion((("mlx5_3 port 1", "2 flaps"),), None)
        for at in range(count)
    }
    _Name.compared = 0
    path = (PathGroup(spine.kind, spine.name, spine.name, SourceName("config")),)
    (found,) = conflicts(held, [spine], {}, lambda _: path)
    assert len(found.subjects) == 1 + count
    assert _Name.compared < 40 * count


def test_a_cable_between_two_nodes_that_falls_is_one_finding_with_both_ends():
    """The vendor's shape: dragonflies of two nodes below switchboxes."""
    state = discovery(Mode.SWITCHBOX, beat_s=100 * DAY_S)
    state.advance(-DAY_S, ManagerReported(managed({"box": ["a", "b", "c", "d"]})))
    pairs = (("a", "b"), ("b", "a"), ("c", "d"), ("d", "c"))
    for at_s in (-DAY_S, -HOUR_S):
        state.advance(at_s, *(report(one, [other]) for one, other in pairs))
    for at_s in (0.0, 60.0):
        state.advance(at_s, *(report(one) for one, _ in pairs[:2]))
        for _ in range(4):
            state.advance(at_s + 2, *(report(one, [other]) for one, other in pairs))
    assert told(state) == [("link-suspected", ("a", "b"))]
    assert texts(state) == [
        "the cable from a slot 1 to b slot 1 is not to be trusted: 2 flaps here, 2 flaps there"
    ]
    assert not_ready(state) == set()
    state.validate()


def test_quarantine_is_a_note_with_its_reason_and_goes_when_it_is_cleared():
    state = leaves()
    state.advance(0.0, decided("n0-0", OperatorAct.QUARANTINE, "mlx5_3 port 1", "cable ordered"))
    assert told(state) == [("quarantined", ("n0-0",))]
    assert "mlx5_3 port 1: cable ordered" in texts(state)[0]
    held = nodes(state)["n0-0"].suspicion
    assert held is not None
    assert held.quarantine == "mlx5_3 port 1: cable ordered"
    assert nodes(state)["n0-0"].status is Status.READY
    state.advance(1.0, decided("n0-0", OperatorAct.CLEAR))
    assert told(state) == []
    state.validate()


def test_a_restart_forgets_no_score_no_counter_and_no_word_of_an_operator():
    state = leaves()
    fall(state, 0.0, ["n1-3"])
    state.advance(2.0, counted("n0-0", {("mlx5_0 port 1", "recovery"): 40}))
    state.advance(3.0, counted("n0-0", {("mlx5_0 port 1", "recovery"): 46}))
    state.advance(4.0, decided("n2-2", OperatorAct.QUARANTINE, reason="fan"))
    state.advance(4.0, decided("n2-3", OperatorAct.CONFIRM, reason="it is the switch"))
    down_s, up_s = DAY_S, 5 * DAY_S
    state.advance(down_s, Ticked())
    later = state.fresh()
    later.restore(state.persistent_state(), HOUR_S, up_s)
    later.validate()
    assert told(later) == told(state) == [("link-suspected", ("n2-3",)), ("quarantined", ("n2-2",))]
    for each, now_s in ((state, down_s + HOUR_S), (later, up_s)):
        each.advance(now_s, WorkerReported(host("n1-3")), WorkerReported(host("n0-0")))
        each.advance(now_s, counted("n0-0", {("mlx5_0 port 1", "recovery"): 60}))
        fall(each, now_s, ["n1-3"])
    assert told(later) == told(state)
    assert "n0-0" in texts(later)[0]
    scores = [
        each.suspicions.links(NodeName("n1-3"))["mlx5_3 port 1"].score for each in (state, later)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-4)
    later.validate()


@cache
def swept() -> tuple[LinkErrors, ...]:
    """The tray of our own case, with 505 recoveries of one link."""
    text = (OWN / "one_link_recovers.txt").read_text(encoding="utf-8")
    found = parse(text.replace("COUNT", "505"), "nvlink-errors")
    assert not isinstance(found, Refusal)
    errors = [each for fact in found.facts if isinstance(fact, tuple) for each in fact]
    assert len(errors) == 4 * 18 * 4
    return tuple(each for each in errors if isinstance(each, LinkErrors))


def reported(recoveries: int) -> LinksCounted:
    """What its worker reports when there are so many."""
    counts = [replace(each, count=recoveries if each.count else 0) for each in swept()]
    return LinksCounted(NodeName("n0-2"), link_counts(counts))


@pytest.mark.parametrize("folder", [OWN, SHARED])
def test_the_link_of_505_recoveries_is_named_on_day_one_and_until_it_fails(folder: Path):
    """A public case: the only counter that was not 0 in a row of racks; the link failed later."""
    if not folder.is_dir():
        pytest.skip("the shared data is not here")
    case = json.loads(next(folder.glob("*.json")).read_text(encoding="utf-8"))
    case = case.get("marin_9086", case)
    lifetime, more, minutes = map(
        int, re.findall(r"(\d+) lifetime link recoveries, \+(\d+) in (\d+) min", case["what"])[0]
    )
    named, failed = (date.fromisoformat(each.split()[0]) for each in case["dates"])
    days = (failed - named).days
    assert days == 5
    state = leaves()
    state.advance(0.0, reported(lifetime))
    assert told(state) == [("link-suspected", ("n0-2",))]
    text = f"n0-2 has 1 link not to be trusted: GPU 2 link 14: {lifetime} recoveries"
    assert texts(state) == [text]
    steps = days * 24 * 60 // minutes
    for step in range(1, steps + 1):
        state.advance(step * minutes * 60.0, reported(lifetime + step * more))
        assert told(state) == [("link-suspected", ("n0-2",))]
    state.advance(steps * minutes * 60.0, reported(lifetime + steps * more))
    state.validate()


def test_a_fleet_with_a_little_of_everything_names_nobody():
    """Counters of months at the first look: a few recoveries, many symbol errors, some falls."""
    state = leaves()
    every = [name for members in LEAVES.values() for name in members]
    counts = {("mlx5_1 port 1", "recovery"): 12, ("mlx5_2 port 1", "link-downed"): 20}
    counts |= {("mlx5_5 port 1", "symbol"): 65_535, ("GPU 1 link 3", "crc"): 900}
    state.advance(0.0, *(counted(name, counts) for name in every))
    assert told(state) == []

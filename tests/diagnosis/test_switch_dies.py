"""A leaf switch dies under 200 jobs and comes back: one finding with its jobs, then none."""

from collections.abc import Collection, Sequence
from itertools import chain

from master.tree.findings import Examined
from master.tree.findings import findings as judged
from master.tree.topology_document import TopologyView
from tests.builders import declared, discovery, managed, not_ready
from tests.discovery.fabrics import dumped, spoken
from tests.discovery.suspicion.nodes import PORTS, host
from tests.support.fabric import rails
from topo.diagnosis.finding import Finding, listed
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.gangs.machine.gang import Binding, Gang, GangId, Member, PodUid
from topo.model.ids import NodeName
from topo.model.observation import (
    CLUSTER_MANAGER,
    FABRIC,
    ConfigLoaded,
    ManagerReported,
    Ticked,
    WorkerBeat,
    WorkerReported,
)
from topo.placement.job.request import Request

LEAVES = {f"leaf-{leaf}": [f"n{leaf}-{at:02}" for at in range(40)] for leaf in range(5)}
QUIET_S = 1200.0


JOBS = [
    Gang(
        id=GangId(f"job-{number}"),
        namespace="train",
        name=f"job-{number}",
        kind="Job",
        binding=Binding.WHOLE,
        request=Request(pods=2, gpus_per_pod=4),
        at_least=2,
        priority=0,
        created_s=0.0,
        labelled={},
        members=tuple(
            Member(
                uid=PodUid(f"{number}-{rank}"),
                name=f"job-{number}-{rank}",
                rank=rank,
                version="1",
                node=NodeName(at),
            )
            for rank, at in enumerate((names[place], names[(place + 1) % 40]))
        ),
    )
    for number, (names, place) in enumerate(
        (names, place) for names in LEAVES.values() for place in range(40)
    )
]
"""200 jobs of two pods each, on nodes of one leaf."""


def findings(state: Discovery, now_s: float, jobs: Sequence[Gang] = JOBS) -> list[Finding]:
    return judged(Examined(TopologyView(state.snapshot), gangs=jobs), "config", now_s)


def read(state: Discovery, now_s: float, names: list[str], *down: str) -> None:
    """A reading that differs, and the two that confirm it, as workers send them."""
    state.advance(now_s, *(WorkerReported(host(name, down=down)) for name in names))
    for again in (0.2, 0.4):
        state.advance(now_s + again, *(WorkerBeat(NodeName(name)) for name in names))


def test_a_switch_that_dies_is_one_finding_with_all_its_nodes_and_none_when_it_is_back() -> None:
    state = discovery(Mode.CONFIG, beat_s=1e6)
    state.advance(0.0, ConfigLoaded(declared({"spine": LEAVES})))
    for names in LEAVES.values():
        read(state, 0.0, names)
    assert findings(state, 1.0) == []
    dead = LEAVES["leaf-2"]
    read(state, QUIET_S, dead, PORTS[3])
    assert state.snapshot.forest.conflicts == (), "it may be back in a moment"
    state.advance(QUIET_S + 4, Ticked())
    (found,) = findings(state, QUIET_S + 10)
    assert "mlx5_3 port 1 on 40 of them, as on n2-00: is down" in found.what
    assert found.subjects == ("spine/leaf-2", *dead)
    assert found.jobs == tuple(f"train.job-{number}" for number in (80, 119, *range(81, 119)))
    assert found.what.endswith("; 40 jobs run there: " + listed(found.jobs))
    assert not_ready(state) == set(), "they have seven more ports, and their jobs run"
    read(state, QUIET_S + 60, dead)
    assert findings(state, QUIET_S + 70) == []
    assert not_ready(state) == set()
    assert not state.suspicions.suspected, "a single fall of a switch is held against no node"
    state.validate()


def test_a_leaf_across_the_vendors_switchboxes_dies_as_one_finding_with_its_jobs() -> None:
    """Each dragonfly of two has a node on either of two leaves, and a switchbox of eight four."""
    pairs = list(zip(LEAVES["leaf-0"], LEAVES["leaf-1"], strict=True))
    boxes = {f"box-{at}": [*chain(*pairs[4 * at : 4 * at + 4])] for at in range(10)}
    built = rails([LEAVES["leaf-0"], LEAVES["leaf-1"]], 1)
    state = discovery(Mode.SWITCHBOX, precedence=(CLUSTER_MANAGER, FABRIC), beat_s=1e6)
    state.advance(0.0, ManagerReported(managed(boxes)), dumped(built.text()))

    peer = {one: other for pair in pairs for one, other in (pair, pair[::-1])}

    def hear(now_s: float, down: Collection[str] = ()) -> None:
        for at_s in (now_s, now_s + 0.2, now_s + 0.4):
            told = (
                spoken(name, of, down=down, peers=[peer[name]])
                for name, of in built.adapters.items()
            )
            state.advance(at_s, *told)

    def wrong(now_s: float) -> list[Finding]:
        return [each for each in findings(state, now_s) if each.code != "source-old"]

    hear(0.0)
    assert (not_ready(state), wrong(1.0)) == (set(), [])
    dead = LEAVES["leaf-1"]
    below = [guid for name in dead for guid in built.adapters[name]]
    hear(QUIET_S, below)
    (found,) = wrong(QUIET_S + 1)
    assert found.what.startswith("no port of the fabric is up: mlx5_0 to ib-su2-leaf-01 is down")
    assert (found.code, found.subjects, len(found.jobs)) == ("uplinks-down", (*dead,), 40)
    assert not_ready(state) == set(dead), "no job over several dragonflies could run there"
    state.advance(QUIET_S + 4, Ticked())
    (found,) = wrong(QUIET_S + 10)
    assert found.what.startswith("40 of 40 nodes at ib-su2-leaf-01 have links there")
    assert "; 40 nodes of these have no port of the fabric up; 40 jobs run there" in found.what
    assert (found.subjects, len(found.jobs)) == (("ib-su2-leaf-01", *dead), 40)
    whole = built.text()
    for guid in below:
        built.fabric.cut(guid)
    lacking = dumped(built.text())
    state.advance(QUIET_S + 30, lacking)
    assert [each.what for each in wrong(QUIET_S + 40)] == [found.what], "the next dump"
    memory, state = state.persistent_state(), state.fresh()
    state.restore(memory, 1.0, QUIET_S + 41)
    state.advance(QUIET_S + 42, ManagerReported(managed(boxes)), lacking)
    hear(QUIET_S + 43, below)
    assert [each.what for each in wrong(QUIET_S + 44)] == [found.what], "another master"
    assert not_ready(state) == set(dead)
    state.advance(QUIET_S + 50, dumped(whole))
    hear(QUIET_S + 60)
    assert (not_ready(state), wrong(QUIET_S + 70)) == (set(), [])


def test_a_switch_that_dies_again_the_same_day_is_the_suspect_and_not_its_nodes() -> None:
    state = discovery(Mode.CONFIG, beat_s=1e6)
    state.advance(0.0, ConfigLoaded(declared({"spine": LEAVES})))
    for names in LEAVES.values():
        read(state, 0.0, names)
    for hour in (1, 2):
        read(state, hour * 3600.0, LEAVES["leaf-2"], PORTS[3])
        read(state, hour * 3600.0 + 60, LEAVES["leaf-2"])
    (found,) = findings(state, 2 * 3600.0 + 70)
    assert found.code == "links-suspected-together"
    assert "40 of 40 nodes of spine/leaf-2" in found.what
    assert found.subjects == ("spine/leaf-2", *LEAVES["leaf-2"])

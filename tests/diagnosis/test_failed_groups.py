"""Nodes that fail together are one finding, which names the group that they share."""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import declared, discovery, not_ready
from tests.diagnosis.test_switch_dies import JOBS, findings
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.forest import Status
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts, PortState
from topo.model.observation import (
    ClusterNodesListed,
    ConfigLoaded,
    ListedNode,
    ManagedTopology,
    ManagerReported,
    WorkerReported,
)
from topo.sim.fleet.facts import facts_of_host
from topo.sim.worlds.presets import managed_topology, world

WORLD = world(3, 8, 2)
DEAD = {host.name: host for host in WORLD.nodes if host.switchbox == "switchbox-2"}
FACTS = {host.name: facts_of_host(host) for host in WORLD.nodes}
MANAGED = managed_topology(WORLD)
"""As the vendor builds them: switchboxes of eight dragonflies of two."""


def without_optics(facts: NodeFacts) -> NodeFacts:
    """What a node sees of a switchbox without power."""
    down = (
        replace(port, state=PortState.DOWN)
        if port.port >= 3 and port.state is PortState.UP
        else port
        for port in facts.ports
    )
    return replace(facts, ports=tuple(down))


def lost() -> ManagedTopology:
    """What the manager says then."""
    numbers = {f"machine-{host.number}" for host in DEAD.values()}
    machines = (
        replace(machine, status=Status.NOT_READY) if machine.id in numbers else machine
        for machine in MANAGED.machines
    )
    return replace(MANAGED, machines=tuple(machines))


def hear(state: Discovery, now_s: float, facts: Iterable[NodeFacts]) -> None:
    """Three equal readings, which settle it."""
    said = list(facts)
    for again_s in (0.0, 0.2, 0.4):
        state.advance(now_s + again_s, *map(WorkerReported, said))


def test_a_vendors_switchbox_that_dies_is_one_finding_with_the_jobs_below_it() -> None:
    state = discovery(Mode.SWITCHBOX, beat_s=1e6)
    state.advance(0.0, ManagerReported(MANAGED))
    hear(state, 0.0, FACTS.values())
    assert findings(state, 1.0) == []
    hear(state, 1200.0, (without_optics(FACTS[name]) for name in DEAD))
    state.advance(1202.0, ManagerReported(lost()))
    jobs = [
        replace(job, members=tuple(replace(m, node=at[m.rank].name) for m in job.members))
        for job, at in zip(
            JOBS, zip(WORLD.nodes[::2], WORLD.nodes[1::2], strict=True), strict=False
        )
    ]
    found = [each for each in findings(state, 1210.0, jobs) if each.code != "source-old"]
    (one,) = found
    assert (one.code, one.subject) == ("nodes-failed-together", "switchbox-2")
    assert one.subjects == ("switchbox-2", *DEAD)
    assert one.what.startswith(
        "16 of 16 nodes of switchbox-2 failed together: the cluster manager says NotReady "
        "(16 nodes, as node-17); GPU 0 link port 3 is down (16 nodes, as node-17); 8 jobs run"
    )
    assert one.jobs == tuple(f"train.job-{number}" for number in range(8, 16))
    assert not_ready(state) == set(DEAD)
    hear(state, 1300.0, (FACTS[name] for name in DEAD))
    state.advance(1302.0, ManagerReported(MANAGED))
    assert [each for each in findings(state, 1310.0) if each.code != "source-old"] == []


def test_cables_inside_a_switchbox_that_dies_are_no_findings_of_their_own() -> None:
    state = discovery(Mode.SWITCHBOX, beat_s=1e6)
    state.advance(0.0, ManagerReported(MANAGED))
    hear(state, 0.0, FACTS.values())
    hear(state, 10.0, map(without_peers, DEAD))
    (found,) = findings(state, 20.0)
    assert (found.code, found.subject) == ("nodes-failed-together", "switchbox-2")


def without_peers(name: NodeName) -> NodeFacts:
    facts = FACTS[name]
    assert facts.peers is not None
    return replace(facts, peers=replace(facts.peers, remotes=()))


Tree = dict[str, dict[str, list[str]]]


def paths(tree: Tree) -> Iterator[tuple[tuple[str, ...], frozenset[str]]]:
    """Each group with all nodes below it."""
    for box, flies in tree.items():
        yield (box,), frozenset(name for names in flies.values() for name in names)
        yield from (((box, fly), frozenset(names)) for fly, names in flies.items())


@given(
    st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=3),
    st.data(),
)
def test_the_outermost_group_is_named_of_which_most_failed_and_no_wider_than_they_are(
    sizes: list[list[int]], data: st.DataObject
) -> None:
    """A group is named if most of it failed, no wider one has more, no part of it has as many."""
    tree: Tree = {
        f"box-{b}": {
            f"fly-{b}-{f}": [f"n-{b}-{f}-{n}" for n in range(size)] for f, size in enumerate(flies)
        }
        for b, flies in enumerate(sizes)
    }
    groups = dict(paths(tree))
    names = sorted(set().union(*groups.values()))
    down = data.draw(st.sets(st.sampled_from(names)))
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared(tree)))
    state.advance(
        0.0,
        ClusterNodesListed(
            tuple(
                ListedNode(NodeName(n), "its kubelet stopped" if n in down else "") for n in names
            )
        ),
    )
    hits = {path: len(nodes & down) for path, nodes in groups.items()}
    most = {p for p, nodes in groups.items() if hits[p] >= 3 and 2 * hits[p] >= len(nodes)}
    wanted = {
        "/".join(path)
        for path in most
        if all(hits[above] == hits[path] for above in most if path[: len(above)] == above)
        and not any(hits[p] == hits[path] for p in groups if p[:-1] == path)
    }
    found = [each for each in findings(state, 1.0) if each.code == "nodes-failed-together"]
    assert {each.subject for each in found} == wanted
    for each in found:
        assert set(each.subjects[1:]) == groups[tuple(each.subject.split("/"))] & down

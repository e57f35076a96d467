"""A leaf switch dies under a full cluster and comes back: one finding, then none. Virtual time."""

from master.tree.topology_document import TopologyView, document
from tests.builders import declared, discovery, not_ready
from tests.discovery.suspicion.nodes import PORTS, host
from topo.diagnosis.diagnosis import examine
from topo.diagnosis.finding import Finding
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.ids import NodeName
from topo.model.observation import ConfigLoaded, Ticked, WorkerBeat, WorkerReported

LEAVES = {f"leaf-{leaf}": [f"n{leaf}-{at:02}" for at in range(40)] for leaf in range(5)}
QUIET_S = 1200.0


def findings(state: Discovery, now_s: float) -> list[Finding]:
    return examine(document(TopologyView(state.snapshot), "config", now_s))


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
    assert found.subjects == tuple(dead)
    assert not_ready(state) == set(), "they have seven more ports, and their jobs run"
    read(state, QUIET_S + 60, dead)
    assert findings(state, QUIET_S + 70) == []
    assert not_ready(state) == set()
    assert not state.suspicions.suspected, "a single fall of a switch is held against no node"
    state.validate()


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
    assert found.subjects == tuple(LEAVES["leaf-2"])

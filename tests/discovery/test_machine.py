"""Events and faults in any sequence, against a model simple enough to be believed."""

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.builders import discovery, managed, not_ready, report, shape, together
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.ids import NodeName, natural_key
from topo.model.observation import (
    CLUSTER_MANAGER,
    ManagerReported,
    NodeRemoved,
    SourceFailed,
    StoodStill,
    Ticked,
    WorkerBeat,
)
from topo.model.wire import RECONNECT_S

NAMES = [f"node-{i}" for i in range(8)]
PAIRS = [NAMES[i : i + 2] for i in range(0, 8, 2)]
PARTNER = {a: b for x, y in PAIRS for a, b in ((x, y), (y, x))}
BOXES = {"box-1": NAMES[:4], "box-2": NAMES[4:]}
BOX = {n: box for box, members in BOXES.items() for n in members}

node = st.sampled_from(NAMES)


class Cluster(RuleBasedStateMachine):
    """Eight nodes in four pairs and two switchboxes; cables go, workers fall silent, masters die.

    The model keeps, for each node, whether it ever reported since the master knows, when it last
    spoke, and for each link the bad and good readings in a row.
    """

    state: Discovery

    @initialize()
    def start(self) -> None:
        """A master that has heard nothing."""
        self.now_s = 0.0
        self.state = discovery(Mode.SWITCHBOX)
        self.heard: dict[str, float] = {}
        self.down: dict[str, bool] = {}
        self.run: dict[str, tuple[bool, int]] = {}
        self.linked: dict[str, bool] = {}
        self.last: dict[str, bool] = {}
        self.manager = False

    def _reading(self, name: str, *, up: bool) -> None:
        first = name not in self.heard
        was, count = self.run.get(name, (up, 0))
        count = count + 1 if was == up else 1
        self.run[name] = (up, count)
        known = self.linked.get(name, False)
        self.linked[name] = known or up
        if not self.linked[name]:
            self.down[name] = False
        elif not up and (count >= 2 or first):
            self.down[name] = True
        elif up and (count >= 3 or first or not known):
            self.down[name] = False
        self.heard[name] = self.now_s
        self.last[name] = up

    @rule(name=node, up=st.booleans())
    def worker_reports(self, name: str, up: bool) -> None:  # noqa: FBT001
        """One reading, with the cable in or out."""
        self.state.advance(self.now_s, report(name, [PARTNER[name]] if up else []))
        self._reading(name, up=up)

    @rule(name=node)
    def worker_beats(self, name: str) -> None:
        """One more reading like the last; ignored from a node never heard."""
        self.state.advance(self.now_s, WorkerBeat(NodeName(name)))
        if name in self.heard:
            self._reading(name, up=self.last[name])

    @rule(seconds=st.sampled_from([1.0, 10.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        """Nothing else happens."""
        self.now_s += seconds
        self.state.advance(self.now_s, Ticked())

    @rule(answer=st.sampled_from(["whole", "empty", "half", "error"]))
    def manager_answers(self, answer: str) -> None:
        """The manager says all, nothing, half, or fails."""
        if answer == "error":
            self.state.advance(self.now_s, SourceFailed(CLUSTER_MANAGER, "500"))
            return
        if answer != "whole" and not self.manager:
            return
        world = {"whole": BOXES, "empty": {}, "half": {"box-1": NAMES[:4]}}[answer]
        self.state.advance(self.now_s, ManagerReported(managed(world)))
        self.manager = True

    @rule(name=node)
    def node_leaves(self, name: str) -> None:
        """Kubernetes deletes the node."""
        self.state.advance(self.now_s, NodeRemoved(NodeName(name)))
        tables: tuple[dict[str, Any], ...]
        tables = (self.heard, self.down, self.run, self.linked, self.last)
        for table in tables:
            table.pop(name, None)

    @rule()
    def master_restarts_with_its_state(self) -> None:
        """A new process takes up the state file; silence counts from when the worker found it."""
        fresh = discovery(Mode.SWITCHBOX)
        fresh.restore(self.state.persistent_state(), 1.0, self.now_s)
        self.state = fresh
        for name, at_s in self.heard.items():
            if self.now_s - at_s < 30.0:
                self.heard[name] = self.now_s + RECONNECT_S
        self.last = {n: self.linked[n] and not d for n, d in self.down.items()}
        self.run = {n: (up, 0) for n, up in self.last.items()}

    @rule(seconds=st.sampled_from([20.0, 60.0]))
    def master_stands_still(self, seconds: float) -> None:
        """It could hear nobody: whoever was not stale has time to come back."""
        fresh = [n for n, at_s in self.heard.items() if self.now_s - at_s < 30.0]
        self.now_s += seconds
        self.state.advance(self.now_s, StoodStill())
        for name in fresh:
            self.heard[name] = self.now_s + RECONNECT_S

    @invariant()
    def every_known_node_is_shown_once(self) -> None:
        """No node lost, none twice."""
        everywhere = [n for members in shape(self.state).values() for n in members]
        assert sorted(everywhere, key=natural_key) == sorted(self.heard, key=natural_key)

    @invariant()
    def the_indices_agree(self) -> None:
        """What is kept is what is worked out anew."""
        self.state.validate()

    @invariant()
    def only_cabled_pairs_stand_together(self) -> None:
        """A dragonfly is one of the pairs, and there once both ends have seen the link."""
        flies = {frozenset(p) for p in PAIRS if all(self.linked.get(n) for n in p)}
        shown = {m for m in together(self.state) if not self._is_box(m)}
        assert shown <= {frozenset(p) for p in PAIRS}
        assert {f for f in flies if f <= self.heard.keys()} <= shown

    def _is_box(self, members: frozenset[str]) -> bool:
        paths = [p for p, found in shape(self.state).items() if frozenset(found) == members]
        return all("/" not in p and p.startswith("box") for p in paths)

    @invariant()
    def the_manager_is_followed(self) -> None:
        """Once it has answered, every node stands in its switchbox, whatever it says later."""
        if not self.manager:
            return
        for path, members in shape(self.state).items():
            assert {BOX[n] for n in members} == {path.split("/", 1)[0]}

    @invariant()
    def silence_is_stale(self) -> None:
        """A node without a word for 30 s is NotReady."""
        late = {n for n, at_s in self.heard.items() if self.now_s - at_s >= 30.0}
        assert late <= not_ready(self.state)

    @invariant()
    def dead_links_and_silence_are_the_only_reasons(self) -> None:
        """Healthy fresh nodes are Ready, once their dragonfly is known where one is expected."""
        well = {
            n
            for n, at_s in self.heard.items()
            if self.now_s - at_s < 30.0
            and not self.down.get(n)
            and (not self.manager or (self.linked.get(n) and self.linked.get(PARTNER[n])))
        }
        assert not well & not_ready(self.state)


Cluster.TestCase.settings = settings(max_examples=60, stateful_step_count=40)
TestCluster = Cluster.TestCase

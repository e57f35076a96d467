"""A report that raises an error is that node's: all others stand as without it.

The steps of one node raise for a node and its poison, before and after they did their work; what
other nodes are shown as is compared with a twin that never got the poison.
"""

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.builders import discovery, managed, nodes, not_ready, report, together, why
from topo.discovery.groups.membership import Membership
from topo.discovery.modes import Mode
from topo.discovery.node.record import NodeRecord
from topo.discovery.node_judge import NodeJudge
from topo.discovery.state import Discovery
from topo.discovery.suspicion.machine import Suspicions
from topo.model.conditions.tree import NodeCondition
from topo.model.errors import SharedStateError
from topo.model.ids import NodeName
from topo.model.observation import Event, ManagerReported, Ticked, WorkerBeat

NAMES = [f"node-{number}" for number in range(8)]
PAIRS = [NAMES[at : at + 2] for at in range(0, 8, 2)]
PARTNER = {a: b for x, y in PAIRS for a, b in ((x, y), (y, x))}
BOXES = managed({"box-1": NAMES[:4], "box-2": NAMES[4:]})
POISON = "poison"
"""The boot of a report for which a step raises."""


def is_poison(given: Any) -> bool:
    identity = getattr(getattr(given, "facts", given), "identity", None)
    return getattr(identity, "boot_id", "") == POISON


STEPS: dict[str, tuple[type, str]] = {
    "take": (NodeRecord, "take"),
    "feed the indices": (Membership, "update"),
    "suspect": (Suspicions, "_see"),
    "judge": (NodeJudge, "judged"),
    "find conflicts": (NodeJudge, "conflicts_of"),
    "count GPUs": (NodeJudge, "gpu_place"),
}
Patch = Callable[[type, str, Any], None]


def poison(patch: Patch, step: str, *, is_after: bool) -> None:
    """Makes a step raise for a node with poison, before or after its work."""
    owner, name = STEPS[step]
    original = getattr(owner, name)

    def faulty(this: Any, *given: Any, **more: Any) -> Any:
        raises = any(map(is_poison, given))
        if raises and not is_after:
            raise ZeroDivisionError
        found = original(this, *given, **more)
        if raises:
            raise KeyError("after its work")
        return found

    patch(owner, name, faulty)


@contextmanager
def patching() -> Any:
    patch = pytest.MonkeyPatch()
    try:
        yield patch
    finally:
        patch.undo()


def reading(name: str, *, up: bool, boot: str = "boot-1") -> Event:
    return report(name, [PARTNER[name]] if up else [], boot=boot)


def shown(state: Discovery, *, but: str) -> dict[str, Any]:
    """All other nodes with all that is said of them, and who they stand together with."""
    beside = {frozenset(group - {but}) for group in together(state)}
    values = {name: node for name, node in nodes(state).items() if name != but}
    return {"nodes": values, "together": {group for group in beside if group}}


events = st.lists(
    st.tuples(st.sampled_from(NAMES), st.sampled_from(["up", "down", "beat"])), max_size=12
)


def event_of(name: str, what: str) -> Event:
    return WorkerBeat(NodeName(name)) if what == "beat" else reading(name, up=what == "up")


def begun() -> Discovery:
    state = discovery(Mode.SWITCHBOX)
    state.advance(0.0, ManagerReported(BOXES))
    return state


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["take", "feed the indices"])
@given(before=events, later=events, bad=st.sampled_from(NAMES))
def test_all_other_nodes_stand_as_without_a_report_that_raises_an_error(
    step: str, before: Any, later: Any, bad: str, *, is_after: bool
) -> None:
    """And so does the node itself, but for being NotReady, until it reports something else."""
    with patching() as patch:
        poison(patch.setattr, step, is_after=is_after)
        state, twin = begun(), begun()
        for name, what in before:
            for each in (state, twin):
                each.advance(1.0, event_of(name, what))
        is_known = NodeName(bad) in {record.name for record in twin._workers.records.values()}
        state.advance(2.0, reading(bad, up=False, boot=POISON))
        twin.advance(2.0, Ticked())
        assert NodeName(bad) in state.report_errors
        assert shown(state, but=bad) == shown(twin, but=bad)
        assert NodeCondition.REPORT_UNUSABLE in {each.code for each in nodes(state)[bad].reasons}
        if is_known:
            assert together(state) == together(twin)
            assert nodes(state)[bad].gpus == nodes(twin)[bad].gpus
        state.advance(2.5, WorkerBeat(NodeName(bad)))
        assert shown(state, but=bad) == shown(twin, but=bad)
        for name, what in later:
            if name != bad:
                for each in (state, twin):
                    each.advance(3.0, event_of(name, what))
        assert shown(state, but=bad) == shown(twin, but=bad)
        state.validate()
        for each in (state, twin):
            each.advance(4.0, reading(bad, up=True))
        assert not state.report_errors
        assert shown(state, but=bad) == shown(twin, but=bad)
        state.validate()


@pytest.mark.parametrize("is_after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", ["suspect", "judge", "find conflicts", "count GPUs"])
@given(before=events, bad=st.sampled_from(NAMES))
def test_a_later_step_that_raises_for_one_node_leaves_the_others_as_they_would_be(
    step: str, before: Any, bad: str, *, is_after: bool
) -> None:
    state, twin = begun(), begun()
    for name, what in before:
        for each in (state, twin):
            each.advance(1.0, event_of(name, what))
    with patching() as patch:
        poison(patch.setattr, step, is_after=is_after)
        state.advance(2.0, reading(bad, up=False, boot=POISON))
    twin.advance(2.0, reading(bad, up=False, boot=POISON))
    assume(NodeName(bad) in state.report_errors)  # else nothing had to be found out anew
    of_others = {name: node.reasons for name, node in nodes(twin).items() if name != bad}
    assert {name: node.reasons for name, node in nodes(state).items() if name != bad} == of_others
    assert together(state) == together(twin)
    for at_s, up in enumerate([True, True, True, False, False], start=3):
        for each in (state, twin):
            each.advance(float(at_s), reading(bad, up=up))
    assert not state.report_errors
    assert shown(state, but="") == shown(twin, but="")


def test_a_node_that_cannot_be_placed_is_in_no_group_and_says_why() -> None:
    state = begun()
    state.advance(1.0, *(reading(name, up=True) for name in NAMES))
    original = NodeJudge.position

    def faulty(this: NodeJudge, node: NodeName, *more: Any) -> Any:
        if node == "node-3":
            raise RecursionError("maximum recursion depth exceeded")
        return original(this, node, *more)

    with patching() as patch:
        patch.setattr(NodeJudge, "position", faulty)
        state.advance(2.0, ManagerReported(managed({"box-1": NAMES[:2], "box-2": NAMES[2:]})))
        (unplaced,) = state.snapshot.forest.unplaced
        assert unplaced.node.name == "node-3"
        assert "RecursionError" in unplaced.reason.text
        assert set(nodes(state)) == set(NAMES)
    state.advance(4.0, reading("node-3", up=True))
    assert not state.snapshot.forest.unplaced
    state.validate()


def test_what_all_nodes_share_ends_the_step() -> None:
    """The indices cannot be put back as they were: nobody knows what they say now."""
    state = begun()
    state.advance(1.0, reading("node-0", up=True))

    def broken(*_: Any, **__: Any) -> Any:
        raise KeyError("half changed")

    with patching() as patch:
        patch.setattr(Membership, "update", broken)
        with pytest.raises(SharedStateError, match="what is known of nodes"):
            state.advance(2.0, reading("node-0", up=False))


def test_a_node_with_an_unusable_first_report_is_known_and_waits() -> None:
    with patching() as patch:
        poison(patch.setattr, "take", is_after=True)
        state = begun()
        state.advance(1.0, reading("node-0", up=True, boot=POISON))
        assert not_ready(state) == {"node-0"}
        assert "error of topo-master" in why(state, "node-0")
        memory = state.persistent_state()
        again = state.fresh()
        again.restore(memory, 1.0, 2.0)
        again.advance(3.0, reading("node-0", up=True, boot=POISON))
        assert NodeName("node-0") in again.report_errors, "it is sent again after a restart"


@pytest.mark.parametrize("step", ["remembered", "update"])
def test_a_kept_node_that_raises_an_error_waits_for_its_worker_and_the_others_are_restored(
    step: str,
) -> None:
    state = begun()
    state.advance(1.0, *(reading(name, up=True) for name in NAMES))
    memory, again = state.persistent_state(), state.fresh()
    owner: type = NodeRecord if step == "remembered" else Membership
    original = getattr(owner, step)

    def faulty(*given: Any, **more: Any) -> Any:
        about = given[0] if step == "remembered" else given[1]
        if about.identity.name == "node-3" and about.identity.boot_id:
            raise ZeroDivisionError
        return original(*given, **more)

    with patching() as patch:
        patch.setattr(owner, step, faulty)
        again.restore(memory, 1.0, 2.0)
    assert not_ready(again) == {"node-2", "node-3"}, "the link of node-2 ends at nobody"
    assert set(nodes(again)) == set(NAMES)
    again.advance(3.0, reading("node-3", up=True))
    assert not not_ready(again)
    again.validate()

"""A hold that cannot be restored is that hold's: the others are, and its record is kept."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from master.state import checks
from master.state.document import SavedDiscovery, State
from master.state.state_file import StateFile
from tests.master.state.test_kept_holds import hold
from topo.discovery.memory import Memory
from topo.discovery.modes import Mode
from topo.model.ids import Generation, NodeName
from topo.placement.booking import trial
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import FORMAT, Hold, HoldId, HoldsMemory
from topo.placement.job import request

MEMORY = Memory(1, Generation(1), (), (), (), None, None)


def named(name: str) -> Hold:
    return replace(hold(2, 1), id=HoldId(name))


def of_four(name: str) -> Hold:
    made = replace(hold(2, 2), id=HoldId(name))
    return replace(made, wish=replace(made.wish, request=replace(made.wish.request, pods=4)))


def kept(path: Path, *holds: Hold) -> StateFile:
    found = SavedDiscovery.of(MEMORY, 1e9)
    path.write_bytes(found.with_holds(Mode.CONFIG, HoldsMemory(FORMAT, holds)))
    return StateFile(path)


def test_an_error_of_booking_one_hold_costs_that_hold_and_its_record_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Bookings._add

    def broken(this: Bookings, found: Hold, *more: Any) -> None:
        if found.id == "bad":
            raise ZeroDivisionError
        original(this, found, *more)

    monkeypatch.setattr(Bookings, "_add", broken)
    path = tmp_path / "state.json"
    store = kept(path, named("good"), named("bad"), named("other"))
    content = path.read_bytes()
    state = store.load(Mode.CONFIG, 2e9)
    store.close()
    assert isinstance(state, State)
    assert state.holds is not None
    assert [each.id for each in state.holds.holds] == ["good", "other"]
    assert store.unusable_holds == {"bad": "ZeroDivisionError"}
    (aside,) = tmp_path.glob("state.json.*.unusable")
    assert aside.read_bytes() == content


def test_an_error_of_checking_one_hold_costs_that_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = request.flaw

    def broken(asked: Any) -> Any:
        if asked.pods == 4:
            raise RecursionError("maximum recursion depth exceeded")
        return original(asked)

    monkeypatch.setattr(checks, "flaw", broken)
    store = kept(tmp_path / "state.json", named("good"), of_four("four"))
    state = store.load(Mode.CONFIG, 2e9)
    store.close()
    assert isinstance(state, State)
    assert state.holds is not None
    assert [each.id for each in state.holds.holds] == ["good"]
    assert "RecursionError" in store.unusable_holds["four"]


def test_a_hold_is_tried_alone_on_nodes_that_do_not_exist_yet() -> None:
    assert trial.booking_flaw(hold(2, 1)) == ""
    assert NodeName("n0") in hold(2, 1).gpus

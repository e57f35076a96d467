"""Whatever became of a state file, the master starts, keeps what is good, and answers."""

import json
from pathlib import Path
from typing import Any

import pytest

from master.sources.table import SOURCE_ROWS
from master.state.checks import MAX_NUMBER, MAX_TEXT_CHARS
from master.state.document import State, Unusable, decode
from tests.master.placing import placing
from tests.master.state.damaged_states import damaged
from tests.master.world import running, settings
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.placement.booking.bookings import Bookings
from topo.placement.booking.holds import ClockReading, HoldsMemory
from topo.placement.capacity.capacity import Capacity

pytestmark = pytest.mark.virtual_time

KEPT = (Path(__file__).with_name("fixtures") / "state-of-version-0.1.0.json").read_bytes()
FLAGS = (
    "--mode=switchbox",
    "--cluster-manager-address=http://127.0.0.1:1",
    "--cluster-manager-insecure",
)
SEEDS = [range(start, start + 50) for start in range(0, 400, 50)]
STARTS = [
    pytest.param(range(start, start + 10), marks=[pytest.mark.deep] if start >= 80 else [])
    for start in range(0, 160, 10)
]
NOW = ClockReading("boot", 10.0, 1.8e9)
PATHS = (
    "/node_group",
    "/ready",
    "/health",
    "/metrics",
    "/v1/topology",
    "/v1/topology?depth=1",
    "/v1/topology/graph",
    "/v1/holds",
    "/v1/fragmentation",
)


def taken_up(found: State | HoldsMemory | None) -> None:
    """Takes up what was found, as a master does; raises where that breaks."""
    if isinstance(found, State):
        sources = tuple(row.source for row in SOURCE_ROWS)
        discovery = Discovery(settings(*FLAGS).discovery, sources)
        discovery.restore(found.memory, 1.0, NOW.clock_s)
        discovery.validate()
    holds = found.holds if isinstance(found, State) else found
    if holds is not None:
        bookings = Bookings(Capacity())
        bookings.restore(holds, NOW)
        bookings.validate()


@pytest.mark.parametrize("seeds", SEEDS, ids=lambda seeds: str(seeds.start))
def test_a_damaged_state_is_taken_up_or_told_what_is_wrong(seeds: range) -> None:
    for seed in seeds:
        found = decode(damaged(KEPT, seed), Mode.SWITCHBOX)
        if isinstance(found, Unusable):
            assert 0 < len(found.reason) < 1000
        taken_up(found.rest if isinstance(found, Unusable) else found)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", STARTS, ids=lambda seeds: str(seeds.start))
async def test_a_master_on_a_damaged_state_answers_every_read(
    tmp_path: Path, token_flag: str, seeds: range
) -> None:
    for seed in seeds:
        state = tmp_path / f"state-{seed}"
        state.write_bytes(damaged(KEPT, seed))
        async with running(*FLAGS, token_flag, f"--state-file={state}") as master:
            for path in PATHS:
                status = (await master.get(path)).status
                assert status < 500 or status == 503, (seed, path)
            for hold in (await master.get("/v1/holds")).json["holds"]:
                assert (await master.get(f"/v1/holds/{hold['id']}")).status == 200, seed


def _with(change: dict[str, Any], *, of: int = 0) -> bytes:
    document = json.loads(KEPT)
    document["holds"]["holds"][of].update(change)
    return json.dumps(document).encode()


GOOD = decode(KEPT, Mode.SWITCHBOX)
"""A committed hold, and one that waits."""


@pytest.mark.parametrize(
    "change",
    [
        {"generation": MAX_NUMBER + 1},
        {"generation": 2**64},
        {"generation": 10**400},
        {"generation": -1},
        {"generation": 0.5},
        {"generation": str(2**64)},
        {"generation": "-1"},
        {"generation": True},
        {"deadline_s": float("nan")},
        {"deadline_s": float("inf")},
        {"deadline_s": 1e308},
        {"created_s": 1e15},
        {"gpu_type": "x" * (MAX_TEXT_CHARS + 1)},
        {"gpu_type": "\ud800"},
        {"id": ""},
        {"id": "hold-1\n"},
        {"groups": []},
        {"wish": None},
    ],
    ids=lambda change: str(change)[:40],
)
def test_a_hold_that_no_answer_can_carry_is_refused_alone(change: dict[str, Any]) -> None:
    assert isinstance(GOOD, State)
    assert GOOD.holds is not None
    found = decode(_with(change), Mode.SWITCHBOX)
    assert isinstance(found, Unusable)
    assert "hold 1 is unusable" in found.reason
    assert isinstance(found.rest, State)
    assert found.rest.memory == GOOD.memory
    assert found.rest.holds is not None
    assert found.rest.holds.holds == GOOD.holds.holds[1:]


def test_digits_without_end_are_refused_before_they_are_a_number() -> None:
    """Python itself refuses to read more than 4,300, by an error of its own."""
    content = KEPT.replace(b'"generation":7', b'"generation":' + b"7" * 100_000, 1)
    found = decode(content, Mode.SWITCHBOX)
    assert isinstance(found, Unusable)
    assert "generation" in found.reason


@pytest.mark.parametrize("field", ["id", "key"])
def test_of_two_holds_with_one_id_or_key_the_first_is_kept(field: str) -> None:
    assert isinstance(GOOD, State)
    assert GOOD.holds is not None
    document = json.loads(KEPT)
    first, second = document["holds"]["holds"][:2]
    if field == "id":
        second["id"] = first["id"]
    else:
        first["wish"]["key"] = second["wish"]["key"] = "job-7"
    found = decode(json.dumps(document).encode(), Mode.SWITCHBOX)
    assert isinstance(found, Unusable)
    assert "earlier one has its id or key" in found.reason
    taken_up(found.rest)


@pytest.mark.parametrize("generation", [2**64, -1, float("nan"), str(2**64), "-1", True, "\ud800"])
def test_a_judgement_that_no_answer_can_carry_is_refused_and_the_holds_are_kept(
    generation: object,
) -> None:
    assert isinstance(GOOD, State)
    document = json.loads(KEPT)
    document["memory"]["generation"] = generation
    found = decode(json.dumps(document).encode(), Mode.SWITCHBOX)
    assert isinstance(found, Unusable)
    wrong = "half of a character" if generation == "\ud800" else "(at memory.generation)"
    assert wrong in found.reason
    assert found.rest == GOOD.holds


async def test_numbers_that_no_answer_can_carry_give_no_lasting_500(tmp_path: Path) -> None:
    state = tmp_path / "state"
    flags = (f"--state-file={state}", "--state-save-interval=1h")
    async with placing(tmp_path, *flags) as caller:
        kept, broken = [(await caller.held(1))["hold"]["id"] for _ in range(2)]
    document = json.loads(state.read_text())
    document["holds"]["holds"][1]["generation"] = 2**64
    state.write_text(json.dumps(document))
    async with placing(tmp_path, *flags) as caller:
        assert [hold["id"] for hold in await caller.holds()] == [kept]
        assert (await caller.master.get(f"/v1/holds/{broken}")).status == 404
        given = (await caller.held(1))["hold"]["id"]
    (aside,) = tmp_path.glob("*.unusable")
    assert broken in aside.read_text()
    assert given in state.read_text()

"""The state file: restored with its age, moved aside when it cannot be used."""

import asyncio
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from master.state.document import State
from master.state.state_file import StateFile
from tests.master.placing import placing
from tests.master.state.conftest import FAST
from tests.master.world import Master, facts, running
from topo.discovery.modes import Mode
from topo.model.wire import RECONNECT_S
from topo.placement.booking.holds import HoldsMemory

pytestmark = pytest.mark.virtual_time


async def _run(state: Path, *flags: str) -> dict[str, Any]:
    """A master that sees a dragonfly and ends; what it kept."""
    async with running("--mode=dragonfly", f"--state-file={state}", *flags) as master:
        await master.pair("n1", "n2")
        await master.tree()
    kept: dict[str, Any] = json.loads(state.read_text())
    return kept


async def test_a_restart_answers_at_once_and_says_how_old_it_is(
    state: Path, token_flag: str
) -> None:
    kept = await _run(state, token_flag)
    kept["saved_at_s"] -= 60
    state.write_text(json.dumps(kept))
    async with running("--mode=dragonfly", f"--state-file={state}", token_flag) as master:
        assert (await master.get("/ready")).status == 200
        (group,) = (await master.get("/node_group")).json
        assert [c["name"] for c in group["child"]] == ["n1", "n2"]
        story = (await master.get("/v1/topology")).json
        assert 60 <= story["restored_age_s"] < 70
        assert story["generation"] > kept["memory"]["generation"]
        await master.pair("n1", "n2")
        await master.generation()
        assert (await master.get("/v1/topology")).json["restored_age_s"] is None
        assert (await master.get("/node_group")).json[0]["name"] == group["name"]


async def test_names_and_tag_survive_a_restart(state: Path, token_flag: str) -> None:
    async def tag(master: Master) -> str:
        return (await master.get("/node_group")).headers["ETag"]

    async with running("--mode=dragonfly", f"--state-file={state}", token_flag) as master:
        await master.pair("n1", "n2")
        await master.tree()
        before = await tag(master)
    async with running("--mode=dragonfly", f"--state-file={state}", token_flag) as master:
        assert await tag(master) == before


async def test_at_the_first_start_the_tree_waits_for_no_worker_that_ran_before(
    state: Path, token_flag: str
) -> None:
    """Nothing was ever kept: who starts now has reported when no more come."""
    async with running("--mode=dragonfly", f"--state-file={state}", token_flag) as master:
        await master.pair("n1", "n2")
        await asyncio.sleep(2)
        assert (await master.get("/node_group")).status == 200


async def test_a_state_that_cannot_be_used_shows_that_this_is_no_first_start(
    state: Path, token_flag: str
) -> None:
    state.parent.mkdir()
    state.write_text("unusable")
    async with running("--mode=dragonfly", f"--state-file={state}", token_flag) as master:
        await master.pair("n1", "n2")
        await asyncio.sleep(2)
        assert (await master.get("/node_group")).status == 503


async def test_without_it_the_tree_waits_for_the_longest_silence_of_a_running_worker(
    token_flag: str,
) -> None:
    """Before that, one node of many would be served as all of them."""
    async with running("--mode=dragonfly", token_flag) as master:
        assert (await master.get("/node_group")).status == 503
        worker = master.worker("n1")
        worker.seq = 7
        assert (await worker.beat()).json["want"] == "full"
        await worker.full(facts("n1"))
        await asyncio.sleep(RECONNECT_S + 9.5)
        answer = await master.get("/node_group")
        assert answer.status == 503
        assert "1 node so far" in answer.json["detail"]
        assert "silent for another 1 s" in answer.json["detail"]
        await asyncio.sleep(1)
        assert (await master.get("/node_group")).status == 200


@contextmanager
def _said(part: str) -> Iterator[None]:
    with capture_logs() as logs:
        yield
    assert part in str(logs)


def _load(
    path: Path, mode: Mode = Mode.DRAGONFLY, now_s: float = 2e9
) -> State | HoldsMemory | None:
    store = StateFile(path)
    try:
        return store.load(mode, now_s)
    finally:
        store.close()


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"kind": "other"}', b"{}"])
def test_a_file_that_is_not_ours_is_moved_aside_and_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "state"
    path.write_bytes(content)
    with _said("not a state file"):
        assert _load(path) is None
    (aside,) = tmp_path.glob("state.*.unusable")
    assert aside.name == "state.2000000000.unusable"
    assert not path.exists()
    assert aside.read_bytes() == content


async def test_a_state_of_another_mode_or_format_is_moved_aside(
    state: Path, token_flag: str
) -> None:
    kept = await _run(state, token_flag)
    with _said("mode switchbox"):
        assert _load(state, Mode.SWITCHBOX) is None
    kept["memory"]["format"] = 99
    state.write_text(json.dumps(kept))
    with _said("format 99"):
        assert _load(state) is None
    assert not state.exists()


async def test_a_clock_that_went_back_makes_no_negative_age(state: Path, token_flag: str) -> None:
    await _run(state, token_flag)
    store = StateFile(state)
    with _said("from the future"):
        assert store.load(Mode.DRAGONFLY, 1.0) is not None
    assert store.age_s(1.0) == 0


def test_no_file_is_no_news(tmp_path: Path) -> None:
    with capture_logs() as logs:
        assert _load(tmp_path / "absent") is None
    assert logs == []


@pytest.mark.parametrize(
    ("holds", "part"),
    [
        ({"format": 99, "holds": []}, "holds have format 99"),
        ({"format": 1, "holds": [{"id": "hold-1"}]}, "holds"),
        ([], "holds"),
    ],
)
async def test_holds_that_cannot_be_understood_are_put_aside_and_the_tree_is_kept(
    state: Path, token_flag: str, holds: object, part: str
) -> None:
    kept = await _run(state, token_flag)
    kept["holds"] = holds
    state.write_text(json.dumps(kept))
    with _said(part):
        found = _load(state)
    assert isinstance(found, State)
    assert found.holds is None or not found.holds.holds
    assert len(list(state.parent.glob("*.unusable"))) == 1


@pytest.mark.parametrize("field", ["created_s", "deadline_s"])
@pytest.mark.parametrize("time_s", [float("nan"), float("inf"), float("-inf"), -1.0])
async def test_a_hold_at_no_time_is_refused_and_not_kept_for_ever(
    tmp_path: Path, state: Path, field: str, time_s: float
) -> None:
    async with placing(tmp_path, f"--state-file={state}", FAST) as caller:
        await caller.held()
    kept = json.loads(state.read_text())
    kept["holds"]["holds"][0][field] = time_s
    state.write_text(json.dumps(kept))
    with _said(field):
        found = _load(state, Mode.CONFIG, time.time())
    assert isinstance(found, State)
    assert found.holds is not None
    assert not found.holds.holds
    assert len(list(state.parent.glob("*.unusable"))) == 1


@pytest.mark.parametrize("other", [{"mode": "dragonfly"}, {"memory": {"format": 99}}])
async def test_holds_outlive_a_judgement_that_is_of_no_use_any_more(
    tmp_path: Path, state: Path, other: dict[str, Any]
) -> None:
    """Jobs run on them, whatever the version or mode of the master before."""
    flags = (f"--state-file={state}", FAST)
    async with placing(tmp_path, *flags) as caller:
        name = (await caller.held())["hold"]["id"]
    kept = json.loads(state.read_text())
    state.write_text(json.dumps({**kept, **other}))
    async with placing(tmp_path, *flags) as caller:
        (hold,) = await caller.holds()
        assert hold["id"] == name
        later = (await caller.held())["hold"]["id"]
    assert json.loads(state.read_text())["mode"] == "config"
    assert name in state.read_text()
    assert later in state.read_text()
    assert len(list(state.parent.glob("*.unusable"))) == 1


async def test_a_state_file_of_version_0_1_0_is_taken_up_whole(
    tmp_path: Path, token_flag: str
) -> None:
    """Written by that version in the simulated demo: a cut cable, a committed hold."""
    state = tmp_path / "state.json"
    kept = Path(__file__).with_name("fixtures") / "state-of-version-0.1.0.json"
    state.write_bytes(kept.read_bytes())
    manager = ("--cluster-manager-address=http://127.0.0.1:1", "--cluster-manager-insecure")
    flags = ("--mode=switchbox", f"--state-file={state}", token_flag, *manager)
    async with running(*flags) as master:
        (box,) = (await master.get("/node_group")).json
        flies = {fly["name"]: fly for fly in box["child"]}
        assert {name: fly["status"] for name, fly in flies.items()} == {
            "dragonfly-90ca7a7a": "Ready",
            "dragonfly-4867316a": "NotReady",
        }
        members = [node["name"] for node in flies["dragonfly-4867316a"]["child"]]
        assert members == ["node-sample1", "node-sample2"]
        holds = (await master.get("/v1/holds")).json["holds"]
        assert ("hold-f4284a6a1f13", "committed") in [(h["id"], h["state"]) for h in holds]
        topology = (await master.get("/v1/topology")).json
        assert topology["generation"] == 8
        assert topology["restored_age_s"] is not None

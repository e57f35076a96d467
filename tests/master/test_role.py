"""A follower serves reads, changes nothing, and says where the leader is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from master.api.route import Route
from master.api.routes import ROUTES
from master.role import ALONE, Replica, Role, RoleKind
from tests.master.placing import WRITER, Caller, config
from tests.master.world import facts, running
from topo.model.errors import BadInputError, BrokenInvariantError
from topo.model.wire import RECONNECT_S

pytestmark = pytest.mark.virtual_time

LEADER_URL = "https://topo-master-1:9001"
FOLLOWER = Role(RoleKind.FOLLOWER, LEADER_URL)
LEADER = Role(RoleKind.LEADER)
JOB = {"pods": 1, "gpus_per_pod": 8, "hold_s": 60}
WRITES = [route for route in ROUTES if route.writes == "always"]


@asynccontextmanager
async def replica(home: Path, *flags: str, role: Role = FOLLOWER) -> AsyncIterator[Caller]:
    """A master in config mode with a token for writers, in a role."""
    (home / "nodegroup.yaml").write_text(config())
    (home / "writers").write_text(WRITER)
    files = (f"--config-file={home / 'nodegroup.yaml'}", f"--api-token-file={home / 'writers'}")
    async with running(*files, *flags, role=role) as master:
        yield Caller(master)


def test_a_get_never_writes_and_a_delete_always_does() -> None:
    for route in ROUTES:
        allowed = {"GET": {"never"}, "POST": {"always", "sometimes"}, "DELETE": {"always"}}
        assert route.writes in allowed[route.method]


@pytest.mark.parametrize("route", WRITES, ids=lambda route: f"{route.method} {route.path}")
async def test_a_follower_sends_a_call_that_writes_to_the_leader(
    tmp_path: Path, route: Route
) -> None:
    async with replica(tmp_path) as caller:
        path = route.path.replace("{id}", "hold-1").replace("{name}", "node-1")
        body = JOB if "{name}" not in route.path else {"reason": "cable ordered"}
        call = caller.delete(path) if route.method == "DELETE" else caller.post(path, body)
        answer = await call
        assert (answer.status, answer.json["role"]) == (503, "follower")
        assert answer.json["leader"] == LEADER_URL
        assert answer.json["fix"] == f"send the call to the leader, {LEADER_URL}"
        assert "Retry-After" in answer.headers
        assert "follower" in answer.json["detail"]


async def test_a_placement_needs_the_leader_only_where_it_is_to_be_held(tmp_path: Path) -> None:
    async with replica(tmp_path) as caller:
        held = await caller.post("/v1/placements", JOB)
        asked = await caller.post("/v1/placements", {**JOB, "hold_s": None})
        assert held.json["leader"] == LEADER_URL
        assert "leader" not in asked.json


async def test_without_a_known_leader_it_says_so(tmp_path: Path) -> None:
    async with replica(tmp_path, role=Role(RoleKind.FOLLOWER)) as caller:
        answer = await caller.post("/v1/holds", JOB)
        assert (answer.status, answer.json["leader"]) == (503, None)
        assert answer.json["fix"].startswith("ask again: no leader is known yet; GET /v1/topology")


async def test_who_may_not_write_learns_nothing_of_the_leader(tmp_path: Path) -> None:
    async with replica(tmp_path) as caller:
        answer = await Caller(caller.master, token=None).post("/v1/holds", JOB)
        assert answer.status == 401
        assert LEADER_URL not in answer.body.decode()


async def test_its_sources_begin_when_it_leads(tmp_path: Path) -> None:
    async with replica(tmp_path) as caller:
        await asyncio.sleep(0.2)  # four looks at the file, if it were looked at
        master = caller.master
        assert (await master.get("/ready")).status == 503
        assert (await master.get("/v1/topology")).json["generation"] == 0
        master.service.replica.become(LEADER)
        await master.ready()
        assert (await caller.post("/v1/holds", JOB)).status == 200


async def test_who_comes_to_lead_waits_for_workers_from_then_on(token_flag: str) -> None:
    """A follower hears none, however long it follows: its silence says nothing of them."""
    async with running("--mode=dragonfly", token_flag, role=FOLLOWER) as master:
        await asyncio.sleep(600)
        assert (await master.get("/ready")).status == 503
        master.service.replica.become(LEADER)
        await asyncio.sleep(RECONNECT_S)
        assert (await master.get("/ready")).status == 503
        await master.ready()


async def test_a_report_of_a_worker_is_not_taken(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag, role=FOLLOWER) as master:
        answer = await master.worker("n1").full(facts("n1"))
        assert (answer.status, answer.json["leader"]) == (503, LEADER_URL)
        assert not len(master.service.worker_port.sessions)


async def test_it_neither_takes_up_nor_touches_the_state_file(tmp_path: Path) -> None:
    """Another master writes it: not even an unusable one is moved aside."""
    folder = tmp_path / "state"
    folder.mkdir()
    (folder / "file").write_text("unusable")
    flags = (f"--state-file={folder / 'file'}", "--state-save-interval=50ms")
    async with replica(tmp_path, *flags) as caller:
        caller.master.service.placements.state.saved.count()
        await asyncio.sleep(0.2)
    assert [(path.name, path.read_text()) for path in folder.iterdir()] == [("file", "unusable")]


async def test_who_comes_to_lead_takes_up_what_was_kept_before_it_saves(tmp_path: Path) -> None:
    """A hold of the leader before survives, on disk too."""
    flags = (
        f"--state-file={tmp_path / 'state'}",
        "--state-save-interval=50ms",
        "--gpus-per-node=8",
    )
    async with replica(tmp_path, *flags, role=ALONE) as caller:
        await caller.master.ready()
        kept = (await caller.post("/v1/holds", JOB)).json["hold"]["id"]
    async with replica(tmp_path, *flags) as caller:
        caller.master.service.replica.become(LEADER)
        await caller.master.ready()
        added = (await caller.post("/v1/holds", JOB)).json["hold"]["id"]
        listed = [hold["id"] for hold in (await caller.master.get("/v1/holds")).json["holds"]]
    assert listed == [kept, added]
    assert kept in (tmp_path / "state").read_text()


async def test_who_comes_to_lead_while_another_still_leads_ends(tmp_path: Path) -> None:
    """Else the holds of one of them are lost; it is started again and follows."""
    flags = (f"--state-file={tmp_path / 'state'}", "--gpus-per-node=8")
    async with replica(tmp_path, *flags, role=ALONE) as leader, replica(tmp_path, *flags) as other:
        await leader.master.ready()
        with pytest.raises(BadInputError, match="another master keeps its state there"):
            await other.master.service.replica.restored()


async def test_who_acted_never_follows() -> None:
    """What it has begun could write beside the new leader."""
    master = Replica(ALONE)
    master.become(LEADER)
    with pytest.raises(BrokenInvariantError, match="cannot become a follower"):
        master.become(FOLLOWER)
    assert master.role == LEADER

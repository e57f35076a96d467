"""A pod that is not bound takes a node by its note only where a fact bears the note out."""

import asyncio
from pathlib import Path

import orjson
import pytest

from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.sources.test_cluster_capacity import NODES, following
from tests.kube.sources.test_hold_claims import GANG, HELD, JOB_UID, counts, hold_on, state_of
from tests.support.kubernetes import GPU, node_status
from topo.gangs.hold_claims import gang_key
from topo.gangs.machine.gang import GangId
from topo.model.ids import NodeName
from topo.placement.booking.events import HoldReleased
from topo.placement.booking.holds import HoldId, HoldRequest
from topo.placement.job.request import Request

pytestmark = pytest.mark.virtual_time

A, B, C = (NodeName(node) for node in NODES[:3])
HOLD = HoldId("hold-1")
LABEL = f"gang.metax-tech.com/{GANG}"


async def label(server: FakeServer, node: NodeName, value: str = "") -> None:
    """The gang's label of a node, or none."""
    labels = {LABEL: value} if value else {}
    await server.put("nodes", node, metadata={"labels": labels}, status=node_status())
    await asyncio.sleep(1)


async def start(server: FakeServer) -> None:
    for name in NODES:
        await server.put("nodes", name, metadata={"labels": {}}, status=node_status())


async def wait_opened(
    server: FakeServer, *, nominated: str = "", node: str = A, bound: str = ""
) -> None:
    """An opened pod of the job, which says in its note that it is planned on a node."""
    note = {
        "certified": True,
        "gang": GANG,
        "generation": 1,
        "group": 0,
        "hold": HOLD,
        "node": node,
        "selection": "hold-1",
    }
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": JOB_UID}
    metadata = {
        "uid": "p0",
        "ownerReferences": [{**job, "controller": True}],
        "annotations": {
            "metax-tech.com/placement": orjson.dumps(note).decode(),
            "metax-tech.com/gpu-group-size": "16",
            "metax-tech.com/gang-pods": "2",
            "metax-tech.com/gang-rank-offset": "0",
            "metax-tech.com/gang-pods-per-group": "2",
            "batch.kubernetes.io/job-completion-index": "0",
        },
    }
    resources = {"limits": {GPU: "8"}, "requests": {GPU: "8"}}
    spec = {
        **({"nodeName": bound} if bound else {"nodeSelector": {LABEL: "hold-1"}}),
        "containers": [{"name": "main", "resources": resources}],
    }
    status = {"phase": "Pending", **({"nominatedNodeName": nominated} if nominated else {})}
    await server.put("pods", "p0", "team-a", metadata=metadata, spec=spec, status=status)
    await asyncio.sleep(1)


async def test_by_its_own_word_it_takes_nothing(tmp_path: Path) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await wait_opened(server)
            assert counts(state_of(master)) == (0, 0, 0)
            await wait_opened(server, nominated=B)
            assert counts(state_of(master)) == (0, 8, 0)
            assert state_of(master).usage().counts[B].held == 8, "where a scheduler nominates it"


async def test_a_bound_pod_takes_its_node_whatever_its_note_says(tmp_path: Path) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await wait_opened(server, bound=B)
            assert counts(state_of(master)) == (8, 0, 0)
            assert state_of(master).usage().counts[B].used == 8
            await label(server, B)
            assert state_of(master).usage().counts[B].used == 8


async def test_the_label_of_its_gang_bears_it_out_while_it_stands(tmp_path: Path) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            state = state_of(master)
            await wait_opened(server)
            await label(server, A, "another-plan")
            assert counts(state) == (0, 0, 0)
            await label(server, A, "hold-1")
            assert counts(state) == (0, 8, 0)
            await label(server, A)
            assert counts(state) == (0, 0, 0)
        await label(server, A, "hold-1")
        async with following(server, tmp_path) as master:  # whichever list comes first
            await asyncio.sleep(1)
            assert counts(state_of(master)) == (0, 8, 0)


@pytest.mark.parametrize(
    ("owner", "opened"), [(GANG, 8), (GangId("another-gang"), 0)], ids=["own", "of others"]
)
async def test_a_hold_of_its_gang_bears_it_out_and_no_other(
    owner: GangId, opened: int, tmp_path: Path
) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            job = Request(pods=2, gpus_per_pod=8)
            assert hold_on(state, HoldRequest(job, 3600, gang_key(owner, HOLD))) == HOLD
            await wait_opened(server)
            assert counts(state) == (0, HELD + opened, opened), (
                "beside the hold, which it does not name"
            )
            state.advance(HoldReleased(HOLD))
            await wait_opened(server, nominated=B)
            assert counts(state) == (0, 8, 0)
            assert state.usage().counts[B].held == 8


async def test_a_hold_of_its_gang_bears_out_no_node_that_it_does_not_book(tmp_path: Path) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            job = Request(pods=2, gpus_per_pod=8)
            hold_on(state, HoldRequest(job, 3600, gang_key(GANG, HOLD)))
            await wait_opened(server, node=C)
            assert counts(state) == (0, HELD, 0)


async def test_a_pod_is_counted_anew_when_the_hold_of_its_note_comes_or_ends(
    tmp_path: Path,
) -> None:
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await wait_opened(server)
            state = state_of(master)
            assert counts(state) == (0, 0, 0)
            job = Request(pods=2, gpus_per_pod=8)
            hold_on(state, HoldRequest(job, 3600, gang_key(GANG, HOLD)))
            assert counts(state) == (0, HELD + 8, 8), "beside the hold, which it does not name"
            state.advance(HoldReleased(HOLD))
            assert counts(state) == (0, 0, 0)


@pytest.mark.parametrize(("slack", "opened"), [(0, 8), (4, 0), (8, 0)])
async def test_a_hold_bears_out_no_more_gpus_of_a_node_than_it_books(
    slack: int, opened: int, tmp_path: Path
) -> None:
    """The rest of a place may be another's: a pod of the gang was made again, larger."""
    async with fake_server() as server:
        await start(server)
        async with following(server, tmp_path) as master:
            await asyncio.sleep(1)
            state = state_of(master)
            wish = HoldRequest(Request(pods=2, gpus_per_pod=8), 3600, gang_key(GANG, HOLD))
            hold_on(state, wish, slack=((A, slack),) if slack else ())
            await wait_opened(server)
            assert counts(state) == (0, HELD - slack + opened, opened), "beside the hold, as above"

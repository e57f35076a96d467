"""What `GET /v1/topology` says of GPUs: free, used, held, cordoned; of nodes and of groups."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.master.documents import read
from tests.master.placing import Caller, config, placing
from topo.model.cluster import ClusterNode
from topo.model.ids import NodeName
from topo.model.rest.topology import GroupDocument, NodeDocument, TopologyDocument, is_group, walk
from topo.placement.booking.events import Pod, PodGone, PodPhase, PodSeen

pytestmark = pytest.mark.virtual_time

PAIRS = config(boxes=2, flies=3, nodes=2)
"""The vendor's shape: dragonflies of two nodes of eight GPUs, under switchboxes."""
Counts = tuple[int, int, int, int]


async def _told(caller: Caller, query: str = "") -> Mapping[str, Counts]:
    """(free, used, held, cordoned) by path; a cordoned node counts 1 as its last."""
    await caller.master.generation()  # what was made a moment ago may be served again
    document = read(TopologyDocument, await caller.master.get(f"/v1/topology{query}"))
    return {"/".join(path): _counts(vertex) for path, vertex in walk(document["groups"])}


def _counts(vertex: NodeDocument | GroupDocument) -> Counts:
    if not is_group(vertex):
        return (
            vertex["free_gpus"],
            vertex["used_gpus"],
            vertex["held_gpus"],
            int(vertex["cordoned"]),
        )
    own = vertex["capacity"]
    return own["free_gpus"], own["used_gpus"], own["held_gpus"], own["cordoned_gpus"]


def _pod(node: str, gpus: int, hold: Any = None) -> PodSeen:
    pod = Pod(uid=node, namespace="x", name=node, node=NodeName(node), gpus=gpus, hold=hold)
    return PodSeen(pod, PodPhase.BOUND)


async def test_a_hold_its_pods_and_a_cordon_show_on_the_node_and_on_every_group_above(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path, text=PAIRS) as caller:
        hold = (await caller.held(2))["hold"]["id"]
        told = await _told(caller)
        assert [told[at] for at in ("s0", "s0/d0-0", "s0/d0-0/n0-0-0")] == [
            (32, 0, 16, 0),
            (0, 0, 16, 0),
            (0, 0, 8, 0),
        ]
        state = caller.master.service.placements.state
        state.advance(_pod("n0-0-0", 8, hold), _pod("n0-1-0", 2))
        state.follow_cluster([ClusterNode(name=NodeName("n0-1-0"), unschedulable=True)])
        told = await _told(caller)
        assert told["s0/d0-0"] == (0, 8, 8, 0)
        assert told["s0/d0-1/n0-1-0"] == (0, 2, 0, 1)
        assert told["s0/d0-1"] == (8, 2, 0, 6)
        assert told["s0"] == (24, 10, 8, 6)
        await caller.delete(f"/v1/holds/{hold}")
        assert (await _told(caller))["s0"] == (32, 10, 0, 6)


async def test_gpus_of_a_pod_are_held_until_it_is_bound_and_used_from_then_on(
    tmp_path: Path,
) -> None:
    """A hold keeps them, then the opened pod does; documents and metrics say the same."""
    async with placing(tmp_path, text=PAIRS) as caller:
        hold, state = (await caller.held(1))["hold"]["id"], caller.master.service.placements.state
        bound = _pod("n0-0-0", 8, hold)
        seen = []
        for event in (None, replace(bound, phase=PodPhase.NOMINATED), bound):
            state.advance(*([event] if event else []))
            state.usage().validate()
            told = await _told(caller)
            document = read(TopologyDocument, await caller.master.get("/v1/topology"))
            text = (await caller.master.get("/metrics")).body.decode()
            sums = [_metric(text, name) for name in ("free", "used", "held", "opened")]
            assert [sum(told[box][at] for box in ("s0", "s1")) for at in range(3)] == sums[:3]
            seen.append((told["s0/d0-0/n0-0-0"], sums[3], document["capacity_version"]))
        assert [(node, opened) for node, opened, _ in seen] == [
            ((0, 0, 8, 0), 0),
            ((0, 0, 8, 0), 8),
            ((0, 8, 0, 0), 0),
        ]
        assert seen[1][2] < seen[2][2], "whoever follows the capacity is told"


def _metric(text: str, name: str) -> float:
    lines = (line for line in text.splitlines() if line.startswith(f"topo_master_{name}_gpus{{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def test_a_node_tells_its_pool_and_its_shared_cards_in_their_own_unit(
    tmp_path: Path,
) -> None:
    """It gives no whole GPU; the metrics count the same."""
    sgpu = "metax-tech.com/sgpu"
    async with placing(tmp_path, text=PAIRS) as caller:
        state, node = caller.master.service.placements.state, NodeName("n0-0-0")
        stated = ClusterNode(name=node, pool="inference", shared=((sgpu, 32),))
        state.follow_cluster([stated])
        pod = Pod(uid="u", namespace="x", name="p", node=node, gpus=0, shared=((sgpu, 5),))
        state.advance(PodSeen(pod, PodPhase.BOUND))
        await caller.master.generation()
        document = read(TopologyDocument, await caller.master.get("/v1/topology"))
        leaves = {v["name"]: v for _, v in walk(document["groups"]) if not is_group(v)}
        shared = leaves["n0-0-0"]
        assert (shared["pool"], shared["free_gpus"], shared["used_gpus"]) == ("inference", 0, 0)
        assert shared["shared"] == [{"resource": sgpu, "allocatable": 32, "used": 5}]
        assert (leaves["n0-0-1"]["pool"], leaves["n0-0-1"]["shared"]) == ("", [])
        text = (await caller.master.get("/metrics")).body.decode()
        for count, value in (("allocatable", 32.0), ("used", 5.0)):
            labels = f'count="{count}",resource="{sgpu}"'
            assert f"topo_master_shared_cards{{{labels}}} {value}" in text


async def test_gpus_of_a_node_that_is_not_ready_are_neither_free_nor_cordoned(
    tmp_path: Path,
) -> None:
    text = PAIRS.replace("[n0-0-0, ", "[{name: n0-0-0, kind: node, status: NotReady}, ")
    async with placing(tmp_path, text=text) as caller:
        told = await _told(caller)
        assert told["s0/d0-0/n0-0-0"] == (0, 0, 0, 0)
        assert told["s0/d0-0"] == (8, 0, 0, 0)


@pytest.mark.parametrize("query", ["?node=n1-2-1", "?group=d1-2", "?depth=0", "?depth=1"])
async def test_a_group_counts_all_of_it_however_little_of_it_is_shown(
    tmp_path: Path, query: str
) -> None:
    async with placing(tmp_path, text=PAIRS) as caller:
        await caller.held(3)
        all_of_it = {path.rpartition("/")[2]: c for path, c in (await _told(caller)).items()}
        part = {path.rpartition("/")[2]: c for path, c in (await _told(caller, query)).items()}
        assert part
        assert part.items() <= all_of_it.items()


async def test_the_tag_tells_of_holds_that_the_generation_does_not_count(tmp_path: Path) -> None:
    async with placing(tmp_path, text=PAIRS) as caller:
        master = caller.master
        for path in ("/v1/topology", "/v1/topology?depth=0"):
            before = await master.get(path)
            tag = before.headers["ETag"]
            assert (await master.get(path, If_None_Match=tag)).status == 304
            hold = (await caller.held(1))["hold"]["id"]
            await caller.master.generation()
            held = await master.get(path, If_None_Match=tag)
            assert held.status == 200
            assert held.headers["ETag"] != tag
            assert held.json["generation"] == before.json["generation"]
            assert (await master.get(path, If_None_Match=held.headers["ETag"])).status == 304
            vendors = (await master.get("/node_group")).headers["ETag"]
            await caller.delete(f"/v1/holds/{hold}")
            assert (await master.get("/node_group")).headers["ETag"] == vendors


async def test_the_metrics_count_the_same_gpus_by_type(tmp_path: Path) -> None:
    """At once, without waiting for a report; what is whole of them is that of the last report."""
    async with placing(tmp_path, "--canonical-group-size=16", text=PAIRS) as caller:
        hold = (await caller.held(2))["hold"]["id"]
        state = caller.master.service.placements.state
        state.advance(_pod("n0-0-0", 8, hold), _pod("n0-1-0", 2))
        state.follow_cluster([ClusterNode(name=NodeName("n0-1-0"), unschedulable=True)])
        await caller.master.get("/v1/fragmentation")
        text = (await caller.master.get("/metrics")).body.decode()
        kind = 'gpu_type="unknown"'
        for line in (
            f"topo_master_gpus{{{kind}}} 96.0",
            f"topo_master_ready_gpus{{{kind}}} 96.0",
            f"topo_master_free_gpus{{{kind}}} 72.0",
            f"topo_master_used_gpus{{{kind}}} 10.0",
            f"topo_master_held_gpus{{{kind}}} 8.0",
            f"topo_master_cordoned_gpus{{{kind}}} 6.0",
            f"topo_master_closed_gpus{{{kind}}} 0.0",
            f'topo_master_largest_job_gpus{{{kind},group_size="16"}} 72.0',
            f"topo_master_group_integrity_ratio{{{kind}}} 0.8",
            f"topo_master_unusable_gpus{{{kind}}}",
            "topo_master_overbooked_gpus 0.0",
        ):
            assert line in text, line
        state.advance(_pod("n0-1-0", 12))
        text = (await caller.master.get("/metrics")).body.decode()
        assert "topo_master_overbooked_gpus 4.0" in text


async def test_a_node_on_which_more_is_booked_than_it_has_is_a_finding(tmp_path: Path) -> None:
    """A pod that asks for no groups is bound where a hold keeps the node."""
    async with placing(tmp_path, text=PAIRS) as caller:
        state = caller.master.service.placements.state
        await caller.held(1)
        (node,) = [name for name, counts in state.usage().counts.items() if counts.held]
        state.usage().validate()
        assert await _overbooked(caller) == []
        state.advance(_pod(node, 8))
        state.usage().validate()
        (finding,) = await _overbooked(caller)
        assert finding["subject"] == node
        assert finding["what"] == "8 GPUs used by pods and 8 held, of 8"
        state.advance(PodGone(node))
        assert await _overbooked(caller) == []


async def _overbooked(caller: Caller) -> list[dict[str, Any]]:
    await caller.master.generation()  # what was made a moment ago may be served again
    found = (await caller.master.get("/v1/findings")).json["findings"]
    return [each for each in found if each["code"] == "overbooked"]


async def test_who_looks_twice_is_shown_the_same_value_until_something_is_booked(
    tmp_path: Path,
) -> None:
    """A look costs a copy of the capacity only after a change of it."""
    async with placing(tmp_path, text=PAIRS) as caller:
        state = caller.master.service.placements.state
        seen = state.usage()
        await _told(caller, "?node=n0-0-0")
        assert state.usage() is seen
        hold = (await caller.held(1))["hold"]["id"]
        booked = state.usage()
        assert sum(counts.held for counts in booked.counts.values()) == 8
        assert sum(counts.held for counts in seen.counts.values()) == 0
        await caller.post(f"/v1/holds/{hold}/commit")
        assert state.usage() is booked, "a hold that is kept takes no other GPUs"

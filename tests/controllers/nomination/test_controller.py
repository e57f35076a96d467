"""Gangs at work on a model of the API server: what is written for them, and in which order."""

import asyncio
import re

import orjson
import pytest

from master.kube.errors import KubeError
from master.kube.objects import PODS
from tests.controllers.nomination.gang_world import gang_world, is_open, nominated
from tests.controllers.nomination.masters import FLIES, NODE_NAMES
from tests.controllers.nomination.objects import GANG, GPU, LABEL, WORDS
from tests.publish.forests import VENDOR, forest
from topo.gangs.stamp import Stamp
from topo.model.conditions.gang_states import GangState
from topo.model.forest import Snapshot
from topo.model.ids import Generation
from topo.placement.booking.events import HoldAsked
from topo.placement.booking.log import Advanced, Entry

pytestmark = pytest.mark.virtual_time


async def test_a_pair_gets_a_whole_dragonfly_and_every_write_is_in_its_order():
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        nodes = [nominated(pod) for pod in pods]
        assert set(nodes) in FLIES
        assert all(is_open(pod) for pod in pods)
        assert world.labelled() == set(nodes)
        order = [
            "label" if call.path.startswith("/api/v1/nodes") else call.path.rpartition("/")[2]
            for call in world.api.calls
            if call.method == "PATCH" and "events" not in call.path
        ]
        opened = [at for at, what in enumerate(order) if what.startswith("pod-")]
        others = [at for at, what in enumerate(order) if what in {"label", "status"}]
        assert len(opened) == 2
        assert max(others) < min(opened)


async def test_a_note_and_the_hold_come_with_the_nomination_in_one_write():
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        for pod in pods:
            annotations = pod.document["metadata"]["annotations"]
            note = orjson.loads(annotations[WORDS.placement])
            assert note["node"] == nominated(pod)
            assert note["hold"] == annotations[WORDS.hold]
            assert pod.document["spec"]["nodeSelector"] == {LABEL: note["selection"]}


async def test_a_pod_of_somebody_else_on_a_planned_node_moves_the_gang():
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        lost = nominated(pods[0])
        world.take(lost)
        await asyncio.sleep(30)
        nodes = {nominated(pod) for pod in pods}
        assert lost not in nodes
        assert nodes in FLIES
        assert world.labelled() == nodes


@pytest.mark.parametrize("every_s", [0.003, 0.011, 0.02, 0.05])
async def test_a_pod_that_others_change_all_the_while_is_placed_all_the_same(every_s: float):
    """Its version grows although nothing of it changed that decides: writes are refused for it."""
    async with gang_world() as world:
        pods = [world.add_pod(index) for index in range(2)]
        for number in range(100):
            world.api.touch("/api/v1/namespaces/jobs/pods", f"pod-{number % 2}")
            await asyncio.sleep(every_s)
        await asyncio.sleep(30)
        assert all(is_open(pod) for pod in pods)
        assert {nominated(pod) for pod in pods} in FLIES


async def test_a_gang_without_room_keeps_its_gates_says_why_and_starts_when_there_is_some():
    async with gang_world() as world:
        for pair in FLIES:
            world.take(min(pair))
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        assert not any(is_open(pod) or nominated(pod) for pod in pods)
        (condition,) = pods[0].document["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == (
            f"{WORDS.domain}/Placed",
            "GangDoesNotFit",
        )
        assert "whole group" in condition["message"]
        assert ". All 2 pods fit in preferred mode" in condition["message"]
        world.api.remove(PODS, f"taker-{min(FLIES[2])}", "others")
        await asyncio.sleep(10)
        assert {nominated(pod) for pod in pods} == FLIES[2]
        assert all(is_open(pod) for pod in pods)
        for pod in pods:
            world.bind(pod)
        await asyncio.sleep(10)
        (condition,) = pods[0].document["status"]["conditions"]
        assert (condition["status"], condition["reason"]) == ("True", "GangBound")


async def test_what_would_let_a_gang_in_is_told_and_looked_for_anew_when_somebody_asks():
    async with gang_world() as world:
        for node in NODE_NAMES:
            world.take(node)
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        ((_, told),) = world.nomination.view.all()
        assert re.fullmatch(
            r"The job fits once pod others/taker-\S+ and pod others/taker-\S+ give back 16 GPUs\.",
            told.would_fit,
        )
        (condition,) = pods[0].document["status"]["conditions"]
        assert condition["message"] == f"{told.text}. {told.would_fit}"
        for node in NODE_NAMES:
            world.api.remove(PODS, f"taker-{node}", "others")
            world.take(node, "later")
        await asyncio.sleep(10)
        asked = await world.nomination.view.get_advised(GANG)
        assert asked is not None
        assert asked[1].text == told.text
        assert asked[1].would_fit == told.would_fit.replace("taker", "later")
        ((_, told),) = world.nomination.view.all()
        assert told == asked[1]


async def test_advice_has_the_numbers_that_it_was_found_on_where_the_reason_has_older_ones():
    """A gang is not placed again because room went, so that its reason stays as it was."""
    stamp = Stamp(pods=8, rank_offset=0, pods_per_group=2)
    async with gang_world() as world:
        world.take("node-1")
        for index in range(8):
            world.add_pod(index, stamp=stamp)
        await asyncio.sleep(10)
        world.take("node-2", "later")
        await asyncio.sleep(10)
        asked = await world.nomination.view.get_advised(GANG)
        assert asked is not None
        assert "56 are free" in asked[1].text
        first, rest = asked[1].would_fit.split(". ")
        assert first.startswith("Counted anew by GPUs alone, the job needs 64 GPUs, 48 are free")
        assert rest.endswith("give back 16 GPUs.")


async def test_advice_names_a_running_gang_as_a_whole_and_all_of_its_gpus():
    async with gang_world() as world:
        first = Stamp(pods=8, rank_offset=0, pods_per_group=2)
        pods = [world.add_pod(index, stamp=first) for index in range(8)]
        await asyncio.sleep(10)
        for pod in pods:
            world.bind(pod)
        for index in range(2):
            world.add_pod(index, job="second", created="2026-01-02T03:05:05Z")
        await asyncio.sleep(10)
        (waits,) = [s for _, s in world.nomination.view.all() if s.state is GangState.NO_ROOM]
        assert waits.would_fit == "The job fits once job jobs/train gives back 64 GPUs."


async def test_advice_names_the_pod_of_a_job_of_one_pod():
    alone = Stamp(pods=1, rank_offset=0, pods_per_group=2)
    async with gang_world() as world:
        single = world.add_pod(0, job="single", stamp=alone)
        await asyncio.sleep(10)
        (pair,) = [fly for fly in FLIES if nominated(single) in fly]
        world.bind(single)
        for node in {*NODE_NAMES} - pair:
            world.take(node)
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        (waits,) = [s for _, s in world.nomination.view.all() if s.state is GangState.NO_ROOM]
        assert waits.would_fit == "The job fits once pod jobs/single-0 gives back 8 GPUs."


async def test_a_gang_that_never_fits_is_told_so_of_the_empty_cluster_and_what_would_fit_there():
    stamp = Stamp(pods=10, rank_offset=0, pods_per_group=2)
    async with gang_world() as world:
        for index in range(10):
            world.add_pod(index, stamp=stamp)
        await asyncio.sleep(10)
        ((_, told),) = world.nomination.view.all()
        assert told.state is GangState.NEVER_FITS
        so, change = told.would_fit.split(". ")
        assert so == "With all nodes open and empty it would not fit"
        assert change == "Such a job of 8 pods would fit at most."


async def test_what_is_kept_for_the_head_is_in_the_log_of_the_bookings_of_those_behind_it():
    async with gang_world() as world:
        for pair in FLIES:
            world.take(min(pair))
        entries: list[Entry] = []
        world.placements.state.record = entries.append
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        one = Stamp(pods=1, rank_offset=0, pods_per_group=2)
        world.add_pod(0, job="job-2", stamp=one, created="2026-01-02T03:05:05Z")
        await asyncio.sleep(10)
        steps = [entry for entry in entries if isinstance(entry, Advanced)]
        (asked,) = (e for step in steps for e in step.events if isinstance(e, HoldAsked))
        (group,) = asked.groups
        assert set(asked.without) == FLIES[0]
        assert {node for node, _ in group.pods} == {max(FLIES[1])}


async def test_a_gang_that_never_waited_gets_no_condition():
    async with gang_world() as world:
        await asyncio.sleep(10)
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        for pod in pods:
            world.bind(pod)
        await asyncio.sleep(10)
        assert not any(pod.document["status"].get("conditions") for pod in pods)


@pytest.mark.parametrize("refusals", [1, 2, 3])
async def test_a_write_that_is_refused_for_a_moment_holds_a_gang_up_for_a_moment(refusals: int):
    """A label that meets other changes of the node time and again is a conflict."""
    async with gang_world() as world:
        conflict = KubeError("the object has been modified", status=409)
        world.api.refusals["/api/v1/nodes"] = [conflict] * 2 * refusals  # of two nodes
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(2.0 ** (refusals + 1))
        assert all(is_open(pod) for pod in pods)


async def test_metrics_say_for_how_long_a_gang_has_waited_for_room():
    """Whatever else changes in what is said of it; 0 once it has its nodes."""
    async with gang_world() as world:
        for pair in FLIES:
            world.take(min(pair))
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(100)
        waited_s = world.metric("gang_longest_seconds", reason="no-room")
        assert waited_s is not None
        assert 90 < waited_s <= 100
        assert world.metric("gangs", reason="no-room") == 1
        world.api.remove(PODS, f"taker-{min(FLIES[2])}", "others")
        await asyncio.sleep(10)
        assert world.metric("gang_longest_seconds", reason="no-room") == 0
        assert world.metric("gang_gates_opened_total", how="planned") == 2
        assert (world.metric("gang_decision_seconds_count") or 0) >= 2, "refused, then planned"
        used_s = world.metric("gang_decision_cpu_seconds_total")
        assert used_s is not None
        assert used_s > 0
        assert world.metric("gang_gates_opened_total", how="unplanned") == 0


async def test_a_write_asks_for_no_more_of_an_object_than_who_it_is():
    async with gang_world() as world:
        for index in range(2):
            world.add_pod(index)
        await asyncio.sleep(10)
        written = [each for each in world.api.calls if each.method == "PATCH"]
        assert len(written) >= 6  # two nodes, and each pod twice
        assert all("as=PartialObjectMetadata" in each.accept for each in written)


async def test_a_gate_on_a_pod_of_no_gang_is_opened_and_says_why():
    async with gang_world() as world:
        alone = world.add_pod(0)
        alone.document["metadata"]["annotations"].clear()
        world.api.touch("/api/v1/namespaces/jobs/pods", "pod-0")
        await asyncio.sleep(10)
        assert is_open(alone)
        assert "unplanned" in alone.document["metadata"]["annotations"][WORDS.placement]


async def test_a_gang_that_no_group_could_hold_starts_when_the_tree_shows_one():
    async with gang_world(forest(unplaced=NODE_NAMES)) as world:
        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(10)
        assert not any(is_open(pod) for pod in pods)
        world.placements.state.follow(Snapshot(Generation(2), VENDOR))
        await asyncio.sleep(10)
        assert {nominated(pod) for pod in pods} in FLIES


async def test_two_gangs_that_come_together_do_not_both_take_the_last_room_of_their_queue():
    async with gang_world() as world:
        world.add_queue("q1", capability={GPU: "24"})
        for job in ("job-1", "job-2"):
            world.add_group(f"group-{job}", "q1")
        first = [world.add_pod(index, group="group-job-1") for index in range(2)]
        second = [world.add_pod(index, job="job-2", group="group-job-2") for index in range(2)]
        await asyncio.sleep(30)
        opened = [sum(map(is_open, pods)) for pods in (first, second)]
        assert sorted(opened) == [0, 2]
        (runs, waits) = (first, second) if opened[0] else (second, first)
        (condition,) = waits[0].document["status"]["conditions"]
        assert "queue q1 has 8 of 24 GPUs left where 16 are needed" in condition["message"]
        for pod in runs:
            world.bind(pod)
            metadata = pod.document["metadata"]
            world.api.remove(PODS, metadata["name"], "jobs")
        await asyncio.sleep(10)
        assert all(map(is_open, waits))


async def test_a_gang_beyond_the_share_of_its_queue_starts_when_others_ask_for_less():
    async with gang_world() as world:
        for queue in ("q1", "q2"):
            world.add_queue(queue)
            world.add_group(f"of-{queue}", queue)
        others = [world.add_pod(index, job=f"x{index}", group="of-q2") for index in range(20)]
        for pod in others:
            pod.document["spec"]["schedulingGates"] = [{"name": "somebody-else"}]
            pod.document["metadata"]["annotations"].pop(WORDS.size)
        pods = [world.add_pod(index, group="of-q1") for index in range(6)]
        for pod in pods:
            stamp = {WORDS.size: "16", f"{WORDS.domain}/gang-pods": "6"}
            pod.document["metadata"]["annotations"].update(stamp)
        await asyncio.sleep(30)
        assert not any(map(is_open, pods))
        (condition,) = pods[0].document["status"]["conditions"]
        assert "0 of the 32 GPUs that its weight (1 of 2) gives it" in condition["message"]
        for pod in others[4:]:
            metadata = pod.document["metadata"]
            world.api.remove(PODS, metadata["name"], "jobs")
        await asyncio.sleep(10)
        assert not any(map(is_open, pods)), "48 of 64 are more than a half"
        for pod in others[2:4]:
            world.api.remove(PODS, pod.document["metadata"]["name"], "jobs")
        await asyncio.sleep(10)
        assert all(map(is_open, pods))


async def test_the_doctor_hears_of_gangs_that_somebody_should_look_at_and_of_no_others():
    async with gang_world() as world:

        def codes() -> list[str]:
            return [warning.code for warning in world.nomination.warnings()]

        pods = [world.add_pod(index) for index in range(2)]
        await asyncio.sleep(30)
        assert codes() == [], "its scheduler has a minute"
        await asyncio.sleep(60)
        (warning,) = world.nomination.warnings()
        assert warning.code == "gang-not-bound"
        assert "jobs/train" in warning.text
        for pod in pods:
            world.bind(pod)
        await asyncio.sleep(10)
        assert codes() == []
        for index in range(2):
            large = world.add_pod(index, job="job-2")
            large.document["metadata"]["annotations"][WORDS.size] = "1600"
            large.document["metadata"]["annotations"][f"{WORDS.domain}/gang-pods"] = "200"
        slipped = world.add_pod(0, job="job-3", schedulingGates=[])
        await asyncio.sleep(30)
        assert codes() == ["gang-passed-by"], "a job whose pods come yet is none"
        world.api.remove(PODS, slipped.document["metadata"]["name"], "jobs")
        await asyncio.sleep(10)
        assert codes() == []


@pytest.mark.parametrize(("first", "codes"), [(0, ["gang-passed-by"]), (1, ["gang-split"])])
async def test_a_job_of_which_every_pod_passed_the_webhook_by_is_told_as_split_where_it_is(
    first: int, codes: list[str]
):
    nodes = sorted(NODE_NAMES)[first : first + 2]
    async with gang_world() as world:
        for index, node in enumerate(nodes):
            world.add_pod(index, schedulingGates=[], nodeName=node)
        await asyncio.sleep(30)
        assert {each.code for each in world.nomination.warnings()} >= set(codes)
        is_split = "gang-split" in codes
        assert world.metric("gangs", reason="split") == is_split
        events = [call.body or b"" for call in world.api.calls if "/events" in call.path]
        assert any(b'"GangSplit"' in body for body in events) is is_split

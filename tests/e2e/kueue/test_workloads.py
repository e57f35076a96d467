"""Whole groups before a job of real Kueue starts: held before its quota, and by admission check."""

import copy
import sys
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.controlplane.kueue import CHECKS, GROUP
from tests.e2e.kueue.queues import (
    PLAIN,
    RENDERING,
    WORKLOADS,
    WRITES,
    conditions,
    open_queue,
    plain_flavor,
    queued,
)
from tests.e2e.kueue.test_jobs import split
from tests.e2e.provisioning.test_page import MASTER, POLICIES, POLICY, refused
from tests.e2e.scheduling.admission_master import AdmissionMaster, admission_master
from tests.e2e.scheduling.asking import batch_job, nodes_of
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import BATCH_JOBS, NODES, PODS, WORDS, events_of, taker
from tests.e2e.scheduling.scheduler_config import topo
from tests.helm.chart import NAMESPACE, golden, one, rules
from tests.support.waiting import eventually
from topo.gangs.annotation_keys import ADMISSION_GATED_BY
from topo.sim.worlds.presets import World

HOLDER = WORDS.whole_groups
OTHER = "example.com/budget"


@pytest.fixture
async def holder(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> AsyncIterator[AdmissionMaster]:
    """A master whose webhook holds jobs before their quota."""
    (tmp_path / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    flags = (WRITES, "--hold-before-quota=true", f"--state-file={tmp_path / 'state'}")
    async with admission_master(cluster, api, tmp_path, *flags, rendering=RENDERING) as running:
        yield running
        sys.stdout.write(running.program.log.read_text()[-8000:])  # shown where the test fails


async def take_one_of_each_pair(api: Api, world: World) -> list[str]:
    """Leave no dragonfly whole; return the pods that see to it."""
    names = []
    for host in world.nodes[::2]:
        names.append(f"taker-{host.name}")
        await api.create(PODS, taker(names[-1], str(host.name)))
    return names


async def gates(api: Api, job: str) -> str:
    found = await api.get(f"{BATCH_JOBS}/{job}")
    return str(found["metadata"].get("annotations", {}).get(ADMISSION_GATED_BY, ""))


async def test_a_job_without_whole_groups_is_held_before_its_quota_and_let_go_once_they_are_booked(
    api: Api, holder: AdmissionMaster, world: World
) -> None:
    """What was held keeps no quota from others; the name of somebody else stays."""
    await plain_flavor(api)
    await open_queue(api, "training", PLAIN, 64)
    takers = await take_one_of_each_pair(api, world)
    job = queued(batch_job("held", 4, 16), "training", **{ADMISSION_GATED_BY: OTHER})
    await eventually(lambda: _is_reviewed(api, job))
    await api.create(BATCH_JOBS, job)
    assert await gates(api, "held") == f"{OTHER},{HOLDER}"
    await eventually(lambda: _is_told(api, "held", "WaitsForGroups", "whole group"))
    await eventually(lambda: _is_gated(api, "held"))
    printed = " ".join((await topo(await holder.url(), "why", "held")).split())
    assert "it takes no quota of Kueue meanwhile" in printed

    await api.create(BATCH_JOBS, queued(batch_job("single", 8), "training"))
    await eventually(lambda: _is_bound(api, "single", 8))
    await api.delete(f"{BATCH_JOBS}/single")

    for name in takers:
        await api.delete(f"{PODS}/{name}")
    await eventually(lambda: _has_gates(api, "held", OTHER))
    assert await nodes_of(api, "held") == []
    await api.merge(f"{BATCH_JOBS}/held", {"metadata": {"annotations": {ADMISSION_GATED_BY: None}}})
    await eventually(lambda: _is_bound(api, "held", 4))
    assert split(world, await nodes_of(api, "held"), 2) == []
    holder.program.must_live()


async def test_a_check_books_whole_groups_pins_the_pods_and_is_tried_again_when_one_breaks(
    api: Api, master: AdmissionMaster, world: World
) -> None:
    """Somebody else's check keeps the job from starting meanwhile."""
    await plain_flavor(api)
    for name, controller in (("topo", WORDS.whole_groups), ("somebody", OTHER)):
        await api.create(CHECKS, check(name, controller))
    await api.merge(f"{CHECKS}/somebody/status", {"status": {"conditions": [ACTIVE]}})
    checks = {"admissionChecks": [{"name": "topo"}, {"name": "somebody"}]}
    await open_queue(api, "checked", PLAIN, 64, admissionChecksStrategy=checks)
    await api.create(BATCH_JOBS, queued(batch_job("pinned", 4, 16), "checked"))
    await eventually(lambda: _is_in(api, "pinned", "Ready"))
    box = booked_box(await entry_of(api, "pinned"))
    assert box in (await entry_of(api, "pinned"))["message"]

    homes = {str(host.name): str(host.switchbox) for host in world.nodes}
    for node in (each for each, home in homes.items() if home == box):
        await api.merge(f"{NODES}/{node}", {"spec": {"unschedulable": True}})
    await eventually(lambda: _is_booked_elsewhere(api, "pinned", box))
    await eventually(lambda: _is_bound_once_somebody_is_ready(api, "pinned", 4))
    nodes = await nodes_of(api, "pinned")
    assert split(world, nodes, 2) == []
    assert box not in {homes[node] for node in nodes}
    pods = await api.items(PODS)
    assert all(WORDS.booking in pod["metadata"]["annotations"] for pod in pods)

    large = batch_job("large", 4, 32)
    large["spec"]["template"]["metadata"]["annotations"][WORDS.within] = "dragonfly"
    await api.create(BATCH_JOBS, queued(large, "checked"))
    await eventually(lambda: _is_deactivated(api, "large", "if not in one dragonfly"))
    await api.create(BATCH_JOBS, queued(batch_job("free", 1, gpus=1), "checked"))
    await eventually(lambda: _is_in(api, "free", "Ready"))
    assert "none of its pods" in (await entry_of(api, "free"))["message"]
    master.program.must_live()


async def _is_bound_once_somebody_is_ready(api: Api, job: str, pods: int) -> bool:
    """The other check says Ready, again where Kueue took it back, and over nobody's later word."""
    found = await workload_of(api, job)
    ready = {"name": "somebody", "state": "Ready", "message": "", **SINCE}
    entries = found["status"].get("admissionChecks", [])
    if any(each["name"] == "somebody" and each["state"] != "Ready" for each in entries):
        others = [each for each in entries if each["name"] != "somebody"]
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        change = {"metadata": version, "status": {"admissionChecks": [*others, ready]}}
        try:
            await api.merge(f"{WORKLOADS}/{found['metadata']['name']}/status", change)
        except ApiError as error:
            if error.status != HTTPStatus.CONFLICT:
                raise
    return await _is_bound(api, job, pods)


async def test_a_master_changes_nothing_else_of_jobs_and_workloads(
    api: Api, cluster: Cluster
) -> None:
    """The chart's admission policy refuses it, whatever its role allows."""
    for kind, path in POLICIES.items():
        await api.create(path, copy.deepcopy(one(golden(RENDERING), kind, POLICY)))
    await api.namespace(NAMESPACE)
    rights = [copy.deepcopy(each) for _, each in rules(golden(RENDERING), MASTER)]
    await service_account(api, NAMESPACE, MASTER, rights)
    await api.create(CHECKS, check("somebody", OTHER))
    await plain_flavor(api)
    await open_queue(api, "training", PLAIN, 64)
    ours, third = WORDS.whole_groups, "example.com/licence"
    for name, names in (("held", f"{OTHER},{ours},{third}"), ("theirs", f"{OTHER},{third}")):
        gated = {ADMISSION_GATED_BY: names}
        await api.create(BATCH_JOBS, queued(batch_job(name, 4), "training", **gated))
        await eventually(partial(_has_workload, api, name))
    found = await workload_of(api, "held")
    theirs = f"{BATCH_JOBS}/theirs"
    job, workload = f"{BATCH_JOBS}/held", f"{WORKLOADS}/{found['metadata']['name']}"
    condition = {**ACTIVE, "type": "Admitted"}
    entry = {"name": "topo", "state": "Pending", "message": "", **SINCE}
    access = await account_access(cluster, NAMESPACE, MASTER)
    async with cluster.api(access) as account:
        for path, change in (
            (job, {"metadata": {"annotations": {"example.com/a": "b"}}}),
            (job, {"metadata": {"labels": {"example.com/a": "b"}}}),
            (job, {"spec": {"suspend": False}}),
            (f"{workload}/status", {"status": {"conditions": [condition]}}),
            (f"{CHECKS}/somebody/status", {"status": {"conditions": [ACTIVE]}}),
            *((job, _gated_by(names)) for names in (None, "", OTHER, third, f"{third},{OTHER}")),
            *((job, _gated_by(names)) for names in (f"{ours},{OTHER},{third}", ours)),
            (job, _gated_by(f"{OTHER},{ours},{third},example.com/new")),
            *((theirs, _gated_by(names)) for names in (None, "", OTHER, third, ours)),
        ):
            await eventually(partial(_is_refused, account, path, change))
        assert not await refused(account.merge(job, _gated_by(f"{OTHER},{third}")))
        for left in (None, OTHER):
            assert await _is_refused(account, job, _gated_by(left)), "it holds our name no more"
        status = {"status": {"admissionChecks": [entry]}}
        assert not await refused(account.merge(f"{workload}/status", status))


def _gated_by(names: str | None) -> Any:
    """A change of who holds a job before its quota."""
    return {"metadata": {"annotations": {ADMISSION_GATED_BY: names}}}


SINCE = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
ACTIVE = {"type": "Active", "status": "True", "reason": "Active", "message": "", **SINCE}


def check(name: str, controller: str) -> Any:
    head = {"apiVersion": f"{GROUP}/v1beta2", "kind": "AdmissionCheck"}
    return {**head, "metadata": {"name": name}, "spec": {"controllerName": controller}}


async def workload_of(api: Api, job: str) -> Any:
    """The workload of a job; empty before there is one."""
    for each in await api.items(WORKLOADS):
        if any(owner["name"] == job for owner in each["metadata"].get("ownerReferences", ())):
            return each
    return {}


async def entry_of(api: Api, job: str) -> Any:
    """What our check says of a job; empty before it says anything."""
    entries = (await workload_of(api, job)).get("status", {}).get("admissionChecks", ())
    return next((each for each in entries if each["name"] == "topo"), {})


def booked_box(entry: Any) -> str:
    """The switchbox that the pods are kept to; empty where there is none."""
    updates = entry.get("podSetUpdates", ())
    labels = [update["nodeSelector"][f"{WORDS.domain}/switchbox"] for update in updates]
    return str(labels[0]) if labels else ""


async def _is_reviewed(api: Api, job: Any) -> bool:
    """Whether each API server knows the webhook by now."""
    made = await api.call("POST", BATCH_JOBS, copy.deepcopy(job), dryRun="All")
    return WORDS.pods in str(made)


async def _has_workload(api: Api, job: str) -> bool:
    return bool(await workload_of(api, job))


async def _is_in(api: Api, job: str, state: str) -> bool:
    return bool((await entry_of(api, job)).get("state") == state)


async def _is_refused(account: Api, path: str, change: Any) -> bool:
    """Tried without effect: a change that once got through would be none the next time."""
    call = account.call("PATCH", path, change, content_type=MERGE, dryRun="All")
    return await refused(call)


async def _is_gated(api: Api, job: str) -> bool:
    return (await conditions(api, job)).get("QuotaReserved") == "False"


async def _is_deactivated(api: Api, job: str, why: str) -> bool:
    found = await workload_of(api, job)
    return found.get("spec", {}).get("active") is False and why in str(found["status"])


async def _is_booked_elsewhere(api: Api, job: str, box: str) -> bool:
    return booked_box(await entry_of(api, job)) not in {"", box}


async def _is_told(api: Api, job: str, reason: str, text: str) -> bool:
    return text in (await events_of(api, job)).get(reason, "")


async def _has_gates(api: Api, job: str, wanted: str) -> bool:
    return await gates(api, job) == wanted


async def _is_bound(api: Api, job: str, pods: int) -> bool:
    nodes = await nodes_of(api, job)
    return len(nodes) == pods and all(nodes)

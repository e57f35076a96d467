"""Which ResourceQuota keeps the missing pods of a gang away."""

import asyncio
from typing import Any

import orjson
import pytest

from master.controllers.nomination.status.exhausted_quota import exhausted_quota
from master.kube.decoding import decode
from master.kube.objects import QUOTAS, QuotaObject
from tests.controllers.nomination.gang_world import gang_world
from tests.gangs.jobs import dragonflies, job
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Gang, GangId
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time
GPU = "metax-tech.com/gpu"


def a_gang() -> Gang:
    """Pods of 8 GPUs in the namespace `jobs`."""
    cluster = Cluster(dragonflies(1))
    cluster.submit(job("a", 2))
    return cluster.seen(GangId("a")).gang


def quota(
    hard: dict[str, str], used: dict[str, str], namespace: str = "jobs", **spec: Any
) -> QuotaObject:
    metadata = {"name": "gpus", "namespace": namespace}
    status = {"hard": hard, "used": used}
    return decode(QuotaObject, orjson.dumps({"metadata": metadata, "spec": spec, "status": status}))


@pytest.mark.parametrize(
    ("hard", "used", "named"),
    [
        ({f"requests.{GPU}": "12"}, {f"requests.{GPU}": "8"}, f"requests.{GPU} 8 of 12"),
        ({f"requests.{GPU}": "16"}, {f"requests.{GPU}": "8"}, ""),
        ({f"requests.{GPU}": "0"}, {}, f"requests.{GPU} 0 of 0"),
        ({"pods": "4"}, {"pods": "4"}, "pods 4 of 4"),
        ({"pods": "4"}, {"pods": "3"}, ""),
        ({"requests.cpu": "4"}, {"requests.cpu": "3900m"}, ""),
        ({"requests.cpu": "4"}, {"requests.cpu": "4"}, "requests.cpu 4 of 4"),
        ({"services": "1"}, {"services": "1"}, ""),
    ],
)
def test_a_quota_without_room_for_another_pod_is_named_with_its_numbers(
    hard: dict[str, str], used: dict[str, str], named: str
) -> None:
    text = f"ResourceQuota jobs/gpus has no room for another pod: {named}"
    assert exhausted_quota(a_gang(), (GPU,), [quota(hard, used)]) == (text if named else "")


def test_quotas_of_other_namespaces_and_of_some_pods_only_are_left_out() -> None:
    full = {"pods": "1"}
    found = [
        quota(full, full, namespace="others"),
        quota(full, full, scopes=["BestEffort"]),
        quota(full, full, scopeSelector={"matchExpressions": []}),
    ]
    assert exhausted_quota(a_gang(), (GPU,), found) == ""


async def test_a_gang_with_missing_pods_names_the_quota() -> None:
    async with gang_world() as world:
        world.add_pod(0)
        used = {"hard": {"pods": "1"}, "used": {"pods": "1"}}
        world.api.add(QUOTAS, "few", metadata={"namespace": "jobs"}, spec={}, status=used)
        await asyncio.sleep(10)
        (found,) = [status for _, status in world.nomination.status.nomination.all()]
        assert found.state is GangState.PODS_MISSING
        assert found.text == (
            "1 of 2 pods are there; rank 1 is missing; "
            "ResourceQuota jobs/few has no room for another pod: pods 1 of 1"
        )

"""Which pods a scheduler may evict for a gang."""

from typing import Any

import pytest

from master.controllers.nomination.evictable import evictable_pods
from master.controllers.nomination.gangs.builder import build_gang
from tests.controllers.nomination.objects import GANG, GROUP, gang_context, parse, pod
from topo.gangs.annotation_keys import POD_GROUP, PREEMPTABLE

GPU = "metax-tech.com/gpu"
GROUPS = {
    ("jobs", name): GROUP.validate_python(
        {"metadata": {"name": name, "namespace": "jobs"}, "spec": {"queue": queue}}
    )
    for name, queue in (("train-job-1", "q1"), ("same", "q1"), ("other", "q2"))
}


def bound(name: str, *, group: str = "", priority: int = 1, **more: Any) -> Any:
    annotations = {**({POD_GROUP: group} if group else {}), **more.pop("annotations", {})}
    owner = {"apiVersion": "v1", "kind": more.pop("kind", "Job"), "name": f"of-{name}"}
    container = {"name": "main", "resources": {"limits": {GPU: more.pop("gpus", "8")}}}
    return parse(
        {
            "metadata": {
                "name": name,
                "namespace": "jobs",
                "uid": name,
                "annotations": annotations,
                "ownerReferences": [{**owner, "uid": f"u-{name}", "controller": True}],
            },
            "spec": {"nodeName": "n1", "priority": priority, "containers": [container], **more},
            "status": {"phase": "Running"},
        }
    )


PODS = [
    bound("same-queue", group="same"),
    bound("kept", group="same", annotations={PREEMPTABLE: "false"}),
    bound("other-queue", group="other"),
    bound("plain"),
    bound("of-a-deployment", kind="ReplicaSet"),
    bound("as-high", group="same", priority=5),
    bound("without-gpus", group="same", gpus="0"),
    bound("waiting", group="same", nodeName=""),
]


def units(*, volcano: bool, below: int = 5) -> list[tuple[str, str]]:
    own = [pod(index, group="train-job-1" if volcano else "") for index in range(2)]
    gang = build_gang(GANG, own, gang_context(*GROUPS.values()))
    pods = {(each.metadata.namespace, each.metadata.name): each for each in (*own, *PODS)}
    found = evictable_pods(gang, pods, GROUPS, below=below)
    return [(each.owner.split("/")[2], each.unit) for each in found]


def test_volcano_evicts_pods_of_lower_priority_of_its_jobs_in_the_gangs_queue():
    assert units(volcano=True) == [("same-queue", "jobs/of-same-queue")]


def test_kube_scheduler_evicts_any_pod_of_lower_priority():
    assert units(volcano=False) == [
        ("same-queue", "jobs/of-same-queue"),
        ("kept", "jobs/of-kept"),
        ("other-queue", "jobs/of-other-queue"),
        ("plain", "jobs/of-plain"),
        ("of-a-deployment", "jobs/of-a-deployment"),
    ]


def test_nobody_of_the_gangs_own_priority_is_evicted():
    assert units(volcano=False, below=1) == []


@pytest.mark.parametrize("policy", ["", "PreemptLowerPriority", "Never"])
def test_a_pod_that_preempts_nobody_has_its_gang_wait(policy: str):
    pods = [pod(0), pod(1, preemptionPolicy=policy)]
    assert build_gang(GANG, pods, gang_context()).preempts is (policy != "Never")

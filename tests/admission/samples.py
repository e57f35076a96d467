"""One object of every kind that the webhook judges, rich in fields, and rules that use all of them.

The objects ask for groups, are in a queue of Kueue, have owners, claims, gates, gang names and old
stamps, so that a change at any place meets code that reads it.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tests.gangs.admission.patching import DOMAIN, RULES, batch, sample
from tests.gangs.job_kinds.made import job, pod_template, replicated, roles
from tests.gangs.native.test_native import BOXES, PAIRS
from topo.gangs.admission.outcome import ClaimedGpus, NamedGroup, Rules
from topo.gangs.job_kinds.deployment import DEPLOYMENT
from topo.gangs.job_kinds.job_set import JOB_SET
from topo.gangs.job_kinds.leader_worker_set import LEADER_WORKER_SET
from topo.gangs.job_kinds.ray_cluster import RAY_CLUSTER
from topo.gangs.job_kinds.ray_job import RAY_JOB
from topo.gangs.job_kinds.stateful_set import STATEFUL_SET
from topo.gangs.job_kinds.train_job import TRAIN_JOB
from topo.gangs.job_kinds.training_operator import MPI_JOB, PYTORCH_JOB
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.model.ids import DRAGONFLY, SWITCHBOX

OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-1", "controller": True}
LABELS = {DRAGONFLY: f"{DOMAIN}/dragonfly", SWITCHBOX: f"{DOMAIN}/switchbox"}
_SLICES = {
    "kueue.x-k8s.io/podset-slice-required-topology": f"{DOMAIN}/dragonfly",
    "kueue.x-k8s.io/podset-slice-size": "2",
}
_KNOWN = replace(RULES, tiers=(PAIRS, BOXES), label_keys=LABELS)


def _named(_namespace: str, name: str) -> NamedGroup | None:
    """A PodGroup of Kubernetes that asks for pairs, where its name is as it was."""
    return NamedGroup({RULES.keys.size: "16"}, 4) if name == "group" else None


def _claimed(_namespace: str, name: str) -> ClaimedGpus | None:
    return ClaimedGpus(8) if name == "gpus" else None


RULE_SETS: Mapping[str, Rules] = {
    "nomination": _KNOWN,
    "native": replace(_KNOWN, way=Way.NATIVE, holds_jobs=True, native_group=lambda _: 2),
    "groups": replace(_KNOWN, makes_groups=True, named_group=_named, takes_requests=True),
    "links": replace(
        _KNOWN,
        by_links=True,
        named_group=_named,
        claim_template=_claimed,
        shared_claim=_claimed,
        has_old_pods=lambda _namespace, _workload: True,
    ),
}


def _template() -> dict[str, Any]:
    """A template of pods of 8 GPUs that were stamped, sliced and gated before."""
    made = pod_template(8, gpu_group_size="16", gang_name="crew", gang_pods="8")
    made["metadata"]["annotations"] |= _SLICES
    made["metadata"]["labels"] = {"app": "train", f"{DOMAIN}/gang": "1"}
    container = made["spec"]["containers"][0]
    made["spec"] |= {
        "initContainers": [copy.deepcopy(container)],
        "overhead": {"cpu": "1"},
        "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "gpus"}],
        "nodeSelector": {"a": "b"},
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}},
        "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}],
        "schedulerName": "default-scheduler",
        "schedulingGroup": {"podGroupName": "group"},
    }
    return made


def _rich(found: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """The job in a queue, with an owner and annotations that admission reads or has written."""
    annotations = {
        f"{DOMAIN}/gpu-group-size": "16",
        f"{DOMAIN}/gpu-group-within": "switchbox",
        f"{DOMAIN}/wait": "60",
        "kueue.x-k8s.io/admission-gated-by": "other",
        "alpha.jobset.sigs.k8s.io/exclusive-topology": "rack",
        "leaderworkerset.sigs.k8s.io/exclusive-topology": "rack",
        "consume-provisioning-request": "wish",
    }
    found["metadata"] = {
        **found["metadata"],
        "namespace": "default",
        "uid": "u-0",
        "labels": {"kueue.x-k8s.io/queue-name": "q"},
        "annotations": found["metadata"].get("annotations", {}) | annotations,
        "ownerReferences": [{**OWNER, "kind": "TrainJob"}],
    }
    found["spec"] |= spec
    _fill(found["spec"])
    return found


def _fill(value: Any) -> None:
    """Put the full template into the place of each template of pods."""
    for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(each, dict) and "containers" in each.get("spec", {}):
            value[key] = _template()
        elif isinstance(each, dict | list):
            _fill(each)


def _jobs() -> dict[str, dict[str, Any]]:
    leader = {"leaderTemplate": pod_template(), "workerTemplate": pod_template(), "size": 4}
    workers = [{"groupName": "g", "replicas": 4, "numOfHosts": 2, "template": pod_template()}]
    ray = {"headGroupSpec": {"template": pod_template(0)}, "workerGroupSpecs": workers}
    depends = [{"name": "a", "status": "Ready"}]
    sets = [replicated("a", 1, 4), replicated("b", 2, 4, dependsOn=depends)]
    ends = {"operator": "All", "targetReplicatedJobs": ["a"]}
    order = {"startupPolicyOrder": "InOrder"}
    resources = {"limits": {f"{DOMAIN}/gpu": "8"}}
    trainer = {"numNodes": 8, "resourcesPerNode": resources}
    patches = [{"manager": "other", "trainingRuntimeSpec": {}}]
    stopped = {"suspend": True}
    return {
        "volcano-job": _rich(sample(), queue="q"),
        "job": _rich(batch(8), podReplacementPolicy="Failed", suspend=True),
        "jobset": _rich(
            job(JOB_SET, {"replicatedJobs": sets}),
            successPolicy=ends,
            startupPolicy=order,
            suspend=True,
        ),
        "trainjob": _rich(job(TRAIN_JOB, {"trainer": trainer, "runtimePatches": patches})),
        "leaderworkerset": _rich(
            job(LEADER_WORKER_SET, {"replicas": 2, "leaderWorkerTemplate": leader}),
            startupPolicy="LeaderReady",
        ),
        "statefulset": _rich(job(STATEFUL_SET, {"replicas": 8, "template": pod_template()})),
        "deployment": _rich(job(DEPLOYMENT, {"replicas": 8, "template": pod_template()})),
        "raycluster": _rich(job(RAY_CLUSTER, copy.deepcopy(ray))),
        "rayjob": _rich(job(RAY_JOB, {"rayClusterSpec": copy.deepcopy(ray)})),
        "pytorchjob": _rich(
            roles(PYTORCH_JOB, "pytorchReplicaSpecs", Master=1, Worker=8), runPolicy=stopped
        ),
        "mpijob": _rich(roles(MPI_JOB, "mpiReplicaSpecs", Launcher=1, Worker=8), runPolicy=stopped),
    }


JOBS: Mapping[str, dict[str, Any]] = _jobs()
"""A job of each kind, by the name of its row."""


def _pod(**owner: Any) -> dict[str, Any]:
    template = _template()
    stamped = Stamp(pods=8, rank_offset=0, pods_per_group=2).annotations(RULES.keys)
    template["metadata"]["annotations"] |= stamped | {
        f"{DOMAIN}/gang-kind": "jobset",
        "kueue.x-k8s.io/workload": "w",
        "consume-provisioning-request": "wish",
    }
    template["metadata"]["labels"] |= {
        "batch.kubernetes.io/job-completion-index": "0",
        "jobset.sigs.k8s.io/jobset-uid": "u-0",
        "jobset.sigs.k8s.io/jobset-name": "train",
    }
    metadata = {"name": "pod", "namespace": "default", "uid": "p-1", **template["metadata"]}
    if owner:
        metadata["ownerReferences"] = [owner, {**OWNER, "controller": False}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


POD_GROUP = {
    "apiVersion": "scheduling.volcano.sh/v1beta1",
    "kind": "PodGroup",
    "metadata": {
        "name": "group",
        "ownerReferences": [OWNER],
        "annotations": {
            **Stamp(pods=8, rank_offset=0, pods_per_group=2).annotations(RULES.keys),
            RULES.keys.size: "16",
            RULES.keys.way: Way.NATIVE.value,
        },
    },
    "spec": {"minMember": 8, "subGroupPolicy": [], "networkTopology": {}},
}
OBJECTS: Mapping[str, dict[str, Any]] = {
    **JOBS,
    "pod": _pod(**OWNER),
    "pod-alone": _pod(),
    "pod-group": POD_GROUP,
}
SCALE = {
    "apiVersion": "autoscaling/v1",
    "kind": "Scale",
    "metadata": {"name": "train", "namespace": "default", "uid": "u-0"},
    "spec": {"replicas": 8},
}

"""Objects of a cluster with gangs, as the API server gives them, in few words."""

from typing import Any

from pydantic import TypeAdapter

from master.controllers.nomination.gangs.context import GangContext
from master.controllers.nomination.status.status_store import StatusStore
from master.kube.gang_pod import ClusterPod
from master.kube.objects import NodeObject, PodObject
from master.kube.schedulers.volcano import PodGroupObject, QueueObject
from master.sources.kubernetes.pods import PodParser
from tests.support.kubernetes import node_manifest
from topo.gangs.annotation_keys import POD_GROUP, TASK_INDEX, AnnotationKeys
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.gangs.machine.gang import Gang, GangId, gang_of_owner
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.placement.job.policy import Policy

WORDS = AnnotationKeys("metax-tech.com")
GPU = "metax-tech.com/gpu"
POD, NODE = TypeAdapter(PodObject), TypeAdapter(NodeObject)
GROUP, QUEUE = TypeAdapter(PodGroupObject), TypeAdapter(QueueObject)
JOB = {
    "apiVersion": JOB_KINDS[0].api_version,
    "kind": JOB_KINDS[0].kind,
    "name": "train",
    "uid": "job-1",
    "controller": True,
}


def gang_of_job(uid: str = "job-1", namespace: str = "jobs") -> GangId:
    """The gang of the job of this uid, whose pods `pod` and `gated_pod` make."""
    return gang_of_owner(namespace, JOB_KINDS[0].api_version, JOB_KINDS[0].kind, uid)


GANG = gang_of_job()
LABEL = WORDS.node_label_prefix + GANG
"""The label of its nodes."""
PAIR = Stamp(pods=2, rank_offset=0, pods_per_group=2)
CREATED = "2026-01-02T03:04:05Z"
CREATED_S = 1767323045.0


def gated_pod(
    rank: int, stamp: Stamp, *, uid: str = "job-1", group: str = "", **asked: str
) -> dict[str, Any]:
    """Metadata and spec of a gated pod of a job, as the API server has them.

    It is of the PodGroup `group` of Volcano, if that is named.
    """
    annotations = {
        WORDS.size: "16",
        **stamp.annotations(WORDS),
        "batch.kubernetes.io/job-completion-index": str(rank),
        **({POD_GROUP: group} if group else {}),
        **asked,
    }
    metadata = {
        "namespace": "jobs",
        "annotations": annotations,
        "ownerReferences": [{**JOB, "uid": uid}],
        "creationTimestamp": CREATED,
    }
    container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
    spec = {"schedulingGates": [{"name": WORDS.gate}], "containers": [container]}
    return {"metadata": metadata, "spec": spec}


def parse(document: Any, way: Way = Way.NOMINATION) -> ClusterPod:
    """A pod as the store takes it in; `way` counts where it names none."""
    return PodParser(Policy(), WORDS, way).parse(POD.validate_python(document))


def pod(
    index: int,
    *,
    stamp: Stamp | None = PAIR,
    size: str = "16",
    gpus: int = 8,
    gates: tuple[str, ...] = (WORDS.gate,),
    annotations: dict[str, str] | None = None,
    owners: tuple[dict[str, Any], ...] = (JOB,),
    group: str = "train-job-1",
    version: str = "7",
    status: dict[str, Any] | None = None,
    way: Way = Way.NOMINATION,
    **spec: Any,
) -> Any:
    """A pod of the job `train`, as the webhook leaves it; of no PodGroup where that is empty."""
    stamped = stamp.annotations(WORDS) if stamp is not None else {}
    asked = {WORDS.size: size} if size else {}
    return parse(
        {
            "metadata": {
                "name": f"train-worker-{index}",
                "namespace": "jobs",
                "uid": f"pod-{index}",
                "resourceVersion": version,
                "creationTimestamp": CREATED,
                "ownerReferences": list(owners),
                "annotations": {
                    TASK_INDEX: str(index),
                    **({POD_GROUP: group} if group else {}),
                    **asked,
                    **stamped,
                    **(annotations or {}),
                },
            },
            "spec": {
                "schedulerName": "volcano",
                "schedulingGates": [{"name": each} for each in gates],
                "containers": [{"name": "main", "resources": {"limits": {GPU: str(gpus)}}}],
                **spec,
            },
            "status": {"phase": "Pending", **(status or {})},
        },
        way,
    )


def labelled_node(name: str, **labels: str) -> NodeObject:
    return NODE.validate_python(node_manifest(name, metadata={"labels": labels}))


def pod_group(
    phase: str,
    *,
    minimum: int = 2,
    topology: Any = None,
    groups: Any = (),
    why: str = "",
    **spec: Any,
) -> PodGroupObject:
    return GROUP.validate_python(
        {
            "metadata": {"name": "train-job-1", "namespace": "jobs"},
            "spec": {
                "minMember": minimum,
                "queue": "q1",
                "networkTopology": topology,
                "subGroupPolicy": list(groups),
                **spec,
            },
            "status": {"phase": phase, "conditions": [{"message": why}] if why else []},
        }
    )


def queue(name: str, **fields: Any) -> QueueObject:
    status = fields.pop("status", {"state": "Open"})
    return QUEUE.validate_python({"metadata": {"name": name}, "spec": fields, "status": status})


def gang_context(*groups: PodGroupObject, **more: Any) -> GangContext:
    """The context of gangs: these PodGroups, and nothing else but what is given."""
    by_key = {(each.metadata.namespace, each.metadata.name): each for each in groups}
    known: dict[str, Any] = {
        "keys": WORDS,
        "nodes": lambda: (),
        "pod_groups": lambda: by_key,
        "scheduling_groups": lambda: None,
        "composite_groups": lambda: None,
        "kind_of_label": lambda _: None,
        "tier_of_kind": lambda _: None,
        "missing_quota": lambda _: None,
        "kind_of_tier": lambda _: None,
        "labelled": lambda _: {},
        "holds": lambda _: {},
        "devices": lambda _: (),
        "volume_nodes": lambda _: (),
        "missing_volume": lambda _: "",
        "ended": lambda _: (),
    }
    return GangContext(**{**known, **more})


async def no_advice(_gang: Gang, _text: str) -> str:
    """Nothing would let it in."""
    return ""


def status_store(**given: Any) -> StatusStore:
    """A store that writes nowhere and stands at time 0."""
    return StatusStore(
        **{
            "advise": no_advice,
            "write": lambda *_: None,
            "compare": lambda *_: None,
            "recall": lambda _: None,
            "clock": lambda: 0.0,
            "now": lambda: 0.0,
            **given,
        }
    )

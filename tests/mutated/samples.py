"""Objects that users and other controllers write, one or more of each kind that is read here.

They are the examples of the repository, what the webhook makes of them, and the pods of each kind
of job as its controller makes them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from tests.gangs.admission.patching import RULES, WORDS, batch, sample, task
from tests.gangs.native.test_native import BOXES, PAIRS
from tests.tenancy.jobs import KINDS, Wish, admitted_pod, reviewed
from topo.gangs.annotation_keys import CONSUMES, KUEUE_WORKLOAD
from topo.gangs.job_kinds import kinds
from topo.gangs.machine.gang import GangId, Note, Selection
from topo.gangs.note_codec import encode_note, encode_unplanned
from topo.gangs.stamp import Stamp
from topo.gangs.terms import Way
from topo.model.ids import NodeName
from topo.placement.booking.holds import HoldId

Document = dict[str, Any]
KNOWN = replace(RULES, tiers=(PAIRS, BOXES))
"""The rules of a master that knows the tiers of Volcano."""
ROOT = Path(__file__).parents[2]
WILD = ROOT.parent / "shared" / "data" / "wild4"
"""Objects found in the wild, which not every checkout has."""
_JOBS = {(each.api_version, each.kind) for each in kinds.JOB_KINDS}


def of_examples() -> Iterator[Document]:
    """The objects of the examples."""
    for path in sorted((ROOT / "examples" / "jobs").glob("*.yaml")):
        yield from filter(None, yaml.safe_load_all(path.read_text(encoding="utf-8")))


def of_the_wild() -> Iterator[Document]:
    """The objects that were found in the wild; none in a checkout without them."""
    for path in sorted(WILD.glob("*.yaml")) if WILD.is_dir() else ():
        found = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(found, dict) and "kind" in found:
            yield found


def pods() -> Iterator[Document]:
    """Pods of each kind of job, waiting, planned, opened, running and over."""
    for name, make in KINDS.items():
        job = make(Wish(namespace="jobs", name=f"of-{name}", pods=4))
        for rank, pod in job.pods.values():
            made = _as_pod(admitted_pod(pod))
            yield made
            yield _noted(made, rank)
    yield from map(_as_pod, consumers())


def _as_pod(pod: Document) -> Document:
    metadata = {"uid": f"uid-{pod['metadata']['name']}", **pod["metadata"]}
    metadata |= {"resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z"}
    return {
        **pod,
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "status": {"phase": "Pending"},
    }


def _noted(pod: Document, rank: int) -> Document:
    """The same with what a master writes on it."""
    hold = HoldId("hold-1")
    note = Note(NodeName(f"node-{rank + 1}"), rank // 2, hold, Selection(hold), 1, certified=True)
    owner = next(iter(pod["metadata"].get("ownerReferences", [])), {"uid": "x"})
    annotations = {**pod["metadata"]["annotations"]}
    annotations[WORDS.placement] = (
        encode_note(GangId(owner["uid"]), note) if rank else encode_unplanned("somebody wants it")
    )
    annotations[WORDS.hold] = hold
    spec = {**pod["spec"], "schedulingGates": []}
    spec["nodeSelector"] = {WORDS.node_label_prefix + owner["uid"]: hold}
    if rank == 3:
        spec["nodeName"] = "node-4"
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/8"}
    of_ours = {
        "type": WORDS.condition,
        "status": "False",
        "reason": "NoRoom",
        "lastTransitionTime": "2026-01-02T03:04:06Z",
    }
    status = {"phase": "Pending", "nominatedNodeName": note.node, "conditions": [told, of_ours]}
    metadata = {**pod["metadata"], "annotations": annotations}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}


def consumers() -> Iterator[Document]:
    """Pods that consume requests, of a PodGroup of Kubernetes, with claims and volumes."""
    of_name, of_class = CONSUMES[0]
    body = task("", 0, 8)["template"]["spec"]
    body = {**body, "containers": [{"name": "main", **body["containers"][0]}]}
    for name, annotations, spec in (
        ("consumer", {of_name: "ask", of_class: WORDS.provisioning_class}, {}),
        ("queued", {KUEUE_WORKLOAD: "job-train", WORDS.size: "16"}, {}),
        (
            "grouped",
            {WORDS.of_pod_group: "own", WORDS.rank: "1", WORDS.size: "16"},
            {"schedulingGroup": {"podGroupName": "own"}},
        ),
        (
            "claiming",
            {WORDS.size: "16", WORDS.claimed_gpus: "8"},
            {
                "resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "gpus"}],
                "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
                "tolerations": [{"key": "metax-tech.com/usage", "operator": "Exists"}],
                "affinity": {
                    "nodeAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": {
                            "nodeSelectorTerms": [
                                {
                                    "matchExpressions": [
                                        {"key": "zone", "operator": "In", "values": ["a"]},
                                        {"key": "cpus", "operator": "Gt", "values": ["4"]},
                                    ]
                                }
                            ]
                        }
                    },
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {
                                "topologyKey": "rack",
                                "labelSelector": {
                                    "matchExpressions": [
                                        {
                                            "key": "jobset.sigs.k8s.io/job-key",
                                            "operator": "Exists",
                                        }
                                    ]
                                },
                            }
                        ]
                    },
                },
            },
        ),
    ):
        metadata = {"namespace": "jobs", "name": name, "annotations": annotations, "labels": {}}
        gates = [{"name": WORDS.gate}]
        yield {"metadata": metadata, "spec": {**body, "schedulingGates": gates, **spec}}


def groups_and_requests() -> Iterator[Document]:
    """PodGroups of Volcano and of Kubernetes, Workloads of Kueue, and requests for capacity."""
    stamp = Stamp(pods=8, rank_offset=0, pods_per_group=2).annotations(WORDS)
    asked = {**stamp, WORDS.size: "16", WORDS.way: Way.NATIVE.value}
    yield _made(
        "scheduling.volcano.sh/v1beta1",
        "PodGroup",
        "of-volcano-uid-of-jobs-of-volcano",
        {"minMember": 4, "queue": "default", "networkTopology": {"highestTierAllowed": 2}},
        {"phase": "Inqueue", "conditions": [{"type": "x", "message": "y"}]},
        annotations=asked,
    )
    policy = {"gang": {"minCount": 4}}
    constraints = {"topology": [{"key": "metax-tech.com/switchbox"}]}
    yield _made(
        "scheduling.k8s.io/v1beta1",
        "PodGroup",
        "own",
        {"schedulingPolicy": policy, "schedulingConstraints": constraints},
        {"conditions": []},
        annotations={WORDS.size: "16"},
    )
    template = {
        "metadata": {"annotations": {WORDS.size: "16"}},
        "spec": batch(4)["spec"]["template"]["spec"],
    }
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "uid-train"}
    since = {"lastTransitionTime": "2026-01-02T03:04:05Z"}
    yield _made(
        "kueue.x-k8s.io/v1beta2",
        "Workload",
        "job-train",
        {"podSets": [{"name": "main", "count": 4, "template": template}], "active": True},
        {
            "conditions": [{"type": "QuotaReserved", "status": "True", **since}],
            "admission": {"podSetAssignments": [{"name": "main", "flavors": {"gpu": "box"}}]},
            "admissionChecks": [{"name": "topo", "state": "Pending", "message": "", **since}],
        },
        ownerReferences=[{**owner, "controller": True}],
    )
    yield _made(
        "autoscaling.x-k8s.io/v1",
        "ProvisioningRequest",
        "ask",
        {
            "provisioningClassName": WORDS.provisioning_class,
            "podSets": [{"podTemplateRef": {"name": "worker"}, "count": 4}],
            "parameters": {"BookingSeconds": "60"},
        },
        {
            "conditions": [{"type": "Accepted", "status": "True", "reason": "x", **since}],
            "provisioningClassDetails": {"groups": "node-1:1"},
        },
    )
    made = _made("v1", "PodTemplate", "worker", {}, {})
    yield {**made, "template": template}
    yield _made("autoscaling/v1", "Scale", "train", {"replicas": 3}, {"replicas": 2})


def _made(
    version: str, kind: str, name: str, spec: Document, status: Document, **metadata: Any
) -> Document:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {
            "namespace": "jobs",
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "labels": {},
            "annotations": {},
            **metadata,
        },
        "spec": spec,
        "status": status,
    }


def all_samples() -> tuple[Document, ...]:
    """All of them: jobs as written and as stamped, pods, groups and requests."""
    written = [sample(), batch(8), *of_examples(), *of_the_wild()]
    jobs = [each for each in written if (each["apiVersion"], each["kind"]) in _JOBS]
    stamped = [reviewed(each, KNOWN) for each in jobs]
    return (*written, *stamped, *pods(), *groups_and_requests())

"""A cluster that several namespaces share: an API server, kubelets and two schedulers, as models.

Everything is an object of the API server. What schedulers and kubelets do follows from objects
alone, as in a real cluster, and nothing here knows of plans, holds or gangs.
"""

import copy
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from master.kube.objects import NODES, PODS, BareObject, Resource, collection_path
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from master.kube.schema.timestamps import timestamp
from tests.controllers.nomination.objects import GPU
from tests.kube.api_model import ApiModel, Stored
from tests.publish.forests import box, fly, forest, group
from tests.publish.forests import node as leaf
from tests.support.kubernetes import node_status
from tests.tenancy.jobs import Document, UserJob, admitted_pod
from topo.gangs.annotation_keys import POD_GROUP
from topo.model.forest import Forest
from topo.model.ids import NVLINK_DOMAIN

GPUS = 8
EPOCH_S = 1_800_000_000.0
"""The servers' Unix time when virtual time is 0."""
VICTIM_PRIORITY = 1000
EVIL = "evil"
NOMINATED = "nominatedNodeName"
_FINISHED = {"Succeeded", "Failed"}


@dataclass(frozen=True)
class Shape:
    """A forest, and the smallest group of each node."""

    tree: Forest
    homes: Mapping[str, str]
    group_pods: tuple[int, ...]
    """Pods of 8 GPUs of a group that fits into one of the smallest groups."""


def _shape(groups: Mapping[str, Sequence[str]], tree: Forest, *group_pods: int) -> Shape:
    homes = {name: at for at, names in groups.items() for name in names}
    return Shape(tree, homes, group_pods)


def vendor() -> Shape:
    """The vendor's manual: two switchboxes of two dragonflies of two nodes."""
    flies = {f"fly-{at}": [f"node-{2 * at + 1}", f"node-{2 * at + 2}"] for at in range(4)}
    boxes = [{f"fly-{at}": flies[f"fly-{at}"] for at in pair} for pair in ((0, 1), (2, 3))]
    return _shape(flies, forest(*(box(f"box-{at}", found) for at, found in enumerate(boxes))), 2)


def lone_nodes() -> Shape:
    """Groups of one node each."""
    flies = {f"fly-{at}": [f"node-{at}"] for at in range(6)}
    return _shape(flies, forest(*(fly(name, found) for name, found in flies.items())), 1)


def nvlink() -> Shape:
    """Two NVLink domains of four nodes."""
    domains = {f"domain-{at}": [f"node-{4 * at + n}" for n in range(4)] for at in range(2)}
    roots = [
        group(name, NVLINK_DOMAIN, 1, [leaf(each) for each in found])
        for name, found in domains.items()
    ]
    return _shape(domains, forest(*roots), 2, 4)


SHAPES = (vendor, lone_nodes, nvlink)


def gpus_of(pod: Mapping[str, Any]) -> int:
    """The GPUs of a pod."""
    found = 0
    for each in pod["spec"].get("containers", ()):
        text = str(each.get("resources", {}).get("limits", {}).get(GPU, "0"))
        found += int(text) if text.isdecimal() else 10**6
    return found


def is_gated(pod: Mapping[str, Any]) -> bool:
    """Whether a gate of anybody is on."""
    return bool(pod["spec"].get("schedulingGates"))


def node_of(pod: Mapping[str, Any]) -> str:
    """The node of a pod; empty for one that is not bound."""
    return str(pod["spec"].get("nodeName") or "")


def is_live(pod: Mapping[str, Any]) -> bool:
    """Whether a pod runs or will run."""
    phase = pod.get("status", {}).get("phase")
    return phase not in _FINISHED and "deletionTimestamp" not in pod["metadata"]


def takes(pod: Mapping[str, Any]) -> bool:
    """Whether a pod has GPUs of its node now."""
    return bool(node_of(pod)) and pod.get("status", {}).get("phase") not in _FINISHED


def annotations_of(pod: Mapping[str, Any]) -> Mapping[str, str]:
    """The annotations of a pod."""
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found


@dataclass
class SharedCluster:
    """Nodes and pods of everybody, and the jobs of the victims by namespace and name."""

    shape: Shape
    random: random.Random
    api: ApiModel = field(default_factory=ApiModel)
    jobs: dict[tuple[str, str], UserJob] = field(default_factory=dict)
    ranks: dict[str, tuple[tuple[str, str], int]] = field(default_factory=dict)
    """The job and the rank of each pod of a victim by its uid, as they were made."""
    clock: Callable[[], float] = lambda: 0.0
    extender: Callable[[Document, Sequence[str]], Sequence[str]] = lambda _, names: names
    """What kube-scheduler asks: returns which of the nodes may take a pod, the best first."""
    touched_s: dict[str, float] = field(default_factory=dict)
    """When a pod came or went on a node, or it was closed or opened, at last."""
    disturbed_s: dict[tuple[str, str], float] = field(default_factory=dict)
    """When a pod of a job was made or went, at last."""
    _made: int = 0
    _made_s: float = 0.0

    def __post_init__(self) -> None:
        large = {*sorted({*self.shape.homes.values()})[::2]}
        for name, home in sorted(self.shape.homes.items()):
            labels = {"kubernetes.io/hostname": name}
            labels |= {"disk": "large"} if home in large else {}
            metadata = {"labels": labels}
            self.api.add(NODES, name, metadata=metadata, spec={}, status=node_status(GPUS))
        self.api.add(QUEUES, "default", spec={}, status={"state": "Open"})

    def server_now(self) -> float:
        """The Unix time by the clock of the API server."""
        return EPOCH_S + self.clock()

    # What users do

    def submit(self, job: UserJob) -> None:
        """The job with all that its controllers make for it."""
        self.jobs[job.namespace, job.name] = job
        for version, plural, name, document in job.objects:
            fields = copy.deepcopy(document)
            metadata = {**fields.pop("metadata", {}), "name": name, "namespace": job.namespace}
            kind = str(fields.pop("kind", "PodGroup"))
            fields.pop("apiVersion", None)
            is_group = plural == POD_GROUPS.plural
            resource = POD_GROUPS if is_group else Resource(version, kind, plural, BareObject)
            self.api.add(resource, name, metadata=metadata, **fields)
        for name in job.pods:
            self.create(job, name)

    def create(self, job: UserJob, name: str) -> None:
        """The controller makes a pod, the webhook sees it."""
        self.disturbed_s[job.namespace, job.name] = self.clock()
        rank, pod = job.pods[name]
        made = admitted_pod(pod) if job.is_admitted else copy.deepcopy(pod)
        made["spec"]["priority"] = VICTIM_PRIORITY
        stored = self.add_pod(made)
        self.ranks[stored["metadata"]["uid"]] = ((job.namespace, job.name), rank)

    def add_pod(self, pod: Document) -> Document:
        """A new pod as it stands; a kubelet takes one that names its node, or fails it."""
        self._made += 1
        name = pod["metadata"]["name"]
        # No two of one second, so that it is certain which job came first.
        self._made_s = max(self._made_s + 1.0, self.server_now())
        stamp = timestamp(self._made_s)
        metadata = {**pod["metadata"], "creationTimestamp": stamp, "uid": f"uid-{self._made}"}
        node = node_of(pod)
        is_full = bool(node) and gpus_of(pod) > self.free(node)
        phase = "Failed" if is_full else "Running" if node else "Pending"
        if takes({**pod, "status": {"phase": phase}}):
            self.touched_s[node] = self.clock()
        spec = copy.deepcopy(pod["spec"])
        return self.api.add(
            PODS, name, metadata=metadata, spec=spec, status={"phase": phase}
        ).document

    def lose(self, pod: Document) -> None:
        """A pod dies, and its job makes it again."""
        key, _ = self.ranks[pod["metadata"]["uid"]]
        self.delete(pod)
        self.create(self.jobs[key], pod["metadata"]["name"])

    def end(self, key: tuple[str, str]) -> None:
        """A job is deleted with what was made for it."""
        job = self.jobs.pop(key)
        for pod in [*self.pods_of(key, job)]:
            self.delete(pod)
        for version, plural, name, document in job.objects:
            kind = str(document.get("kind", "PodGroup"))
            self.api.remove(Resource(version, kind, plural, BareObject), name, job.namespace)

    def delete(self, pod: Document) -> None:
        """A pod is gone; one with a finalizer stays, terminating."""
        metadata = pod["metadata"]
        if takes(pod):
            self.touched_s[node_of(pod)] = self.clock()
        if metadata.get("finalizers"):
            metadata.setdefault("deletionTimestamp", timestamp(self.server_now()))
            self.touch(pod)
        else:
            self.api.remove(PODS, metadata["name"], metadata["namespace"])

    def cordon(self, node: str, *, cordoned: bool) -> None:
        """Closes or opens a node."""
        self.api.edit(NODES, node, ("spec", "unschedulable"), cordoned or None)
        self.touched_s[node] = self.clock()

    def touch(self, pod: Document) -> None:
        """A pod that was changed by hand."""
        metadata = pod["metadata"]
        self.api.touch(collection_path(PODS, metadata["namespace"]), metadata["name"])

    # What there is

    def pods(self) -> list[Document]:
        """All pods."""
        return [
            stored.document for (at, _), stored in self.api.objects.items() if at.endswith("/pods")
        ]

    def pods_of(self, key: tuple[str, str], job: UserJob) -> Iterator[Document]:
        """The pods of a victim's job."""
        at = f"/api/v1/namespaces/{key[0]}/pods"
        for name in job.pods:
            stored: Stored | None = self.api.objects.get((at, name))
            if stored is not None:
                yield stored.document

    def evil_pods(self) -> list[Document]:
        """The pods of the hostile tenant."""
        return [pod for pod in self.pods() if pod["metadata"]["namespace"] == EVIL]

    def used(self) -> Counter[str]:
        """The GPUs that pods have on each node."""
        found: Counter[str] = Counter()
        for pod in self.pods():
            if takes(pod):
                found[node_of(pod)] += gpus_of(pod)
        return found

    def is_open(self, node: str) -> bool:
        """Whether pods may be bound to a node."""
        stored = self.api.objects.get((collection_path(NODES), node))
        return stored is not None and not stored.document["spec"].get("unschedulable")

    def free(self, node: str) -> int:
        """The GPUs of a node that no pod has; those of one that does not exist are none."""
        return GPUS - self.used()[node] if node in self.shape.homes else 0

    # What schedulers do

    def schedule(self) -> None:
        """One cycle of both."""
        waiting = [pod for pod in self.pods() if _waits(pod)]
        waiting.sort(key=lambda pod: -int(pod["spec"].get("priority", 0)))
        groups: dict[tuple[str, str], list[Document]] = {}
        for pod in waiting:
            scheduler = pod["spec"].get("schedulerName", "default-scheduler")
            if scheduler == "default-scheduler":
                self._schedule_one(pod)
            elif scheduler == "volcano":
                name = annotations_of(pod).get(POD_GROUP) or pod["metadata"]["uid"]
                groups.setdefault((pod["metadata"]["namespace"], name), []).append(pod)
        for key, pods in groups.items():
            self._schedule_group(key, pods)

    def _schedule_one(self, pod: Document) -> None:
        """kube-scheduler: respects nominations of pods of at least this priority."""
        kept: Counter[str] = Counter()
        priority = int(pod["spec"].get("priority", 0))
        for other in self.pods():
            is_other = other is not pod and int(other["spec"].get("priority", 0)) >= priority
            if is_other and is_live(other) and not node_of(other):
                kept[other["status"].get(NOMINATED, "")] += gpus_of(other)
        fit = self._fitting(pod, kept)
        allowed = self.extender(pod, fit) if fit else fit
        if allowed:
            self._bind(pod, allowed[0])
        else:
            self._refuse(pod)

    def _schedule_group(self, key: tuple[str, str], pods: Sequence[Document]) -> None:
        """Volcano: the pods of a PodGroup, `minMember` of them together."""
        namespace, name = key
        stored = self.api.objects.get((collection_path(POD_GROUPS, namespace), name))
        least = int(stored.document["spec"]["minMember"]) if stored is not None else 1
        running = sum(
            annotations_of(pod).get(POD_GROUP) == name
            and pod["metadata"]["namespace"] == namespace
            and takes(pod)
            for pod in self.pods()
        )
        taken: Counter[str] = Counter()
        chosen: list[tuple[Document, str]] = []
        for pod in pods:
            if fit := self._fitting(pod, taken):
                taken[fit[0]] += gpus_of(pod)
                chosen.append((pod, fit[0]))
            else:
                self._refuse(pod)
        if running + len(chosen) >= least:
            for pod, node in chosen:
                self._bind(pod, node)

    def _fitting(self, pod: Document, taken: Mapping[str, int]) -> list[str]:
        """The nodes that can take a pod, that of its nomination first, else in any order."""
        selector = (pod["spec"].get("nodeSelector") or {}).items()
        labels, used, gpus = self.api.labels(), self.used(), gpus_of(pod)
        fit = [
            node
            for node in self.shape.homes
            if self.is_open(node)
            and selector <= labels[node].items()
            and used[node] + taken.get(node, 0) + gpus <= GPUS
        ]
        self.random.shuffle(fit)
        nominated = pod["status"].get(NOMINATED)
        return sorted(fit, key=lambda node: node != nominated)

    def _bind(self, pod: Document, node: str) -> None:
        pod["spec"]["nodeName"] = node
        pod["status"] = {"phase": "Running"}
        self.touched_s[node] = self.clock()
        self.touch(pod)

    def _refuse(self, pod: Document) -> None:
        """The scheduler says why it binds a pod nowhere, once."""
        told = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": "0/8 nodes are available",
        }
        known = pod["status"].setdefault("conditions", [])
        if not any(each.get("type") == "PodScheduled" for each in known):
            known.append(told)
            self.touch(pod)


def _waits(pod: Mapping[str, Any]) -> bool:
    return is_live(pod) and not node_of(pod) and not is_gated(pod)

"""A small kube-scheduler: which pending pod goes to which node, one after the other.

It honours what the product relies on: gates, the scheduler's name, priorities, `nodeSelector`,
taints, every amount that a node states, and nominations. A pod that is nominated is tried on that
node first, and room that another pod of the same or a higher priority is nominated to counts as
taken. Else the node with the largest share of its GPUs free is taken, as `LeastAllocated` does: it
spreads, and knows no groups. A pod that fits nowhere loses its nomination and is tried again when
its own spec changed, a pod ended or a node changed. What is left out: affinity, volumes, claims and
preemption; a pod that asks for one of them is told so. Source: kubernetes.io, "Kubernetes
Scheduler"; `pkg/scheduler/backend/queue` and `framework/runtime` of v1.36.

Cost: a pass is O(pods to try x nodes), and O(pods to try) where all are bound as nominated.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.model.ids import natural_key
from topo.model.quantity import thousandths
from topo.sim.kubernetes.apiserver.resources import NODES
from topo.sim.kubernetes.apiserver.store import ObjectChange

NAME = "default-scheduler"
_PODS = "pods"
_GPU = "/gpu"
_ENDED = frozenset({"Succeeded", "Failed"})
_LEFT_OUT = ("affinity", "resourceClaims", "topologySpreadConstraints", "schedulingGroup")
PodKey = tuple[str, str]
"""The path of the collection and the name."""
Amounts = Mapping[str, int]
"""Thousandths of the unit of each resource."""


@dataclass(frozen=True, slots=True)
class PodOnQueue:
    """What is read of a pod."""

    spec: Mapping[str, Any]
    order: tuple[int, str, str]
    """Priority first, then age, then name."""
    requests: Amounts
    node: str
    nominated: str

    @property
    def waits(self) -> bool:
        """Whether it is this scheduler's to bind, now."""
        is_ours = self.spec.get("schedulerName", NAME) == NAME
        return is_ours and not self.node and not self.spec.get("schedulingGates")

    @property
    def priority(self) -> int:
        """The higher one goes first."""
        return -self.order[0]


@dataclass(frozen=True, slots=True)
class SchedulableNode:
    """What is read of a node."""

    allocatable: Amounts
    labels: Mapping[str, str]
    taints: tuple[Mapping[str, str], ...]
    is_closed: bool


@dataclass(frozen=True, slots=True)
class Bound:
    """A pod gets a node."""

    pod: PodKey
    node: str


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """A pod fits nowhere, and why."""

    pod: PodKey
    why: str


@dataclass(slots=True)
class SchedulerCache:
    """The nodes, the pods and what is in use, by the changes of a store."""

    nodes: dict[str, SchedulableNode] = field(default_factory=dict)
    pods: dict[PodKey, PodOnQueue] = field(default_factory=dict)
    to_try: set[PodKey] = field(default_factory=set)
    _used: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _nominated: defaultdict[str, set[PodKey]] = field(default_factory=lambda: defaultdict(set))
    _refused: set[PodKey] = field(default_factory=set)

    def observe(self, change: ObjectChange) -> None:
        """Take a change of the store in. O(1), and O(refused pods) where something came free."""
        is_gone = change.what == "DELETED"
        if change.collection == NODES.root:
            if is_gone:
                self.nodes.pop(change.name, None)
            else:
                self.nodes[change.name] = _node(change.document)
            self._retry()
        elif change.collection.endswith("/pods"):
            key = (change.collection, change.name)
            phase = change.document.get("status", {}).get("phase")
            self._set(key, None if is_gone or phase in _ENDED else _pod(change.document))

    def _set(self, key: PodKey, pod: PodOnQueue | None) -> None:
        before = self.pods.pop(key, None)
        if before is not None:
            self._used[before.node].subtract(before.requests)
            self._nominated[before.nominated].discard(key)
        if pod is None:
            self.to_try.discard(key)
            self._refused.discard(key)
            self._retry()
            return
        self.pods[key] = pod
        self._used[pod.node].update(pod.requests)
        self._nominated[pod.nominated].add(key)
        if not pod.waits:
            self.to_try.discard(key)
            self._refused.discard(key)
        elif key not in self._refused or before is None or before.spec != pod.spec:
            self.to_try.add(key)

    def _retry(self) -> None:
        self.to_try |= self._refused
        self._refused.clear()

    def decide(self) -> Iterator[Bound | Unschedulable]:
        """Yield a decision for each pod to try; the caller writes it before it takes the next."""
        for key in sorted(self.to_try, key=lambda key: self.pods[key].order):
            self.to_try.discard(key)
            pod = self.pods.get(key)
            if pod is None or not pod.waits:
                continue
            node, why = self._node_for(key, pod)
            if node:
                yield Bound(key, node)
            else:
                self._refused.add(key)
                yield Unschedulable(key, why)

    def _node_for(self, key: PodKey, pod: PodOnQueue) -> tuple[str, str]:
        """Return a node, or an empty name and why there is none."""
        asked = [name for name in _LEFT_OUT if pod.spec.get(name)]
        if asked:
            return "", f"the simulated scheduler does not read {asked[0]}"
        if pod.nominated in self.nodes and not self._why_not(pod.nominated, key, pod):
            return pod.nominated, ""
        reasons: Counter[str] = Counter()
        best: tuple[float, Any, str] | None = None
        for name in self.nodes:
            if why := self._why_not(name, key, pod):
                reasons[why] += 1
            else:
                rank = (-self._free_share(name), natural_key(name), name)
                best = rank if best is None else min(best, rank)
        if best is not None:
            return best[2], ""
        told = ", ".join(f"{number} {why}" for why, number in sorted(reasons.items()))
        return "", f"0/{len(self.nodes)} nodes are available: {told or 'there are no nodes'}."

    def _why_not(self, name: str, key: PodKey, pod: PodOnQueue) -> str:
        """Return why a pod does not fit on a node, in kube-scheduler's words; empty if it fits."""
        node, selector = self.nodes[name], pod.spec.get("nodeSelector") or {}
        if not selector.items() <= node.labels.items():
            return "node(s) didn't match Pod's node affinity/selector"
        if node.is_closed or not _tolerates(pod.spec, node.taints):
            return (
                "node(s) were unschedulable" if node.is_closed else "node(s) had untolerated taint"
            )
        used = Counter(self._used[name])
        for other in self._nominated[name] - {key}:
            nominated = self.pods[other]
            if not nominated.node and nominated.priority >= pod.priority:
                used.update(nominated.requests)
        for resource, amount in pod.requests.items():
            if amount + used[resource] > node.allocatable.get(resource, 0):
                return f"Insufficient {resource}"
        return ""

    def _free_share(self, name: str) -> float:
        """Return the share of a node's GPUs that is free."""
        node, used = self.nodes[name], self._used[name]
        gpus = [resource for resource in node.allocatable if resource.endswith(_GPU)]
        total = sum(node.allocatable[resource] for resource in gpus)
        return 1 - sum(used[resource] for resource in gpus) / total if total else 0.0


def _pod(document: Mapping[str, Any]) -> PodOnQueue:
    metadata, spec = document["metadata"], document["spec"]
    age = str(metadata.get("creationTimestamp", ""))
    order = (-int(spec.get("priority", 0)), age, metadata["name"])
    nominated = document.get("status", {}).get("nominatedNodeName", "")
    return PodOnQueue(spec, order, _requests(spec), spec.get("nodeName", ""), nominated)


def _requests(spec: Mapping[str, Any]) -> Amounts:
    """Return what the containers of a pod request together, and itself as one of `pods`."""
    found: Counter[str] = Counter({_PODS: 1000})
    for container in spec.get("containers", ()):
        resources = container.get("resources") or {}
        asked = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
        found.update({name: thousandths(str(text)) or 0 for name, text in asked.items()})
    return found


def _node(document: Mapping[str, Any]) -> SchedulableNode:
    spec, status = document.get("spec", {}), document.get("status", {})
    amounts = status.get("allocatable", {})
    return SchedulableNode(
        {name: thousandths(str(text)) or 0 for name, text in amounts.items()},
        document["metadata"].get("labels", {}),
        tuple(each for each in spec.get("taints", ()) if each.get("effect") != "PreferNoSchedule"),
        bool(spec.get("unschedulable")),
    )


def _tolerates(spec: Mapping[str, Any], taints: tuple[Mapping[str, str], ...]) -> bool:
    """Whether a pod tolerates all of these taints."""
    tolerations = spec.get("tolerations") or ()
    return all(any(_matches(each, taint) for each in tolerations) for taint in taints)


def _matches(toleration: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if toleration.get("operator", "Equal") == "Exists":
        return not key or key == taint["key"]
    return key == taint["key"] and toleration.get("value", "") == taint.get("value", "")

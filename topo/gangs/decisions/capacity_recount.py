"""Whether a refused gang fits after all: an independent count, which raises an alert.

It shares no array, no search and no booking with the engine. The free GPUs are the GPUs of the
cluster's nodes minus those of pods and holds, and groups are counted domain by domain.

Why a yes is right: a domain whose nodes have S slots for pods of the gang, counted node by node,
holds S // k whole groups of k pods, and a smaller last group is counted as a whole one. Only nodes
whose state is certain count. A no may be wrong: tolerations, pools, preferred groups, limits to
a kind of group and domains of a job's own are not judged, and a hold counts again in addition to
the pods that use it.

Cost: O(nodes) per gang, O(pods) once.

Example: dragonflies of two nodes of 8 GPUs, one pod of 8 in each but the third. A gang of two pods
in groups of 16 has room there; one of three has none, since its last group needs another pair.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from topo.model.cluster import ClusterNode
from topo.model.forest import Forest, Node, Status
from topo.model.ids import NodeName
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """The forest and the cluster as observed, and the GPUs that pods and holds take per node."""

    forest: Forest
    cluster: Mapping[NodeName, ClusterNode]
    used: Mapping[NodeName, int]
    policy: Policy


def certainly_fits(request: Request, seen: Seen) -> bool:
    """Return whether all groups of the job certainly fit now."""
    is_judged = request.mode is PlacementMode.REQUIRED and request.within is None
    if not is_judged or request.by_rank or request.own_domains or request.kins:
        return False
    pods = min(request.pods_per_group, request.pods)
    needed = -(-request.pods // pods)  # rounded up: a smaller last group counts as a whole one
    domains = _domains(request, seen, pods)
    types = {node.gpu_type for domain in domains for node in domain}
    wanted = types if request.eligible.gpu_type is None else types & {request.eligible.gpu_type}
    return any(
        sum(_slot_count(domain, gpu_type, request, seen) // pods for domain in domains) >= needed
        for gpu_type in wanted
    )


def _domains(request: Request, seen: Seen, pods: int) -> list[list[Node]]:
    """Return the domains, as lists of nodes, of the lowest tier in which `pods` fit when empty."""
    tiers: dict[int, list[list[Node]]] = {}
    for _, group in seen.forest.groups():
        nodes = [each for _, each in group.walk() if isinstance(each, Node)]
        tiers.setdefault(group.tier, []).append(nodes)
    for _, domains in sorted(tiers.items()):
        largest = max(
            sum(_gpu_count(node, seen) // request.gpus_per_pod for node in nodes)
            for nodes in domains
        )
        # The lowest such tier is where required groups must be whole.
        if largest >= pods:
            return domains
    return []


def _slot_count(domain: list[Node], gpu_type: str, request: Request, seen: Seen) -> int:
    return sum(
        max(0, _gpu_count(node, seen) - seen.used.get(node.name, 0)) // request.gpus_per_pod
        for node in domain
        if node.gpu_type == gpu_type and _is_open(node, request, seen)
    )


def _gpu_count(node: Node, seen: Seen) -> int:
    """Return the GPUs that pods can use on a node, as the cluster states them."""
    stated = seen.cluster.get(node.name)
    there = dict(stated.allocatable or ()) if stated is not None and not stated.shared else {}
    return next((there[name] for name in seen.policy.gpu_resources if name in there), 0)


def _is_open(node: Node, request: Request, seen: Seen) -> bool:
    stated, eligible = seen.cluster.get(node.name), request.eligible
    if stated is None or node.status is not Status.READY or node.name in eligible.exclude:
        return False
    if node.suspicion is not None and node.suspicion.quarantine is not None:
        return False
    if not stated.ready or stated.unschedulable or stated.taints or stated.pool:
        return False
    return set(eligible.selector) <= set(stated.labels)

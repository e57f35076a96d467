"""What-if assumptions (nodes free, down or drained), and the capacity under them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from topo.model.cluster import ClusterNode, Taint, quarantine_taint
from topo.model.errors import Refusal
from topo.model.ids import NodeName, natural_key
from topo.model.nearest import did_you_mean
from topo.model.words import listed
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host, joined
from topo.placement.job.policy import Policy

LIFECYCLE_TAINTS = frozenset(
    f"node.kubernetes.io/{state}" for state in ("not-ready", "unreachable", "unschedulable")
)
"""Taints that Kubernetes itself sets on a node which is not ready or cordoned, and takes away when
that ends (kubernetes.io, "Taints and Tolerations": taint based evictions, taints by condition)."""
_LONGEST_ECHO = 64


@dataclass(frozen=True, slots=True)
class Assumptions:
    """Nodes in an assumed state; each node is in at most one of the three states.

    `free`: what runs on the node is gone and the node is open. `down`: the node is not ready.
    `drain`: the node is cordoned, and its pods stay.
    """

    free: tuple[NodeName, ...] = ()
    down: tuple[NodeName, ...] = ()
    drain: tuple[NodeName, ...] = ()


def apply_assumptions(capacity: CapacityView, assumptions: Assumptions) -> CapacityView | Refusal:
    """Return the capacity under assumptions, or a refusal that names an impossible one.

    An unknown node is refused, and a node that is assumed to be in two states. O(bookings) if nodes
    are freed.
    """
    refusal = _unknown(capacity, assumptions) or _contradiction(assumptions)
    if refusal is not None:
        return refusal
    assumed_state = (
        (assumptions.free, open_host),
        (assumptions.down, _down),
        (assumptions.drain, _drained),
    )
    hosts = [
        state_of(_host(capacity, node), capacity.policy)
        for nodes, state_of in assumed_state
        for node in dict.fromkeys(nodes)
    ]
    return capacity.with_changes(taken=_rest_elsewhere(capacity, assumptions.free), hosts=hosts)


def open_host(host: Host, policy: Policy) -> Host:
    """Return a host as it would be repaired and uncordoned, in both of its halves."""
    forest, cluster = host.forest_and_cluster
    return _joined(
        forest
        and replace(
            forest, ready=True, cordoned=False, quarantine=None, taints=_own(forest.taints, policy)
        ),
        cluster
        and replace(cluster, ready=True, unschedulable=False, taints=_own(cluster.taints, policy)),
        policy,
    )


def _down(host: Host, policy: Policy) -> Host:
    forest, cluster = host.forest_and_cluster
    return _joined(
        forest and replace(forest, ready=False), cluster and replace(cluster, ready=False), policy
    )


def _drained(host: Host, policy: Policy) -> Host:
    forest, cluster = host.forest_and_cluster
    return _joined(
        forest and replace(forest, cordoned=True),
        cluster and replace(cluster, unschedulable=True),
        policy,
    )


def _joined(forest: Host | None, cluster: ClusterNode | None, policy: Policy) -> Host:
    host = joined(forest, cluster, policy)
    assert host is not None, "a host has at least one half"  # noqa: S101 - for the type checker
    return host


def _own(taints: tuple[Taint, ...], policy: Policy) -> tuple[Taint, ...]:
    """Return the taints except those of a node in trouble: Kubernetes' and that of quarantine."""
    ours = quarantine_taint(policy.domain)
    return tuple(each for each in taints if each.key not in LIFECYCLE_TAINTS and each != ours)


def _rest_elsewhere(
    capacity: CapacityView, nodes: Iterable[NodeName]
) -> dict[str, Mapping[NodeName, int]]:
    """Return the GPUs on all other nodes of each owner that has GPUs on the given nodes."""
    emptied = frozenset(nodes)
    return {
        owner: {node: gpus for node, gpus in booked.items() if node not in emptied}
        for owner, booked in (capacity.bookings().items() if emptied else ())
        if not emptied.isdisjoint(booked)
    }


def _host(capacity: CapacityView, node: NodeName) -> Host:
    host = capacity.host(node)
    assert host is not None, "names were looked up before"  # noqa: S101 - for the type checker
    return host


def _unknown(capacity: CapacityView, assumptions: Assumptions) -> Refusal | None:
    for field, nodes in _fields(assumptions):
        for node in nodes:
            if capacity.host(node) is None:
                return Refusal(
                    f"no node is called {node[:_LONGEST_ECHO]!r}",
                    f"assume.{field}",
                    _nearest(node, [host.name for host in capacity.hosts()]),
                )
    return None


def _nearest(node: str, known: list[NodeName]) -> str:
    """Return the next step: the most similar name, or some existing names."""
    if not known:
        return "no node is known yet: start a worker, or give a configuration file"
    return did_you_mean(node, known, f"nodes are called {listed(known)}")


def _contradiction(assumptions: Assumptions) -> Refusal | None:
    seen: dict[NodeName, str] = {}
    for field, nodes in _fields(assumptions):
        for node in sorted(set(nodes), key=natural_key):
            if node in seen:
                return Refusal(
                    f"node {node} is assumed to be both {seen[node]} and {field}",
                    f"assume.{field}",
                    "name it in one of the two",
                )
            seen[node] = field
    return None


def _fields(assumptions: Assumptions) -> tuple[tuple[str, tuple[NodeName, ...]], ...]:
    return (
        ("free", assumptions.free),
        ("down", assumptions.down),
        ("drain", assumptions.drain),
    )

"""Which nodes the pods of a gang may use: what their specs ask of a node, as placement asks it.

Selectors and tolerations are taken over. A required node affinity is not of that shape, so it is
turned into the nodes that it leaves out.
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from master.kube import objects
from master.kube.objects import (
    NodeObject,
    NodeSelector,
    NodeSelectorTerm,
    PodSpec,
    Requirement,
)
from topo.model.ids import NodeName
from topo.placement.job.request import Eligibility, Toleration

HOSTNAME = "kubernetes.io/hostname"
"""A pod that selects one has its node already: whoever opens its last gate chose it."""
NAME_FIELD = "metadata.name"


@dataclass(frozen=True, slots=True)
class Wants:
    """What the spec of one pod asks of a node."""

    selector: tuple[tuple[str, str], ...]
    bears: frozenset[Toleration]
    required: NodeSelector | None


def wants_of(spec: PodSpec) -> Wants:
    """What a spec asks of a node."""
    bears = frozenset(_toleration(each) for each in spec.tolerations)
    return Wants(tuple(sorted(spec.node_selector.items())), bears, _required(spec))


def eligibility_of(
    wants: Iterable[Wants], nodes: Callable[[], Iterable[NodeObject]], own_label: str
) -> Eligibility:
    """What all of these pods may use: a node is out that any of them may not have.

    `own_label` is the gang's own, which our selectors name and nothing else. O(pods), and
    O(pods x nodes) where they have required affinities that differ.
    """
    different: list[Wants] = []
    different.extend(each for each in wants if each not in different)
    selector = {pair for each in different for pair in each.selector}
    bears = [each.bears for each in different]
    wanted = {each.required for each in different if each.required is not None}
    exclude: frozenset[NodeName] = frozenset()
    if wanted:
        exclude = frozenset(
            NodeName(node.metadata.name)
            for node in nodes()
            if not all(matches(each, node) for each in wanted)
        )
    return Eligibility(
        selector=tuple(sorted(pair for pair in selector if pair[0] != own_label)),
        tolerations=tuple(sorted(frozenset.intersection(*bears), key=repr)) if bears else (),
        exclude=exclude,
    )


def matches(selector: NodeSelector, node: NodeObject) -> bool:
    """Whether one of the terms holds for the node; O(requirements)."""
    return any(_holds(term, node) for term in selector.node_selector_terms)


def _holds(term: NodeSelectorTerm, node: NodeObject) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    labels, fields = node.metadata.labels, {NAME_FIELD: node.metadata.name}
    return all(_is_met(each, labels.get(each.key)) for each in term.match_expressions) and all(
        _is_met(each, fields.get(each.key)) for each in term.match_fields
    )


def _is_met(wanted: Requirement, value: str | None) -> bool:
    """An operator that is not known is met by no node: the scheduler would not take it either."""
    match wanted.operator:
        case "In":
            return value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(wanted, value)
    return False


def _compares(wanted: Requirement, value: str | None) -> bool:
    try:
        found, limit = int(value or ""), int(*wanted.values)
    except (TypeError, ValueError):
        return False
    return found > limit if wanted.operator == "Gt" else found < limit


def _required(spec: PodSpec) -> NodeSelector | None:
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    return affinity.required if affinity is not None else None


def _toleration(found: objects.Toleration) -> Toleration:
    return Toleration(found.key, found.operator, found.value, found.effect)

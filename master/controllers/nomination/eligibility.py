"""Nodes that the pods of a gang may use, derived from the pod specs.

Selectors and tolerations are copied. Placement has no node affinity, so a required node affinity is
converted to the nodes that it excludes.
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity

Pods of one group have to share a domain, so they need nodes that all of them may use. Groups may
differ: Kueue, where its topology ends above the hosts, gives pods of one job different labels.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache

from master.kube.gang_pod import NodeWants
from master.kube.objects import NodeObject
from master.kube.schema.affinity import NodeSelector, NodeSelectorTerm, is_met
from topo.model.ids import NodeName
from topo.placement.job.request import Eligibility, Request

NAME_FIELD = "metadata.name"


def with_eligibility(
    request: Request,
    wants: Mapping[int, NodeWants],
    nodes: Callable[[], Iterable[NodeObject]],
    own_label: str,
) -> Request:
    """Return the request with the nodes that its pods may use, by group where groups differ.

    `wants` are those of its pods by rank. `own_label` is the gang's own label: only our own
    selectors name it, and a new plan may change which nodes have it, so it is ignored. O(pods), and
    O(different affinities x nodes).
    """
    of_users = {each: _of_user(each, own_label) for each in wants.values()}
    kinds = frozenset(of_users.values())
    if len(kinds) <= 1:
        return replace(request, eligible=_all_of(kinds, nodes))
    of_group: dict[int, set[NodeWants]] = {}
    for rank, each in wants.items():
        of_group.setdefault(rank // request.pods_per_group, set()).add(of_users[each])
    read = cache(lambda found: _all_of(found, nodes))
    found = {group: read(frozenset(each)) for group, each in of_group.items()}
    common = _any_of(frozenset(found.values()))
    runs: list[tuple[int, Eligibility]] = []
    for group in range(len(request.group_pods)):
        one = found.get(group, common)
        groups, _ = runs.pop() if runs and runs[-1][1] == one else (0, one)
        runs.append((groups + 1, one))
    return replace(request, eligible=common, by_group=tuple(runs) if len(runs) > 1 else ())


def _of_user(wants: NodeWants, own_label: str) -> NodeWants:
    """Return what the pod's user requires, without our own selector."""
    selector = tuple(pair for pair in wants.selector if pair[0] != own_label)
    return wants if selector == wants.selector else replace(wants, selector=selector)


def _all_of(wants: frozenset[NodeWants], nodes: Callable[[], Iterable[NodeObject]]) -> Eligibility:
    """Return the nodes that all of these pods may use; O(wants), with affinities O(x nodes)."""
    required = {each.required for each in wants if each.required is not None}
    exclude: frozenset[NodeName] = frozenset()
    if required:
        exclude = frozenset(
            NodeName(node.metadata.name)
            for node in nodes()
            if not all(matches(each, node) for each in required)
        )
    borne = frozenset.intersection(*[each.tolerations for each in wants]) if wants else ()
    return Eligibility(
        selector=tuple(sorted({pair for each in wants for pair in each.selector})),
        tolerations=tuple(sorted(borne, key=repr)),
        exclude=exclude,
    )


def _any_of(found: frozenset[Eligibility]) -> Eligibility:
    """Return the nodes that any of these groups may use, at least one of them."""
    tolerations = {one for each in found for one in each.tolerations}
    return Eligibility(
        selector=tuple(sorted(set.intersection(*[set(each.selector) for each in found]))),
        tolerations=tuple(sorted(tolerations, key=repr)),
        exclude=frozenset.intersection(*[each.exclude for each in found]),
    )


def matches(selector: NodeSelector, node: NodeObject) -> bool:
    """Return whether at least one term holds for the node; O(requirements)."""
    return any(_holds(term, node) for term in selector.node_selector_terms)


def _holds(term: NodeSelectorTerm, node: NodeObject) -> bool:
    if not (term.match_expressions or term.match_fields):
        return False
    labels, fields = node.metadata.labels, {NAME_FIELD: node.metadata.name}
    return all(is_met(each, labels.get(each.key)) for each in term.match_expressions) and all(
        is_met(each, fields.get(each.key)) for each in term.match_fields
    )

"""Nodes that the pods of a gang may use, derived from the pod specs.

Selectors and tolerations are copied. Placement has no node affinity, so a required node affinity is
converted to the nodes that it excludes.
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity

Pods may differ: Kueue, where its topology ends above the hosts, gives pods of one job different
labels, and a volume on a local disk ties its pod to a node.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from master.kube.gang_pod import LabelIn, NodeWants
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
    *,
    known: dict[NodeWants, Eligibility] | None = None,
) -> Request:
    """Return the request with the nodes that its pods may use, by rank where they differ.

    `wants` are those of its pods by rank. `own_label` is the gang's own label: only our own
    selectors name it, and a new plan may change which nodes have it, so it is ignored. `known` is
    what was found for other jobs at this moment, and is added to. O(pods), and O(different
    affinities x nodes).
    """
    of_users = {each: _of_user(each, own_label) for each in wants.values()}
    found = known if known is not None else {}
    different = dict.fromkeys(of_users.values())
    found |= {each: _eligibility(each, nodes) for each in different if each not in found}
    distinct = frozenset(found[each] for each in different)
    if len(distinct) <= 1:
        return replace(request, eligible=next(iter(distinct), Eligibility()))
    common = _any_of(distinct)
    runs: list[tuple[int, Eligibility]] = []
    end = 0
    for rank in (*sorted(each for each in wants if each < request.pods), request.pods):
        own = [(1, found[of_users[wants[rank]]])] if rank < request.pods else []
        for more, one in ((rank - end, common), *own):
            if more:
                pods, _ = runs.pop() if runs and runs[-1][1] == one else (0, one)
                runs.append((pods + more, one))
        end = rank + 1
    return replace(request, eligible=common, by_rank=tuple(runs))


def _of_user(wants: NodeWants, own_label: str) -> NodeWants:
    """Return what the pod's user requires, without our own selector."""
    selector = tuple(pair for pair in wants.selector if pair[0] != own_label)
    return wants if selector == wants.selector else replace(wants, selector=selector)


def _eligibility(wants: NodeWants, nodes: Callable[[], Iterable[NodeObject]]) -> Eligibility:
    """Return the nodes that a pod may use; O(1), with an affinity O(nodes).

    Many pods may each have a volume on a node of their own: a volume that is on nodes with one
    label becomes a selector, which costs nothing for each node.
    """
    labels = [_as_label(each) for each in wants.volumes]
    pairs = {(each[0], each[1][0]) for each in labels if each is not None and len(each[1]) == 1}
    several = [each for each in labels if each is not None and len(each[1]) > 1]
    required = [
        each
        for each, label in zip(wants.volumes, labels, strict=True)
        if label is None and isinstance(each, NodeSelector)
    ]
    required += [wants.required] if wants.required is not None else []
    exclude: frozenset[NodeName] = frozenset()
    if required or several:
        exclude = frozenset(
            NodeName(node.metadata.name)
            for node in nodes()
            if not all(matches(each, node) for each in required)
            or not all(node.metadata.labels.get(key) in values for key, values in several)
        )
    return Eligibility(
        selector=tuple(sorted({*wants.selector, *pairs})),
        tolerations=tuple(sorted(wants.tolerations, key=repr)),
        exclude=exclude,
        usage=wants.usage,
    )


def _as_label(wanted: NodeSelector | LabelIn) -> LabelIn | None:
    """Return the one label that is asked for and its values; None for anything else."""
    if not isinstance(wanted, NodeSelector):
        return wanted
    terms = wanted.node_selector_terms
    if len(terms) != 1 or terms[0].match_fields or len(terms[0].match_expressions) != 1:
        return None
    (one,) = terms[0].match_expressions
    return (one.key, one.values) if one.operator == "In" else None


def _any_of(found: frozenset[Eligibility]) -> Eligibility:
    """Return the nodes that any of these pods may use, at least one of them."""
    tolerations = {one for each in found for one in each.tolerations}
    usages = {each.usage for each in found}
    return Eligibility(
        selector=tuple(sorted(set.intersection(*[set(each.selector) for each in found]))),
        tolerations=tuple(sorted(tolerations, key=repr)),
        exclude=frozenset.intersection(*[each.exclude for each in found]),
        usage=usages.pop() if len(usages) == 1 else "",
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

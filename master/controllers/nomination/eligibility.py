"""Nodes that the pods of a gang may use, derived from the pod specs.

Selectors and tolerations are copied. Placement has no node affinity, so a required node affinity is
converted to the nodes that it excludes.
https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/#node-affinity
"""

from collections.abc import Callable, Collection, Iterable

from master.kube.gang_pod import NodeWants
from master.kube.objects import NodeObject
from master.kube.schema.affinity import NodeSelector, NodeSelectorTerm, is_met
from topo.model.ids import NodeName
from topo.placement.job.request import Eligibility

NAME_FIELD = "metadata.name"


def eligibility_of(
    wants: Collection[NodeWants], nodes: Callable[[], Iterable[NodeObject]], own_label: str
) -> Eligibility:
    """Return the nodes that all of these pods may use: a node that one pod excludes is excluded.

    `own_label` is the gang's own label. Only our own selectors name it, so it is ignored. O(wants),
    and O(wants x nodes) if required affinities differ.
    """
    selector = {pair for each in wants for pair in each.selector}
    tolerations = [each.tolerations for each in wants]
    required = {each.required for each in wants if each.required is not None}
    exclude: frozenset[NodeName] = frozenset()
    if required:
        exclude = frozenset(
            NodeName(node.metadata.name)
            for node in nodes()
            if not all(matches(each, node) for each in required)
        )
    return Eligibility(
        # Our own selector names the planned nodes, which a new plan may change.
        selector=tuple(sorted(pair for pair in selector if pair[0] != own_label)),
        tolerations=tuple(sorted(frozenset.intersection(*tolerations), key=repr))
        if tolerations
        else (),
        exclude=exclude,
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

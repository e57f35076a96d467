"""Pods of which a node takes one: those whose required anti-affinity matches themselves.

Result: the names of the places of which such a pod takes one on its node.

Why that is right: a term over the host name that matches the pod itself keeps every pod with the
same labels and namespace off its node. So pods with the same term need a node each, as pods with
one host port do: the term is a resource of which each node has one.

Pods of jobs with `exclusive-topology` are told apart by their part instead, over any label.

What it does not see: pods that a term matches and that do not state it themselves, terms over other
labels of nodes, and terms of which the API server alone can say whom they match (`matchLabelKeys`,
a selector of namespaces). There the scheduler refuses a node that was planned, and the pod is
planned elsewhere.

Source: core/v1 `PodAffinityTerm`; Kubernetes, pkg/scheduler/framework/plugins/interpodaffinity.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from hashlib import blake2b

from master.kube.gang_pod import SHARED_VALUES, PartOfJob
from master.kube.schema.affinity import (
    Affinity,
    LabelSelector,
    PodAffinityTerm,
    Requirement,
    is_met,
)
from topo.gangs.annotation_keys import HOSTNAME
from topo.gangs.job_kinds import kinds
from topo.model.pod_requests import APART
from topo.placement.job.request import Kin

_ALL = LabelSelector()


def places_apart(
    namespace: str, labels: Mapping[str, str], affinity: Affinity | None
) -> Iterator[str]:
    """Yield the place of each term that keeps pods like this one off each other. O(terms)."""
    if affinity is None or affinity.pod_anti_affinity is None:
        return
    for term in affinity.pod_anti_affinity.required:
        scope, selector = _scope(term, namespace), term.label_selector
        if scope and selector is not None and _is_over_hosts(term) and _matches(selector, labels):
            text = repr((scope, _canonical(selector)))
            yield f"{APART}{blake2b(text.encode(), digest_size=8).hexdigest()}"


def parts_of_job(
    namespace: str, labels: Mapping[str, str], affinity: Affinity | None
) -> tuple[PartOfJob, ...]:
    """Return of which pods a pod may be kept apart, and by which label of nodes it keeps them.

    Empty for a pod of a job without parts. Its controller writes the term: there has to be no pod
    that has the label of the kin, with another value than its own. O(terms).
    """
    anti = affinity.pod_anti_affinity if affinity is not None else None
    terms = anti.required if anti is not None else ()
    return tuple(
        _part(kin, next((term.topology_key for term in terms if _excludes(term, kin)), ""))
        for kin in kinds.kins_of(namespace, labels)
    )


@lru_cache(maxsize=SHARED_VALUES)
def _part(kin: Kin, label: str) -> PartOfJob:
    return PartOfJob(kin, label)


def _excludes(term: PodAffinityTerm, kin: Kin) -> bool:
    selector = term.label_selector
    return selector is not None and any(
        each.key == kin.label and each.operator == "Exists" for each in selector.match_expressions
    )


def _scope(term: PodAffinityTerm, namespace: str) -> tuple[str, ...]:
    """Return the namespaces that a term means, `*` for all; none unless the pod's own is one."""
    if term.namespace_selector is not None:
        return ("*",) if term.namespace_selector == _ALL else ()
    if not term.namespaces:
        return (namespace,)
    return tuple(sorted(term.namespaces)) if namespace in term.namespaces else ()


def _is_over_hosts(term: PodAffinityTerm) -> bool:
    """Return whether a term is over the host name, and its selector alone says whom it matches."""
    return term.topology_key == HOSTNAME and not (term.match_label_keys or term.mismatch_label_keys)


def _matches(selector: LabelSelector, labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        is_met(each, labels.get(each.key)) for each in selector.match_expressions
    )


def _canonical(selector: LabelSelector) -> tuple[object, ...]:
    expressions = tuple(sorted(map(_in_order, selector.match_expressions)))
    return tuple(sorted(selector.match_labels.items())), expressions


def _in_order(each: Requirement) -> tuple[str, str, tuple[str, ...]]:
    return each.key, each.operator, tuple(sorted(each.values))

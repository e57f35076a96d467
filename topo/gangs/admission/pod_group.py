"""A PodGroup at its creation: the groups of a native gang as constraints for Volcano.

Volcano's job controller creates the PodGroup with the annotations of the job, before the pods.
Constraints that the PodGroup already has stay: the user wrote them on the job.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.admission.outcome import UNCHANGED, UNDECIDED, AdmissionOutcome, Result, Rules
from topo.gangs.json_patch import add, mapping, sequence
from topo.gangs.native import constraints
from topo.gangs.stamp import Stamp, read_stamp
from topo.gangs.terms import GroupTerms, Way, read_terms


def admit_pod_group(pod_group: Mapping[str, Any], rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a PodGroup; O(shapes of groups)."""
    annotations = mapping(mapping(pod_group.get("metadata")).get("annotations"))
    stamp, terms = read_stamp(annotations, rules.keys), read_terms(annotations, rules.keys)
    if not isinstance(stamp, Stamp) or not isinstance(terms, GroupTerms):
        return UNCHANGED
    if stamp.pods_per_group > terms.group_size:
        return UNCHANGED  # no webhook stamped it: each pod of a group has a GPU
    spec = mapping(pod_group.get("spec"))
    if terms.way is not Way.NATIVE or sequence(spec.get("subGroupPolicy")):
        return UNCHANGED
    wanted = constraints(stamp, terms, rules.tiers, rules.keys)
    if wanted is None:
        return UNDECIDED
    patch = [
        add(("spec", name), value=value) for name, value in wanted.items() if not spec.get(name)
    ]
    return AdmissionOutcome(Result.GROUPED, tuple(patch))

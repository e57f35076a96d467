"""Warnings about what a new job requires of its nodes and a plan does not count.

    required podAffinity; required podAntiAffinity over another label than the host name;
    a topology spread constraint with DoNotSchedule

A planned node that the scheduler refuses for one of them is given up after a while and the pod is
placed elsewhere, so such a job starts late, or waits although there is room. What only a preference
says concerns the scheduler alone.

Source: core/v1 `PodAffinityTerm`, `TopologySpreadConstraint`; what is counted instead:
`master.sources.kubernetes.pods_apart`.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from topo.gangs.annotation_keys import HOSTNAME
from topo.gangs.job_kinds.templates import Template, field_path
from topo.gangs.json_patch import Path, mapping, sequence

MOST = 3
"""Warnings of one job; API servers cut longer lists."""
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def warnings(templates: Iterable[Template]) -> tuple[str, ...]:
    """Return at most `MOST` warnings, one for each field; O(constraints)."""
    found = [_text(path) for each in templates for path in _fields(each)]
    return tuple(found[:MOST])


def _text(path: Path) -> str:
    return (
        f"{field_path(path)} is not counted when nodes are planned:"
        " where the scheduler refuses a planned node for it, the pod is placed again"
    )


def _fields(template: Template) -> Iterator[Path]:
    """Yield the paths of the fields that hold such a requirement."""
    path, affinity = (*template.path, "spec"), mapping(template.spec.get("affinity"))
    if sequence(mapping(affinity.get("podAffinity")).get(_REQUIRED)):
        yield (*path, "affinity", "podAffinity")
    apart = sequence(mapping(affinity.get("podAntiAffinity")).get(_REQUIRED))
    if any(mapping(term).get("topologyKey") != HOSTNAME for term in apart):
        yield (*path, "affinity", "podAntiAffinity")
    if any(map(_is_hard, sequence(template.spec.get("topologySpreadConstraints")))):
        yield (*path, "topologySpreadConstraints")


def _is_hard(constraint: Any) -> bool:
    return bool(mapping(constraint).get("whenUnsatisfiable") == "DoNotSchedule")

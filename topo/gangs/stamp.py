"""The stamp: annotations of a pod template from which each pod's place in its gang follows.

    gang-pods 8, gang-rank-offset 1, gang-pods-per-group 2

on the template of the workers: of 8 pods the first worker has rank 1, and ranks 0 and 1 are group
0. A rank is the offset and the pod's index in its template.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from topo.gangs.annotation_keys import POD_INDEX, AnnotationKeys
from topo.gangs.job_kinds import kinds
from topo.gangs.terms import shown
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS
from topo.model.machine import MAX_GPUS

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Stamp:
    """Pods of the gang, rank of the template's first pod, and pods of a whole group."""

    pods: int
    rank_offset: int
    pods_per_group: int

    def group(self, rank: int) -> int:
        """Return the group of a rank, from 0."""
        return rank // self.pods_per_group

    def annotations(self, keys: AnnotationKeys) -> dict[str, str]:
        """Return the annotations that hold the stamp."""
        return {
            keys.pods: str(self.pods),
            keys.rank_offset: str(self.rank_offset),
            keys.pods_per_group: str(self.pods_per_group),
        }


def read_stamp(annotations: Mapping[str, object], keys: AnnotationKeys) -> Stamp | Refusal | None:
    """Return the stamp in the annotations of a pod or template; None if there is none.

    Returns a refusal if the annotations are invalid.
    """
    found: list[int] = []
    wanted = ((keys.pods, 1), (keys.rank_offset, 0), (keys.pods_per_group, 1))
    if not any(name in annotations for name, _ in wanted):
        return None
    for name, least in wanted:
        number = read_number(annotations.get(name))
        if number is None or not least <= number <= MAX_PODS:
            what = f"{name} is {shown(annotations.get(name))}"
            fix = f"leave {keys.pods} and the words beside it to the admission webhook"
            return Refusal(what, f"metadata.annotations[{name}]", fix)
        found.append(number)
    return Stamp(*found)


def read_claimed(
    annotations: Mapping[str, object], keys: AnnotationKeys, *, has_claims: bool
) -> int:
    """Return the GPUs that a pod has by claims of devices, as its template was stamped.

    0 without a stamp, and for a pod that claims nothing.
    """
    number = read_number(annotations.get(keys.claimed_gpus)) if has_claims else None
    return min(number or 0, MAX_GPUS)


def pod_rank(
    stamp: Stamp | Refusal | None,
    annotations: Mapping[str, object],
    labels: Mapping[str, object],
    keys: AnnotationKeys,
) -> int:
    """Return the rank of a pod in its gang; 0 if it is not stated."""
    if keys.rank in annotations and (rank := read_number(annotations[keys.rank])) is not None:
        return rank
    index = pod_index(annotations, labels)
    return (stamp.rank_offset if isinstance(stamp, Stamp) else 0) + (index or 0)


def pod_index(annotations: Mapping[str, object], labels: Mapping[str, object]) -> int | None:
    """Return a pod's number within its template, from its annotations, else its labels.

    Returns None if neither has the index key of any kind of job, nor that of a StatefulSet, whose
    pods may be of a PodGroup.
    """
    for key in (*(kind.index_key for kind in kinds.JOB_KINDS), POD_INDEX):
        for place in (annotations, labels):
            text = place.get(key)
            if text is not None and (number := read_number(text)) is not None:
                return number
    return None


def read_number(text: object) -> int | None:
    """Return a number of at most nine digits; None for any other text."""
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None

"""What a pod without a job says of its gang, or what is missing: the pod itself is all there is.

    gang-name train, gang-pods 4, gang-rank 1, gpu-group-size 16
    → 4 pods, rank 1; without gang-pods: a refusal that names it

Each refusal says where in the pod, and what to write there.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.plain_pods import KUEUE_INDEX, KUEUE_TOTAL
from topo.gangs.stamp import read_number
from topo.gangs.terms import shown
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS


@dataclass(frozen=True, slots=True)
class PlainGang:
    """How many pods the gang has, and which of them this one is; None if it does not say."""

    pods: int
    rank: int | None


def read_plain_gang(
    labels: Mapping[str, Any], annotations: Mapping[str, Any], keys: AnnotationKeys
) -> PlainGang | Refusal:
    """Return the gang of a pod that names it; O(1)."""
    total = keys.pods if annotations.get(keys.gang_name) else KUEUE_TOTAL
    pods = read_number(annotations.get(total))
    if not pods or pods > MAX_PODS:
        fix = f"write how many pods the gang has, a whole number from 1 to {MAX_PODS}"
        return Refusal(_flaw(total, annotations.get(total)), _annotation(total), fix)
    key, where = keys.rank, _annotation(keys.rank)
    stated = annotations.get(key)
    if stated is None:
        key, where = KUEUE_INDEX, f"metadata.labels[{KUEUE_INDEX}]"
        stated = labels.get(key)
    rank = read_number(stated)
    if stated is not None and (rank is None or rank >= pods):
        what = f"{_flaw(key, stated)}, and the gang has {pods} pods"
        fix = f"write a number from 0 to {pods - 1}, or leave it out: then pods rank as they come"
        return Refusal(what, where, fix)
    return PlainGang(pods, rank)


def missing_word(annotations: Mapping[str, Any], keys: AnnotationKeys) -> Refusal | None:
    """Return what a pod without a job lacks that has some words of a gang; None for no such pod.

    With an offset of ranks it has the stamp of a job.
    """
    words = {keys.pods, keys.gang_name} & annotations.keys()
    if not words or keys.rank_offset in annotations:
        return None
    wanted = (
        (keys.gang_name, "write its name, which is one for all pods of the gang"),
        (keys.size, "write the GPUs of a group, such as 64"),
    )
    for key, fix in wanted:
        if not annotations.get(key):
            return Refusal(_flaw(key, annotations.get(key)), _annotation(key), fix)
    return None


def _flaw(key: str, value: object) -> str:
    return f"{key} is {'missing' if value is None else shown(value)}"


def _annotation(key: str) -> str:
    return f"metadata.annotations[{key}]"

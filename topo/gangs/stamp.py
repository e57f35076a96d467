"""The stamp: annotations of a pod template from which each pod's place in its gang follows.

    gang-pods 8, gang-rank-offset 1, gang-pods-per-group 2

on the template of the workers: of 8 pods the first worker has rank 1, and ranks 0 and 1 are group
0. A rank is the offset and the pod's index in its template.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from topo.gangs.annotation_keys import POD_INDEX, AnnotationKeys
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.json_patch import text
from topo.gangs.terms import shown
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS, MAX_PODS_AHEAD
from topo.model.machine import MAX_GPUS
from topo.placement.job.request import OwnDomains

_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_RUNS = re.compile(r"([0-9]{1,5})x([0-9]{1,5})@([-A-Za-z0-9./_]{0,317})", re.ASCII)
MAX_DOMAINS = 256
"""Domains of its own that one job may need: each is a search of its own, some milliseconds."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """Pods of the gang, rank of the template's first pod, and pods of a whole group.

    Where the template is repeated, `pods_of_repeat` are the pods of one repetition. `first_index`
    is the index of the template's first pod. `own_domains`: where parts of the gang need domains of
    their own, all of its ranks.
    """

    pods: int
    rank_offset: int
    pods_per_group: int
    pods_of_repeat: int = 0
    first_index: int = 0
    own_domains: tuple[OwnDomains, ...] = ()

    def rank(self, index: int, repeat: int = 0) -> int:
        """Return the rank of the pod of this index in this repetition of the template."""
        in_template = max(0, index - self.first_index) + repeat * self.pods_of_repeat
        return self.rank_offset + in_template

    def group(self, rank: int) -> int:
        """Return the group of a rank, from 0."""
        return rank // self.pods_per_group

    def annotations(self, keys: AnnotationKeys) -> dict[str, str]:
        """Return the annotations that hold the stamp."""
        return {
            keys.pods: str(self.pods),
            keys.rank_offset: str(self.rank_offset),
            keys.pods_per_group: str(self.pods_per_group),
            **({keys.pods_of_repeat: str(self.pods_of_repeat)} if self.pods_of_repeat else {}),
            **({keys.first_index: str(self.first_index)} if self.first_index else {}),
            **(
                {keys.own_domains: encode_own_domains(self.own_domains)} if self.own_domains else {}
            ),
        }


def encode_own_domains(runs: Iterable[OwnDomains]) -> str:
    """Return the text of an annotation: `2x4@rack,1x3@` for two parts of 4 pods and 3 pods."""
    return ",".join(f"{run.times}x{run.pods}@{run.label}" for run in runs)


def decode_own_domains(text: str, pods: int) -> tuple[OwnDomains, ...] | None:
    """Return the runs of all ranks of a gang of so many pods; None for any other text."""
    found = [_RUNS.fullmatch(each) for each in text.split(",")] if text else []
    runs = tuple(OwnDomains(int(a[1]), int(a[2]), a[3]) for a in found if a is not None)
    ranks = sum(run.times * run.pods for run in runs)
    domains = sum(run.times for run in runs if run.label)
    is_whole = len(runs) == len(found) and ranks == pods <= MAX_PODS_AHEAD
    return runs if not text or (is_whole and domains <= MAX_DOMAINS) else None


def own_domains_of(runs: tuple[OwnDomains, ...], pods: int) -> tuple[OwnDomains, ...] | None:
    """Return the runs of a gang that has so many pods now; None for more than are allowed.

    Of a smaller gang the last ones are left out, of a larger one the last run goes on.
    """
    if not runs or sum(run.times * run.pods for run in runs) == pods:
        return runs
    stated = [run for run in runs if run.times and run.pods]
    if not stated:
        return None
    found, left = list[OwnDomains](), pods
    for run in (*stated, stated[-1]._replace(times=pods)):
        times = min(run.times, left // run.pods)
        found += [run._replace(times=times)] if times else []
        left -= times * run.pods
        if times < run.times:
            break
    found += [run._replace(times=1, pods=left)] if left else []
    return decode_own_domains(encode_own_domains(found), pods)


def read_stamp(annotations: Mapping[str, object], keys: AnnotationKeys) -> Stamp | Refusal | None:
    """Return the stamp in the annotations of a pod or template; None if there is none.

    Returns a refusal if the annotations are invalid.
    """
    found: list[int] = []
    wanted = ((keys.pods, 1), (keys.rank_offset, 0), (keys.pods_per_group, 1))
    if not any(name in annotations for name, _ in wanted):
        return None
    for name, least in (*wanted, (keys.pods_of_repeat, 0), (keys.first_index, 0)):
        is_optional = len(found) >= len(wanted)
        number = read_number(annotations.get(name, "0" if is_optional else None))
        if number is None or not least <= number <= MAX_PODS:
            what = f"{name} is {shown(annotations.get(name))}"
            fix = f"leave {keys.pods} and the words beside it to the admission webhook"
            return Refusal(what, f"metadata.annotations[{name}]", fix)
        found.append(number)
    own = text(annotations.get(keys.own_domains))
    runs = decode_own_domains(own, found[0])
    if runs is None:
        fix = f"leave {keys.pods} and the words beside it to the admission webhook"
        where = f"metadata.annotations[{keys.own_domains}]"
        return Refusal(f"{keys.own_domains} is {shown(own)}", where, fix)
    pods, offset, size, repeat, first = found
    return Stamp(pods, offset, size, repeat, first, runs)


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
    rank = stamped_rank(stamp, annotations, labels, keys) if isinstance(stamp, Stamp) else None
    return rank if rank is not None else pod_index(annotations, labels) or 0


def stamped_rank(
    stamp: Stamp,
    annotations: Mapping[str, object],
    labels: Mapping[str, object],
    keys: AnnotationKeys,
) -> int | None:
    """Return the rank of a pod with this stamp from its index; None for a pod without one."""
    kind = kinds.named(text(annotations.get(keys.kind)))
    if kind is None:
        index = pod_index(annotations, labels)
        return stamp.rank(index) if index is not None else None
    index = _number_of(kind.index_key, annotations, labels)
    repeat = _number_of(kind.repeat_key, annotations, labels) or 0
    return stamp.rank(index, repeat) if index is not None else None


def stated_pods(stamp: Stamp, kind: JobKind, annotations: Mapping[str, object]) -> int:
    """Return the ranks of a gang as the controller of a pod wrote on it; 0 where it did not.

    Never more than the stamp says: it is the word of a pod.
    """
    size = read_number(annotations.get(kind.pod_size_key)) if kind.pod_size_key else None
    return min(stamp.rank(size - 1) + 1, stamp.pods) if size else 0


def first_order(
    stamp: Stamp,
    kind: JobKind,
    annotations: Mapping[str, object],
    labels: Mapping[str, object],
) -> int:
    """Return where a pod without a lasting number comes among those that get ranks with it."""
    index = _number_of(kind.index_key, annotations, labels) or 0
    return stamp.rank(index, _number_of(kind.repeat_key, annotations, labels) or 0)


def pod_index(annotations: Mapping[str, object], labels: Mapping[str, object]) -> int | None:
    """Return a pod's number within its template, from its annotations, else its labels.

    Returns None if neither has the index key of any kind of job, nor that of a StatefulSet, whose
    pods may be of a PodGroup.
    """
    for key in (
        *(kind.index_key for kind in kinds.JOB_KINDS if kind.index_key and not kind.is_elastic),
        POD_INDEX,
    ):
        if (number := _number_of(key, annotations, labels)) is not None:
            return number
    return None


def _number_of(
    key: str, annotations: Mapping[str, object], labels: Mapping[str, object]
) -> int | None:
    for place in (annotations, labels):
        text = place.get(key)
        if text is not None and (number := read_number(text)) is not None:
            return number
    return None


def read_number(text: object) -> int | None:
    """Return a number of at most nine digits; None for any other text."""
    return int(text) if isinstance(text, str) and _NUMBER.fullmatch(text) else None

"""Which ranks a job has now, read from its object: how large its gang is, and which have ended.

The stamp on a pod is of the moment at which the job was made. A job that is scaled, admitted in
part or edited while it is stopped keeps its stamps, since most kinds let no template change, and
its object says how many pods it has. The stamps on its templates still say which rank is whose:

    tasks a (offset 0) and b (offset 4), made with 4 pods each; a has 3 now
    → ranks 0, 1, 2, 4, 5, 6, 7: no pod of rank 3 is made

    a batch Job of 8 completions, 3 of which run at once, failedIndexes 0
    → ranks 0 to 7, 0 has ended; with pods 1 and 2 there, 3 is next and 4 to 7 are made later

A batch Job that is a part of another job, as of a JobSet, says only which of its ranks have ended.

Source: batch/v1 `JobStatus` (completedIndexes, failedIndexes) of Kubernetes v1.37.
Cost: O(templates), and O(ranks) for a gang that lacks some.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from topo.gangs.annotation_keys import COMPLETION_INDEX, AnnotationKeys
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.batch_job import BATCH_JOB
from topo.gangs.job_kinds.job_kind import JobKind, PodFacts
from topo.gangs.job_kinds.templates import Template, count
from topo.gangs.json_patch import mapping, mappings, text, texts
from topo.gangs.machine.gang import GangId, gang_of_owner
from topo.gangs.stamp import Stamp, read_stamp, stamped_rank

MAX_RUNS = 1024
"""Runs of ranks that are read of a job. Of one with more its size is not known; of indices that
have ended the others are left out, so that pods of them are waited for."""
MOST_RANKS = 32_768
"""A larger gang waits for all of its ranks: they are looked through whenever it changes."""
_INDEX_RUN = re.compile(r"([0-9]{1,9})(?:-([0-9]{1,9}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class JobRanks:
    """The ranks of a job.

    `runs`: those that it has now, ascending; empty where it does not say, as a part of another job.
    `ended`: those whose pod has succeeded or failed for good. `at_once`: how many pods its
    controller has at a time, None for all.
    """

    runs: tuple[range, ...] = ()
    ended: tuple[range, ...] = ()
    at_once: int | None = None

    @property
    def size(self) -> int:
        """The highest rank and one; 0 where the job does not say."""
        return max((run.stop for run in self.runs), default=0)

    @property
    def has_all_at_once(self) -> bool:
        """Whether a pod of each rank below the size is made, and none has ended. O(1)."""
        is_whole = len(self.runs) <= 1 and all(run.start == 0 for run in self.runs)
        return is_whole and not self.ended and self.at_once is None


@dataclass(frozen=True, slots=True)
class UnmadeRanks:
    """Ranks below the size of a gang of which no pod is made now.

    `ended`: never again. `later`: once pods of others have ended.
    """

    ended: frozenset[int] = frozenset()
    later: frozenset[int] = frozenset()


NONE_UNMADE = UnmadeRanks()


def unmade_ranks(job: JobRanks, live: Collection[int], succeeded: Collection[int]) -> UnmadeRanks:
    """Return the ranks of which no pod is made now; `live` are those of pods that there are."""
    size = job.size
    if job.has_all_at_once or size > MOST_RANKS:
        return NONE_UNMADE
    stated = {rank for run in job.runs for rank in run}
    ended = {rank for run in job.ended for rank in range(run.start, min(run.stop, size))}
    ended |= set(range(size)) - stated
    ended.difference_update(live)
    later: list[int] = []
    if job.at_once is not None:
        left = sorted(stated - ended - set(succeeded))
        lacking = [rank for rank in left if rank not in live]
        later = lacking[max(0, job.at_once - len(left) + len(lacking)) :]
    return UnmadeRanks(frozenset(ended), frozenset(later))


def joined(parts: Iterable[JobRanks]) -> JobRanks | None:
    """Return the ranks of a gang as its job and the parts of that say; None without a size."""
    found = sorted(parts, key=lambda each: each.size)
    if not found or not found[-1].size:
        return None
    ended = tuple(run for each in found for run in each.ended)
    return replace(found[-1], ended=ended)


def read_job(
    job: Mapping[str, Any], kind: JobKind, keys: AnnotationKeys
) -> tuple[GangId, JobRanks] | None:
    """Return the gang of a job and its ranks now; None for one that was not stamped."""
    stamped = [
        (each, stamp)
        for each in kind.parts(job).templates
        if isinstance(stamp := read_stamp(each.annotations, keys), Stamp)
    ]
    if not stamped:
        return None
    first = stamped[0][0]
    ended = _ended(job, first, stamped[0][1], keys) if kind is BATCH_JOB else ()
    gang_id = _gang_above(job, kind, first, keys)
    if gang_id is not None:
        return gang_id, JobRanks(ended=ended)
    runs = _joined_runs(run for each, stamp in stamped for run in _runs(each, stamp))
    at_once = _at_once(job, runs) if kind is BATCH_JOB else None
    return gang_of_job(job, kind), JobRanks(runs, ended, at_once)


def gang_of_job(job: Mapping[str, Any], kind: JobKind) -> GangId:
    """Return the gang of a job: itself, or what its kind says."""
    if kind.gang_of_job is not None:
        return kind.gang_of_job(job)
    namespace, uid = (text(mapping(job.get("metadata")).get(key)) for key in ("namespace", "uid"))
    return gang_of_owner(namespace, kind.api_version, kind.kind, uid)


def _gang_above(
    job: Mapping[str, Any], kind: JobKind, template: Template, keys: AnnotationKeys
) -> GangId | None:
    """Return the gang of the job that a job is a part of, as its pods name it; else None."""
    stamped = template.annotations.get(keys.kind)
    if stamped is None or stamped == kind.name:
        return None
    facts = PodFacts(
        keys=keys,
        namespace=text(mapping(job.get("metadata")).get("namespace")),
        labels=texts(mapping(template.metadata.get("labels"))),
        annotations=texts(template.annotations),
    )
    found = kinds.gang_name(stamped, facts)
    return found.id if found is not None else None


def _runs(template: Template, stamp: Stamp) -> Iterator[range]:
    """Yield the ranks of each repetition of a template."""
    repeat = template.pods_of_repeat
    if not repeat or repeat == stamp.pods_of_repeat:
        yield range(stamp.rank_offset, stamp.rank_offset + template.pods)
        return
    for number in range(min(template.pods // repeat, MAX_RUNS + 1)):
        first = stamp.rank_offset + number * stamp.pods_of_repeat
        yield range(first, first + repeat)


def _joined_runs(runs: Iterable[range]) -> tuple[range, ...]:
    """Return the runs with none beside another one; none where they are too many."""
    found: list[range] = []
    for run in sorted((run for run in runs if run), key=lambda run: run.start):
        if found and run.start <= found[-1].stop:
            found[-1] = range(found[-1].start, max(found[-1].stop, run.stop))
        else:
            found.append(run)
        if len(found) > MAX_RUNS:
            return ()
    return tuple(found)


def _at_once(job: Mapping[str, Any], runs: tuple[range, ...]) -> int | None:
    parallelism = count(mapping(job.get("spec")).get("parallelism", 1))
    return parallelism if parallelism < sum(map(len, runs)) else None


def _ended(
    job: Mapping[str, Any], template: Template, stamp: Stamp, keys: AnnotationKeys
) -> tuple[range, ...]:
    """Return the ranks of the indices of a batch Job that its status calls ended."""
    (status,) = mappings(job, "status")
    labels = texts(mapping(template.metadata.get("labels")))
    zeroth = {**labels, COMPLETION_INDEX: "0"}
    first = stamped_rank(stamp, template.annotations, zeroth, keys)
    indices = (
        *_index_runs(status.get("completedIndexes")),
        *_index_runs(status.get("failedIndexes")),
    )
    if first is None:
        return ()
    return _joined_runs(range(first + run.start, first + run.stop) for run in indices)


def _index_runs(stated: object) -> Iterator[range]:
    """Yield the runs of a text such as `0,3-5`; what is no run is left out."""
    for each in text(stated).split(",", MAX_RUNS + 1):
        if (found := _INDEX_RUN.fullmatch(each)) is not None:
            yield range(int(found[1]), int(found[2] or found[1]) + 1)

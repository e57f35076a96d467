"""The patch of a job: annotations that are set on its pod templates, and stale ones removed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from topo.gangs.admission import scheduling_groups
from topo.gangs.admission.job_gang import JobGang
from topo.gangs.admission.user_annotations import UserAnnotations, annotated_places
from topo.gangs.annotation_keys import ONE_BY_ONE, AnnotationKeys
from topo.gangs.job_kinds.templates import JobParts, Template
from topo.gangs.json_patch import Operation, Path, entries, remove


def pod_annotations(
    gang: JobGang, asked: UserAnnotations, keys: AnnotationKeys
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the path of each template, and the annotations for its pods."""
    offset = 0
    word = ONE_BY_ONE if any(each.is_one_by_one for each in gang.waits) else "true"
    more = {keys.is_late: word} if gang.waits else {}
    more |= {keys.kind: gang.kind} if gang.kind else {}
    for chooser in gang.choosers:
        yield chooser.path, {**asked.values, **gang.stamp().annotations(keys), **more}
    for each in gang.members:
        template = each.template
        stamp = replace(
            gang.stamp(offset),
            pods_of_repeat=template.pods_of_repeat,
            first_index=template.first_index,
        )
        values = {**asked.values, **stamp.annotations(keys), **more}
        if each.claimed or keys.claimed_gpus in template.annotations:
            values[keys.claimed_gpus] = str(each.claimed)
        yield template.path, values
        offset += template.pods


def patch_of(
    job: Mapping[str, Any],
    parts: JobParts,
    wanted: Iterable[tuple[Path, dict[str, str]]],
    keys: AnnotationKeys,
) -> tuple[Operation, ...]:
    """Return the operations that set the annotations of each place.

    What a stamp may lack is removed where it was copied with a template.
    """
    found: list[Operation] = []
    before = dict(annotated_places(job, parts))
    for at, values in wanted:
        path = (*at, "metadata", "annotations")
        found += entries(job, path, values)
        stale = (key for key in keys.of_some_stamps if key in before[at] and key not in values)
        found += (remove((*path, key)) for key in stale)
    return (*found, *parts.more)


def without(job: Mapping[str, Any], parts: JobParts, names: Iterable[str]) -> Iterator[Operation]:
    """Yield the operations that remove these annotations."""
    for path, annotations in annotated_places(job, parts):
        for name in names:
            if name in annotations:
                yield remove((*path, "metadata", "annotations", name))


def without_copied_group(
    job: Mapping[str, Any], parts: JobParts, keys: AnnotationKeys
) -> tuple[Operation, ...]:
    """Return the operations that remove the PodGroup of the job that this one is a copy of."""
    fields = scheduling_groups.without_copied_group(parts.single, keys)
    return (*fields, *without(job, parts, (keys.pod_group, keys.topology_key)))


def notes_of_refusal(
    job: Mapping[str, Any], templates: Sequence[Template], keys: AnnotationKeys, why: str
) -> Iterator[Operation]:
    """Yield the operations that note why pods get no groups.

    The note goes on the templates that ask for groups, or on the first template if only the job
    asks: one pod is enough to identify the job.
    """
    asking = [each for each in templates if keys.size in each.annotations]
    for each in asking or templates[:1]:
        yield from entries(job, (*each.path, "metadata", "annotations"), {keys.ungrouped: why})

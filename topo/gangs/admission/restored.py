"""A job that is changed: its templates keep the stamps that they got at its creation.

    the workers of a RayCluster, stamped; `kubectl apply` sends their list again, without stamps
    → each template has the stamp of the template of its name before

A list of templates is one value to a merge patch and to a server-side apply, so whoever applies a
job again takes the stamps away, even with no change at all: later pods would have no groups, and
the controllers that let no template change would refuse it. What was stamped stays as long as the
job asks for groups at all. Words of the user that differ now are not heeded, with a warning: pods
that run were placed by those before. A template of a new name gets no stamp. So the size in a stamp
is that at the creation; the size now is read from the job (`topo.gangs.job_ranks`).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from topo.gangs.admission.kueue_slices import OF_SLICES
from topo.gangs.admission.outcome import UNCHANGED, AdmissionOutcome, Result
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.templates import JobParts, Template
from topo.gangs.json_patch import Operation, entries, mapping


def restore_stamps(
    before: Mapping[str, Any],
    job: Mapping[str, Any],
    read: Callable[[Mapping[str, Any]], JobParts],
    keys: AnnotationKeys,
) -> AdmissionOutcome:
    """Return the outcome for a job as it is to be, of which `before` is the one as it is.

    O(templates).
    """
    stamped = {
        each.name: _stamp(each, keys)
        for each in read(before).templates
        if keys.pods in each.annotations
    }
    templates = read(job).templates
    words = mapping(mapping(job.get("metadata")).get("annotations"))
    if keys.size not in words and not any(keys.size in each.annotations for each in templates):
        return UNCHANGED
    patch: list[Operation] = []
    warnings: list[str] = []
    for each in templates:
        wanted = stamped.get(each.name, {})
        patch += entries(job, (*each.path, "metadata", "annotations"), wanted) if wanted else ()
        warnings += _unheeded({**words, **each.annotations}, wanted, keys)
    result = Result.STAMPED if patch else Result.UNCHANGED
    return AdmissionOutcome(result, tuple(patch), tuple(dict.fromkeys(warnings)))


def _stamp(template: Template, keys: AnnotationKeys) -> dict[str, str]:
    """Return what the webhook wrote on a template, with the words that it was asked by."""
    ours = (*keys.asked, *keys.of_stamp, keys.pod_group, keys.topology_key, *OF_SLICES)
    found = template.annotations
    return {key: each for key in ours if isinstance(each := found.get(key), str)}


def _unheeded(
    words: Mapping[str, Any], wanted: Mapping[str, str], keys: AnnotationKeys
) -> Iterator[str]:
    for key in keys.asked:
        if wanted and key in words and words[key] != wanted.get(key):
            first = f"with {wanted[key]}" if key in wanted else "without it"
            yield f"{key} is not heeded now: the job was made {first}; make it again to change it"

"""What the user of a job asks for: our annotations on the job and on its pod templates.

One that stands at several places has to have one value there; otherwise the job is refused.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from topo.gangs.admission.outcome import Rules
from topo.gangs.annotation_keys import ASCEND_RESOURCES, SP_BLOCK, AnnotationKeys
from topo.gangs.job_kinds.templates import JobParts, field_path
from topo.gangs.json_patch import Path, mapping
from topo.gangs.terms import GroupTerms, read_terms, shown
from topo.model.errors import BrokenInvariantError, Refusal


@dataclass(frozen=True, slots=True)
class UserAnnotations:
    """The user's annotations, and for each the place where it was found first."""

    values: dict[str, Any]
    places: dict[str, str]


def read_user_annotations(
    job: Mapping[str, Any], parts: JobParts, rules: Rules
) -> UserAnnotations | Refusal | None:
    """Return the annotations of the job and its templates; a refusal if two of them differ.

    Where NPUs of Ascend are placed, `SP_BLOCK` is the group size of a job that has none of ours.
    """
    places, keys = annotated_places(job, parts), rules.keys
    found = UserAnnotations({}, {})
    names = [(name, name) for name in keys.asked]
    if any(each.startswith(ASCEND_RESOURCES) for each in rules.gpu_resources):
        names.append((keys.size, SP_BLOCK))
    for meaning, name in names:
        if name != meaning and meaning in found.values:
            continue
        for path, values in places:
            if name not in values:
                continue
            first = found.values.setdefault(meaning, values[name])
            at = found.places.setdefault(meaning, _place(path, name))
            if values[name] != first:
                what = f"{name} is {shown(first)} at {at} and {shown(values[name])} here"
                return Refusal(what, _place(path, name), "give it once")
    return found if keys.size in found.values else None


def annotated_places(
    job: Mapping[str, Any], parts: JobParts
) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the annotations of the job, then those of its templates, each with its path."""
    of_job = mapping(mapping(job.get("metadata")).get("annotations"))
    of_templates = ((each.path, each.annotations) for each in parts.templates)
    return [((), of_job), *parts.places, *of_templates]


def _place(path: Path, name: str) -> str:
    return f"{field_path((*path, 'metadata', 'annotations'))}[{name}]"


def group_terms(asked: UserAnnotations, keys: AnnotationKeys) -> GroupTerms | Refusal:
    """Return the terms of the groups; a refusal names the place of the annotation in the job."""
    terms = read_terms(asked.values, keys)
    if isinstance(terms, GroupTerms):
        return terms
    if terms is None:
        raise BrokenInvariantError("a size that was found is not read")
    return Refusal(terms.what, asked.places[terms.where], terms.fix)

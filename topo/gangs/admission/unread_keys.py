"""Warnings about keys of a new job that look like ours and are not read as their user means.

    metax-tech.com/gpu-groupsize: "8"   → did you mean metax-tech.com/gpu-group-size?
    the size as a label                 → give it as an annotation
    metax-tech.com/gpu-group-wait: "10" → is taken as 10 s; write the unit

Without a warning such a job runs without groups, or with other terms, and nobody is told.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.templates import Template, field_path
from topo.gangs.json_patch import Path, mapping, scalar_text
from topo.gangs.terms import shown
from topo.model.nearest import nearest

MOST = 5
"""Warnings of one job; API servers cut longer lists."""
MAX_COMPARED = 64
"""Keys that are compared with ours: a comparison takes some 50 µs."""
LIKENESS = 0.8
"""The least likeness of a misspelt name; `gpu-group-size` and `gpu-size` have 0.73."""


def warnings(
    job: Mapping[str, Any], templates: Iterable[Template], keys: AnnotationKeys
) -> tuple[str, ...]:
    """Return at most `MOST` warnings, each once; O(keys of the job and its templates)."""
    found = dict.fromkeys(islice(_unread(_places(job, templates), keys), MAX_COMPARED))
    return tuple(text for text in found if text)[:MOST]


def _places(
    job: Mapping[str, Any], templates: Iterable[Template]
) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    """Yield the path and the metadata of the job, then of its templates."""
    yield ("metadata",), mapping(job.get("metadata"))
    for each in templates:
        yield (*each.path, "metadata"), each.metadata


def _unread(
    places: Iterable[tuple[Path, Mapping[str, Any]]], keys: AnnotationKeys
) -> Iterator[str]:
    """Yield a warning for each key that looks like ours, empty where it is none of ours."""
    known = {key.rpartition("/")[2]: key for key in keys.asked}
    ours = {*keys.asked, *keys.of_stamp, keys.ungrouped, keys.group, keys.rank, keys.placement}
    ours |= {keys.hold, keys.gang_name, keys.pod_group, keys.topology_key, keys.of_pod_group}
    for path, metadata in places:
        annotations, labels = mapping(metadata.get("annotations")), mapping(metadata.get("labels"))
        if scalar_text(annotations.get(keys.wait)).strip().isdecimal():
            value = annotations[keys.wait]
            yield f"{keys.wait} is {shown(value)}, taken as seconds: write the unit, such as 10m"
        for key in labels:
            if key in keys.asked:
                where = field_path((*path, "labels"))
                yield f"{where}[{key}] is a label, which is not read: give it as an annotation"
        for kind, values in (("annotations", annotations), ("labels", labels)):
            for key in values:
                domain, _, name = key.rpartition("/")
                if key in ours or (domain != keys.domain and "gpu-group" not in name):
                    continue
                meant = known.get(nearest(name, known, LIKENESS), "")
                where = f"{field_path((*path, kind))}[{shown(key)[1:-1]}]"
                yield f"{where} is not read: did you mean {meant}?" if meant else ""

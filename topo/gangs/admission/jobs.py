"""A job at its creation: the stamps of its pod templates, and how many pods start together.

    tasks master (1 pod) and worker (7), gpu-group-size 16 on master, 8 GPUs each
    → on both: gpu-group-size 16, gang-pods 8, gang-pods-per-group 2;
      gang-rank-offset 0 on master, 1 on worker; minAvailable 8 where the user gave none

Ranks are numbered over the templates in order; templates without GPUs have no ranks. Where pods
take different numbers of GPUs, each is planned as one of the largest: a warning says so. A job that
has the right stamps is not patched. A job that gets no groups loses stamps copied from another job,
because its pods would wait for ever; its pods get an annotation with the reason instead. For a
native job, whose nodes Volcano chooses, the job itself is stamped too, so that it stays native if
the default changes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topo.gangs.admission import (
    kueue_slices,
    native_jobs,
    scheduling_groups,
    uncounted,
    unread_keys,
)
from topo.gangs.admission.claimed import UnknownTemplate, gpus_of
from topo.gangs.admission.outcome import UNCHANGED, UNDECIDED, AdmissionOutcome, Result, Rules
from topo.gangs.annotation_keys import ASCEND_RESOURCES, SP_BLOCK, AnnotationKeys
from topo.gangs.job_kinds.job_kind import Relay
from topo.gangs.job_kinds.templates import (
    JobParts,
    Template,
    Wait,
    field_path,
    too_many_containers,
)
from topo.gangs.json_patch import Operation, Path, entries, mapping, remove, sequence
from topo.gangs.stamp import Stamp
from topo.gangs.terms import GroupTerms, Way, read_terms, shown
from topo.model.errors import BrokenInvariantError, Refusal
from topo.model.limits import MAX_PODS_AHEAD
from topo.placement.job.request import Request, flaw

_OF_KUEUE = (
    "{key} is set, by which Kueue chooses nodes, so {size} is left alone; remove one of the two"
)


@dataclass(frozen=True, slots=True)
class _Left:
    """Why a job is left unchanged: its user chooses nodes by other means."""

    text: str


@dataclass(frozen=True, slots=True)
class _Member:
    """A template whose pods take GPUs: those of one pod, and how many of them it claims."""

    template: Template
    gpus: int
    claimed: int


@dataclass(frozen=True, slots=True)
class _Gang:
    """The pods that start together: the terms of their groups, and their templates by rank.

    `warning` says how pods that differ are counted, empty where they do not. `kind` is stamped,
    empty where the controller of the pods is the gang.
    """

    terms: GroupTerms
    members: Sequence[_Member]
    request: Request
    warning: str
    kind: str

    @property
    def templates(self) -> list[Template]:
        """The templates by rank."""
        return [each.template for each in self.members]


@dataclass(frozen=True, slots=True)
class _Asked:
    """The user's annotations, and for each the place where it was found first."""

    values: dict[str, Any]
    places: dict[str, str]


def admit_job(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a job, with warnings about keys that are not read; O(templates)."""
    outcome = _outcome(job, parts, rules)
    texts = unread_keys.warnings(job, parts.templates, rules.keys)
    return replace(outcome, warnings=(*outcome.warnings, *texts)) if texts else outcome


def admit_relayed(
    job: Mapping[str, Any], parts: JobParts, relay: Relay, rules: Rules
) -> AdmissionOutcome:
    """Return the outcome for a job of which a job of another kind is made; O(annotations)."""
    texts = unread_keys.warnings(job, (), rules.keys)
    asked = _asked(job, parts, rules)
    if asked is None or isinstance(asked, Refusal):
        return replace(UNCHANGED, warnings=texts)
    terms = read_terms(asked.values, rules.keys)
    if not isinstance(terms, GroupTerms):
        return AdmissionOutcome(Result.INVALID, (), texts, _placed(terms, asked))
    slices: Mapping[str, str] | Refusal = {}
    if (terms.way or rules.way) is Way.NATIVE and kueue_slices.is_queued(job, parts):
        if not rules.tiers:
            return replace(UNDECIDED, warnings=texts)
        slices = _slices_of_relayed(job, parts, asked, rules)
    if isinstance(slices, Refusal):
        return AdmissionOutcome(Result.INVALID, (), texts, slices)
    patch = relay(job, asked.values, slices, rules.keys.domain)
    return AdmissionOutcome(Result.STAMPED if patch else Result.UNCHANGED, patch, texts)


def _slices_of_relayed(
    job: Mapping[str, Any], parts: JobParts, asked: _Asked, rules: Rules
) -> Mapping[str, str] | Refusal:
    """Return what its pods ask of Kueue, as their own job will be stamped once it is made."""
    namespace = str(mapping(job.get("metadata")).get("namespace") or "")
    gang = _gang(parts, asked, rules, namespace)
    if isinstance(gang, Refusal):
        return gang
    if not isinstance(gang, _Gang):
        what = "only its runtime says how many pods it has, and Kueue is asked in numbers of them"
        fix = f"write spec.trainer.numNodes, or {rules.keys.way}: nomination"
        return Refusal(what, asked.places[rules.keys.size], fix)
    return kueue_slices.podset_slices(
        gang.request, gang.terms, rules, asked.places, templates=gang.templates
    )


def _outcome(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> AdmissionOutcome:
    asked = _asked(job, parts, rules)
    if asked is None or _is_stamped_from_above(job, parts, rules.keys):
        return UNCHANGED
    found = asked if isinstance(asked, Refusal) else _stamped(job, parts, asked, rules)
    if found is None:
        return UNDECIDED
    is_awaited = isinstance(found, UnknownTemplate)
    if isinstance(found, UnknownTemplate):
        found = found.refusal
    keys, templates = rules.keys, parts.templates
    if isinstance(found, AdmissionOutcome):
        patch = (*found.patch, *_without(job, parts, (keys.ungrouped,)))
        result = found.result if patch else Result.UNCHANGED
        return replace(found, result=result, patch=patch)
    why = found.text if isinstance(found, _Left) else str(found)
    patch = (
        *_without(job, parts, keys.of_stamp),
        *_without_copied_group(job, parts, keys),
        *_ungrouped(job, templates, keys, why),
    )
    if isinstance(found, _Left):
        return AdmissionOutcome(Result.LEFT, patch, (found.text,))
    result = Result.AWAITED if is_awaited else Result.INVALID
    return AdmissionOutcome(result, patch, refusal=found)


def _is_stamped_from_above(job: Mapping[str, Any], parts: JobParts, keys: AnnotationKeys) -> bool:
    """Return whether the job is a part of another one, whose stamps its templates have."""
    owners = map(mapping, sequence(mapping(job.get("metadata")).get("ownerReferences")))
    if not any(each.get("controller") for each in owners):
        return False
    kinds = (each.annotations.get(keys.kind, parts.stamped_kind) for each in parts.templates)
    return any(kind != parts.stamped_kind for kind in kinds)


def _asked(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> _Asked | Refusal | None:
    """Return the annotations of the job and its templates; a refusal if two of them differ.

    Where NPUs of Ascend are placed, `SP_BLOCK` is the group size of a job that has none of ours.
    """
    places, keys = _annotated(job, parts), rules.keys
    found = _Asked({}, {})
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


def _annotated(job: Mapping[str, Any], parts: JobParts) -> list[tuple[Path, Mapping[str, Any]]]:
    """Return the annotations of the job, then those of its templates, each with its path."""
    of_job = mapping(mapping(job.get("metadata")).get("annotations"))
    of_templates = ((each.path, each.annotations) for each in parts.templates)
    return [((), of_job), *parts.places, *of_templates]


def _place(path: Path, name: str) -> str:
    return f"{field_path((*path, 'metadata', 'annotations'))}[{name}]"


def _stamped(
    job: Mapping[str, Any], parts: JobParts, asked: _Asked, rules: Rules
) -> AdmissionOutcome | Refusal | UnknownTemplate | _Left | None:
    """Return the stamps of a job that asks for groups; None if they are still unknown."""
    namespace = str(mapping(job.get("metadata")).get("namespace") or "")
    gang = _gang(parts, asked, rules, namespace)
    if not isinstance(gang, _Gang):
        return gang
    wanted = _annotations(gang, asked, rules.keys)
    warnings: tuple[str, ...] = (gang.warning,) if gang.warning else ()
    is_nominated = (gang.terms.way or rules.way) is Way.NOMINATION
    is_sliced = not is_nominated and kueue_slices.takes_slices(job)
    if kueue_slices.is_queued(job, parts) and (
        is_sliced or kueue_slices.chosen_by_user(gang.templates, {})
    ):
        return _sliced(job, parts, asked, rules, gang=gang)
    if is_nominated:
        warnings += uncounted.warnings(gang.templates)
        held = kueue_slices.held(job, parts, rules)
        return AdmissionOutcome(
            Result.STAMPED, (*_nominated(job, parts, wanted, rules), *held), warnings
        )
    if parts.single is not None and rules.makes_groups:
        return _native_group(job, parts, asked, rules, gang=gang)
    refusal = native_jobs.refusal_for(parts, gang.terms, rules, asked.places)
    if refusal is not None or not rules.tiers:
        return refusal
    way = {rules.keys.way: Way.NATIVE.value}
    of_job = {**asked.values, **_stamp(gang.request, 0).annotations(rules.keys)}
    everywhere = [((), of_job), *wanted]
    patch = _patch(job, parts, ((at, {**values, **way}) for at, values in everywhere), rules.keys)
    patch += _without_copied_group(job, parts, rules.keys)
    warnings += tuple(native_jobs.warnings(gang.request, gang.terms, rules))
    return AdmissionOutcome(Result.STAMPED, patch, warnings)


def _sliced(
    job: Mapping[str, Any], parts: JobParts, asked: _Asked, rules: Rules, *, gang: _Gang
) -> AdmissionOutcome | Refusal | _Left | None:
    """Return the stamps of a job whose nodes Kueue chooses, by the slices of its pod sets.

    One that asks Kueue by itself is left alone: two that choose its nodes would contradict.
    """
    keys = rules.keys
    is_nominated = (gang.terms.way or rules.way) is Way.NOMINATION
    if is_nominated or not kueue_slices.takes_slices(job):
        key = kueue_slices.chosen_by_user(gang.templates, {})
        return _Left(_OF_KUEUE.format(key=key, size=keys.size))
    if not rules.tiers:
        return None
    slices = kueue_slices.podset_slices(
        gang.request, gang.terms, rules, asked.places, templates=gang.templates
    )
    if isinstance(slices, Refusal):
        return slices
    if key := kueue_slices.chosen_by_user(gang.templates, slices):
        return _Left(_OF_KUEUE.format(key=key, size=keys.size))
    more = {keys.way: Way.NATIVE.value, **slices}
    if kueue_slices.SLICE_LEVEL in slices:
        more[keys.topology_key] = slices[kueue_slices.SLICE_LEVEL]
    first = {each.path: kueue_slices.first_index(each) for each in gang.templates}
    wanted = (
        (at, {**values, **more, **first[at]}) for at, values in _annotations(gang, asked, keys)
    )
    patch = (
        *_patch(job, parts, wanted, keys),
        *scheduling_groups.without_copied_group(parts.single, keys),
        *_without(job, parts, (keys.pod_group,)),
    )
    warnings = (gang.warning,) if gang.warning else ()
    if gang.terms.wait_s is not None:
        warnings = (*warnings, f"{keys.wait} does nothing here: what Kueue is asked for stays")
    return AdmissionOutcome(Result.STAMPED, patch, warnings)


def _native_group(
    job: Mapping[str, Any], parts: JobParts, asked: _Asked, rules: Rules, *, gang: _Gang
) -> AdmissionOutcome | Refusal | _Left | None:
    """Return the stamps of a job whose nodes kube-scheduler chooses, by its PodGroup."""
    if not rules.tiers:
        return None
    keys = rules.keys
    key = native_jobs.topology_key(gang.request, gang.terms, rules, asked.places)
    if isinstance(key, Refusal):
        return key
    name, named = scheduling_groups.name_group(job, parts.single, rules)
    if not name:
        return _Left(f"schedulingGroup is set, so {keys.size} is left alone; remove one of the two")
    more = {keys.way: Way.NATIVE.value, keys.pod_group: name}
    more |= {keys.topology_key: key} if key else {}
    wanted = _annotations(gang, asked, keys)
    patch = _patch(job, parts, ((at, {**values, **more}) for at, values in wanted), keys)
    warnings = (gang.warning,) if gang.warning else ()
    if gang.terms.wait_s is not None:
        warnings = (*warnings, f"{keys.wait} does nothing here: the PodGroup stays as it is")
    return AdmissionOutcome(Result.STAMPED, (*patch, *named), warnings)


def _nominated(
    job: Mapping[str, Any],
    parts: JobParts,
    wanted: Iterable[tuple[Path, dict[str, str]]],
    rules: Rules,
) -> tuple[Operation, ...]:
    """Return the patch of a job whose pods are nominated, with the PodGroup that it gets."""
    name, named = scheduling_groups.name_group(job, parts.single, rules)
    if name:
        wanted = [(at, {**values, rules.keys.pod_group: name}) for at, values in wanted]
        copied = _without(job, parts, (rules.keys.topology_key,))
        return (*_patch(job, parts, wanted, rules.keys), *named, *copied)
    patch = _patch(job, parts, wanted, rules.keys)
    return (*patch, *_without_copied_group(job, parts, rules.keys))


def _without_copied_group(
    job: Mapping[str, Any], parts: JobParts, keys: AnnotationKeys
) -> tuple[Operation, ...]:
    """Return the operations that remove the PodGroup of the job that this one is a copy of."""
    fields = scheduling_groups.without_copied_group(parts.single, keys)
    return (*fields, *_without(job, parts, (keys.pod_group, keys.topology_key)))


def _gang(
    parts: JobParts, asked: _Asked, rules: Rules, namespace: str
) -> _Gang | Refusal | UnknownTemplate | _Left:
    """Return the gang that the job becomes, or why it cannot become one."""
    keys = rules.keys
    terms = read_terms(asked.values, keys)
    if not isinstance(terms, GroupTerms):
        return _placed(terms, asked)
    own = parts.own or _own_node(parts.templates)
    if own or parts.flaw is not None:
        return parts.flaw or _Left(f"{own}, so {keys.size} is left alone; remove one of the two")
    members = _members(parts.templates, rules, namespace)
    if isinstance(members, Refusal | UnknownTemplate):
        return members
    if (refusal := _disorder([each.template for each in members])) is not None:
        return refusal
    pods = sum(each.template.pods for each in members)
    if not pods:
        return _Left(f"the job has no pods yet; those that it gets run without {keys.size}")
    most = max(each.gpus for each in members)
    request = Request(pods=pods, gpus_per_pod=most, group_size=terms.group_size)
    misfit = _misfit(request, keys, asked.places[keys.size])
    return misfit or _Gang(terms, members, request, _unlike(members), parts.stamped_kind)


def _unlike(members: Sequence[_Member]) -> str:
    """Return how pods that take different numbers of GPUs are counted; empty for equal ones."""
    most = max(each.gpus for each in members)
    fewer = [f"{each.template.name} {each.gpus}" for each in members if each.gpus < most]
    if not fewer:
        return ""
    return f"of pods with fewer GPUs ({', '.join(fewer)}) each is planned as one of {most} GPUs"


def _patch(
    job: Mapping[str, Any],
    parts: JobParts,
    wanted: Iterable[tuple[Path, dict[str, str]]],
    keys: AnnotationKeys,
) -> tuple[Operation, ...]:
    """Return the operations that set the annotations of each place.

    What a stamp may lack is removed where it was copied with a template.
    """
    found: list[Operation] = []
    before = dict(_annotated(job, parts))
    for at, values in wanted:
        path = (*at, "metadata", "annotations")
        found += entries(job, path, values)
        stale = (key for key in keys.of_some_stamps if key in before[at] and key not in values)
        found += (remove((*path, key)) for key in stale)
    return (*found, *parts.more)


def _placed(refused: Refusal | None, asked: _Asked) -> Refusal:
    if refused is None:
        raise BrokenInvariantError("a size that was found is not read")
    return Refusal(refused.what, asked.places[refused.where], refused.fix)


def _annotations(
    gang: _Gang, asked: _Asked, keys: AnnotationKeys
) -> Iterator[tuple[Path, dict[str, str]]]:
    """Yield the path of each template, and the annotations for its pods."""
    offset = 0
    is_late = {keys.is_late: "true"} if any(_late(gang.templates)) else {}
    for each in gang.members:
        template = each.template
        stamp = replace(
            _stamp(gang.request, offset),
            pods_of_repeat=template.pods_of_repeat,
            first_index=template.first_index,
        )
        values = {**asked.values, **stamp.annotations(keys), **is_late}
        if gang.kind:
            values[keys.kind] = gang.kind
        if each.claimed or keys.claimed_gpus in template.annotations:
            values[keys.claimed_gpus] = str(each.claimed)
        yield template.path, values
        offset += template.pods


def _stamp(request: Request, offset: int) -> Stamp:
    return Stamp(request.pods, offset, request.pods_per_group)


def _members(
    templates: Sequence[Template], rules: Rules, namespace: str
) -> Sequence[_Member] | Refusal | UnknownTemplate:
    """Return the templates whose pods take GPUs; or a refusal.

    It is refused if no pod takes any, or if there are too many containers.
    """
    refusal = too_many_containers(sum(each.containers for each in templates))
    if refusal is not None:
        return refusal
    members: list[_Member] = []
    for each in templates:
        path = (*each.path, "spec")
        found = gpus_of(each.spec, namespace, rules, path)
        if isinstance(found, Refusal | UnknownTemplate):
            return found
        if found.gpus:
            members.append(_Member(each, found.gpus, found.claimed))
    if not members:
        fix = f"give the containers a limit of {rules.gpu_resources[0]}, or claims of GPUs"
        return Refusal("no pod takes whole GPUs", "spec", fix)
    return members


def _disorder(templates: Sequence[Template]) -> Refusal | None:
    """Return why the pods of these templates have no ranks or are never planned together."""
    names = {each.name for each in templates}
    for each in templates:
        if each.flaw is not None:
            return each.flaw
        if each.waits is not None and each.waits.until_ended and (names & each.waits.names):
            return each.waits.refusal(each.name, min(names & each.waits.names))
    pods = sum(each.pods for each in templates)
    if pods > MAX_PODS_AHEAD and (late := next(_late(templates), None)) is not None:
        what = f"places are kept for at most {MAX_PODS_AHEAD} pods, and the job has {pods}"
        return Refusal(what, late.where, late.fix)
    return None


def _late(templates: Sequence[Template]) -> Iterator[Wait]:
    """Yield why some of the pods are made only once others of them run."""
    names = {each.name for each in templates}
    waits = (each.waits for each in templates if each.waits is not None)
    return (each for each in waits if names & each.names)


def _misfit(request: Request, keys: AnnotationKeys, where: str) -> Refusal | None:
    """Return why pods of this size cannot fill a group; None if they can."""
    size, gpus = request.group_size or 0, request.gpus_per_pod
    if size % gpus:
        below, above = size - size % gpus, size - size % gpus + gpus
        what = f"{keys.size} {size} is no multiple of the {gpus} GPUs of a pod"
        return Refusal(what, where, f"give {f'{below} or {above}' if below else above}")
    return flaw(request)


def _own_node(templates: Sequence[Template]) -> str:
    for each in templates:
        if each.spec.get("nodeName"):
            return f"{field_path(each.path)}.spec.nodeName is set"
    return ""


def _ungrouped(
    job: Mapping[str, Any], templates: Sequence[Template], keys: AnnotationKeys, why: str
) -> Iterator[Operation]:
    """Yield the operations that note why pods get no groups.

    The note goes on the templates that ask for groups, or on the first template if only the job
    asks: one pod is enough to identify the job.
    """
    asking = [each for each in templates if keys.size in each.annotations]
    for each in asking or templates[:1]:
        yield from entries(job, (*each.path, "metadata", "annotations"), {keys.ungrouped: why})


def _without(job: Mapping[str, Any], parts: JobParts, names: Iterable[str]) -> Iterator[Operation]:
    """Yield the operations that remove these annotations."""
    for path, annotations in _annotated(job, parts):
        for name in names:
            if name in annotations:
                yield remove((*path, "metadata", "annotations", name))

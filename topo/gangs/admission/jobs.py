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

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from topo.gangs.admission import (
    kueue_slices,
    native_jobs,
    scheduling_groups,
    uncounted,
    unread_keys,
)
from topo.gangs.admission.claimed import UnknownTemplate
from topo.gangs.admission.job_gang import JobGang, LeftAlone, gang_of_job
from topo.gangs.admission.job_patch import (
    notes_of_refusal,
    patch_of,
    pod_annotations,
    without,
    without_copied_group,
)
from topo.gangs.admission.outcome import UNCHANGED, UNDECIDED, AdmissionOutcome, Result, Rules
from topo.gangs.admission.user_annotations import (
    UserAnnotations,
    group_terms,
    read_user_annotations,
)
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.job_kind import Relay
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.json_patch import Operation, Path, mapping, sequence, text
from topo.gangs.terms import Way
from topo.model.errors import Refusal

_OF_KUEUE = (
    "{key} is set, by which Kueue chooses nodes, so {size} is left alone; remove one of the two"
)
_OF_CONTROLLER = (
    "exclusive-topology is set, by which the job's controller chooses domains that its scheduler"
    " does not know, so {size} is left alone; write {way}: nomination"
)


def admit_job(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> AdmissionOutcome:
    """Return the outcome for a job, with warnings about keys that are not read; O(templates)."""
    outcome = _outcome(job, parts, rules)
    texts = unread_keys.warnings(job, parts.templates, rules.keys)
    return replace(outcome, warnings=(*outcome.warnings, *texts)) if texts else outcome


def admit_relayed(
    job: Mapping[str, Any], parts: JobParts, relay: Relay, rules: Rules
) -> AdmissionOutcome:
    """Return the outcome for a job of which a job of another kind is made; O(templates).

    That one is refused as well where it cannot be, but to a controller, which reads no warnings.
    """
    texts = unread_keys.warnings(job, parts.templates, rules.keys)
    asked = read_user_annotations(job, parts, rules)
    if asked is None or isinstance(asked, Refusal):
        return replace(UNCHANGED, warnings=texts)
    terms = group_terms(asked, rules.keys)
    if isinstance(terms, Refusal):
        return AdmissionOutcome(Result.INVALID, (), texts, terms)
    slices: Mapping[str, str] | Refusal = {}
    if (terms.way or rules.way) is Way.NATIVE and kueue_slices.hands_slices(job, parts):
        if not rules.tiers:
            return replace(UNDECIDED, warnings=texts)
        slices = _slices_of_relayed(job, parts, asked, rules)
    if isinstance(slices, Refusal):
        return AdmissionOutcome(Result.INVALID, (), texts, slices)
    patch = relay(job, asked.values, slices, rules.keys.domain)
    gang = _gang_of_relayed(job, parts, asked, rules) if parts.is_complete else None
    if isinstance(gang, Refusal):
        return AdmissionOutcome(Result.INVALID, patch, texts, gang)
    return AdmissionOutcome(Result.STAMPED if patch else Result.UNCHANGED, patch, texts)


def _gang_of_relayed(
    job: Mapping[str, Any], parts: JobParts, asked: UserAnnotations, rules: Rules
) -> JobGang | Refusal | None:
    """Return the gang that the job will be as far as it says so itself; None for none."""
    namespace = text(mapping(job.get("metadata")).get("namespace"))
    gang = gang_of_job(parts, asked, rules, namespace)
    return gang if isinstance(gang, JobGang | Refusal) else None


def _slices_of_relayed(
    job: Mapping[str, Any], parts: JobParts, asked: UserAnnotations, rules: Rules
) -> Mapping[str, str] | Refusal:
    """Return what its pods ask of Kueue, as their own job will be stamped once it is made."""
    gang = _gang_of_relayed(job, parts, asked, rules)
    if isinstance(gang, Refusal):
        return gang
    if not isinstance(gang, JobGang):
        what = "only its runtime says how many pods it has, and Kueue is asked in numbers of them"
        fix = f"write spec.trainer.numNodes, or {rules.keys.way}: nomination"
        return Refusal(what, asked.places[rules.keys.size], fix)
    return kueue_slices.podset_slices(
        gang.request, gang.terms, rules, asked.places, templates=gang.templates
    )


def _outcome(job: Mapping[str, Any], parts: JobParts, rules: Rules) -> AdmissionOutcome:
    asked = read_user_annotations(job, parts, rules)
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
        patch = (*found.patch, *without(job, parts, (keys.ungrouped,)))
        result = found.result if patch else Result.UNCHANGED
        return replace(found, result=result, patch=patch)
    why = found.text if isinstance(found, LeftAlone) else str(found)
    patch = (
        *without(job, parts, keys.of_stamp),
        *without_copied_group(job, parts, keys),
        *notes_of_refusal(job, templates, keys, why),
    )
    if isinstance(found, LeftAlone):
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


def _stamped(
    job: Mapping[str, Any], parts: JobParts, asked: UserAnnotations, rules: Rules
) -> AdmissionOutcome | Refusal | UnknownTemplate | LeftAlone | None:
    """Return the stamps of a job that asks for groups; None if they are still unknown."""
    namespace = text(mapping(job.get("metadata")).get("namespace"))
    gang = _gang(parts, asked, rules, namespace)
    if not isinstance(gang, JobGang):
        return gang
    wanted = pod_annotations(gang, asked, rules.keys)
    warnings: tuple[str, ...] = (gang.warning,) if gang.warning else ()
    is_nominated = (gang.terms.way or rules.way) is Way.NOMINATION
    is_sliced = not is_nominated and kueue_slices.takes_slices(job)
    if kueue_slices.is_queued(job, parts) and (
        is_sliced or kueue_slices.chosen_by_user(gang.templates, {})
    ):
        return _sliced(job, parts, asked, rules, gang=gang)
    if is_nominated:
        warnings += uncounted.warnings(gang.templates)
        held = () if gang.request.own_domains else kueue_slices.held(job, parts, rules)
        return AdmissionOutcome(
            Result.STAMPED, (*_nominated(job, parts, wanted, rules), *held), warnings
        )
    if parts.single is not None and rules.makes_groups:
        return _native_group(job, parts, asked, rules, gang=gang)
    refusal = native_jobs.refusal_for(parts, gang.terms, rules, asked.places)
    if refusal is not None or not rules.tiers:
        return refusal
    way = {rules.keys.way: Way.NATIVE.value}
    of_job = {**asked.values, **gang.stamp().annotations(rules.keys)}
    everywhere = [((), of_job), *wanted]
    patch = patch_of(job, parts, ((at, {**values, **way}) for at, values in everywhere), rules.keys)
    patch += without_copied_group(job, parts, rules.keys)
    warnings += tuple(native_jobs.warnings(gang.request, gang.terms, rules))
    return AdmissionOutcome(Result.STAMPED, patch, warnings)


def _gang(
    parts: JobParts, asked: UserAnnotations, rules: Rules, namespace: str
) -> JobGang | Refusal | UnknownTemplate | LeftAlone:
    """Return the gang; a native job is left alone where its controller chooses its domains."""
    gang = gang_of_job(parts, asked, rules, namespace)
    if not isinstance(gang, JobGang) or not gang.request.own_domains:
        return gang
    if (gang.terms.way or rules.way) is Way.NOMINATION:
        return gang
    return LeftAlone(_OF_CONTROLLER.format(size=rules.keys.size, way=rules.keys.way))


def _sliced(
    job: Mapping[str, Any], parts: JobParts, asked: UserAnnotations, rules: Rules, *, gang: JobGang
) -> AdmissionOutcome | Refusal | LeftAlone | None:
    """Return the stamps of a job whose nodes Kueue chooses, by the slices of its pod sets.

    One that asks Kueue by itself is left alone: two that choose its nodes would contradict.
    """
    keys = rules.keys
    is_nominated = (gang.terms.way or rules.way) is Way.NOMINATION
    if is_nominated or not kueue_slices.takes_slices(job):
        key = kueue_slices.chosen_by_user(gang.templates, {})
        return LeftAlone(_OF_KUEUE.format(key=key, size=keys.size))
    if not rules.tiers:
        return None
    slices = kueue_slices.podset_slices(
        gang.request, gang.terms, rules, asked.places, templates=gang.templates
    )
    if isinstance(slices, Refusal):
        return slices
    if key := kueue_slices.chosen_by_user(gang.templates, slices):
        return LeftAlone(_OF_KUEUE.format(key=key, size=keys.size))
    more = {keys.way: Way.NATIVE.value, **slices}
    if kueue_slices.SLICE_LEVEL in slices:
        more[keys.topology_key] = slices[kueue_slices.SLICE_LEVEL]
    first = {each.path: kueue_slices.first_index(each) for each in gang.templates}
    wanted = (
        (at, {**values, **more, **first[at]}) for at, values in pod_annotations(gang, asked, keys)
    )
    patch = (
        *patch_of(job, parts, wanted, keys),
        *scheduling_groups.without_copied_group(parts.single, keys),
        *without(job, parts, (keys.pod_group,)),
    )
    warnings: tuple[str, ...] = (gang.warning,) if gang.warning else ()
    warnings += kueue_slices.replacement_warnings(job, gang.templates, slices)
    if gang.terms.wait_s is not None:
        warnings = (*warnings, f"{keys.wait} does nothing here: what Kueue is asked for stays")
    return AdmissionOutcome(Result.STAMPED, patch, warnings)


def _native_group(
    job: Mapping[str, Any], parts: JobParts, asked: UserAnnotations, rules: Rules, *, gang: JobGang
) -> AdmissionOutcome | Refusal | LeftAlone | None:
    """Return the stamps of a job whose nodes kube-scheduler chooses, by its PodGroup."""
    if not rules.tiers:
        return None
    keys = rules.keys
    key = native_jobs.topology_key(gang.request, gang.terms, rules, asked.places)
    if isinstance(key, Refusal):
        return key
    name, named = scheduling_groups.name_group(job, parts.single, rules)
    if not name:
        return LeftAlone(
            f"schedulingGroup is set, so {keys.size} is left alone; remove one of the two"
        )
    more = {keys.way: Way.NATIVE.value, keys.pod_group: name}
    more |= {keys.topology_key: key} if key else {}
    wanted = pod_annotations(gang, asked, keys)
    patch = patch_of(job, parts, ((at, {**values, **more}) for at, values in wanted), keys)
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
        copied = without(job, parts, (rules.keys.topology_key,))
        return (*patch_of(job, parts, wanted, rules.keys), *named, *copied)
    patch = patch_of(job, parts, wanted, rules.keys)
    return (*patch, *without_copied_group(job, parts, rules.keys))

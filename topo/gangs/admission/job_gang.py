"""The gang that a job becomes: its templates with GPUs by rank, and the request for its groups.

A job becomes none if its user chooses nodes by other means, or if its pods cannot fill groups.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd

from topo.gangs.admission.claimed import UnknownTemplate, gpus_of
from topo.gangs.admission.outcome import Rules
from topo.gangs.admission.user_annotations import UserAnnotations, group_terms
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.templates import (
    JobParts,
    Template,
    Wait,
    field_path,
    too_many_containers,
)
from topo.gangs.stamp import MAX_DOMAINS, Stamp, decode_own_domains, encode_own_domains
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.model.limits import MAX_PODS_AHEAD
from topo.placement.job.request import OwnDomains, Request, flaw


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """Why a job is left unchanged: its user chooses nodes by other means."""

    text: str


@dataclass(frozen=True, slots=True)
class GpuTemplate:
    """A template whose pods take GPUs: those of one pod, and how many of them it claims."""

    template: Template
    gpus: int
    claimed: int


@dataclass(frozen=True, slots=True)
class JobGang:
    """The pods that start together: the terms of their groups, and their templates by rank.

    `warning` says how pods that differ are counted, empty where they do not. `kind` is stamped,
    empty where the controller of the pods is the gang.
    """

    terms: GroupTerms
    members: Sequence[GpuTemplate]
    request: Request
    warning: str
    kind: str

    @property
    def templates(self) -> list[Template]:
        """The templates by rank."""
        return [each.template for each in self.members]

    def stamp(self, first_rank: int = 0) -> Stamp:
        """Return the stamp of the pods that begin at this rank."""
        request = self.request
        size, own = request.pods_per_group, request.own_domains
        return Stamp(request.pods, first_rank, size, own_domains=own)


def gang_of_job(
    parts: JobParts, asked: UserAnnotations, rules: Rules, namespace: str
) -> JobGang | Refusal | UnknownTemplate | LeftAlone:
    """Return the gang that the job becomes, or why it cannot become one."""
    keys = rules.keys
    terms = group_terms(asked, keys)
    if isinstance(terms, Refusal):
        return terms
    own = parts.own or _own_node(parts.templates)
    if own or parts.flaw is not None:
        return parts.flaw or LeftAlone(
            f"{own}, so {keys.size} is left alone; remove one of the two"
        )
    members = _members(parts.templates, rules, namespace)
    if isinstance(members, Refusal | UnknownTemplate):
        return members
    if (refusal := _disorder([each.template for each in members])) is not None:
        return refusal
    pods = sum(each.template.pods for each in members)
    if why := _left_alone(parts, members, keys):
        return LeftAlone(why)
    most = max(each.gpus for each in members)
    request = Request(
        pods=pods,
        gpus_per_pod=most,
        group_size=terms.group_size,
        own_domains=_own_domains(parts, members),
    )
    misfit = _misfit(request, keys, asked.places[keys.size])
    return misfit or JobGang(terms, members, request, _unlike(members), parts.stamped_kind)


def _left_alone(parts: JobParts, members: Sequence[GpuTemplate], keys: AnnotationKeys) -> str:
    """Return why the job is left alone, now that the templates with GPUs are known; else empty."""
    if not any(each.template.pods for each in members):
        return f"the job has no pods yet; those that it gets run without {keys.size}"
    names = {each.template.name for each in members}
    for each in parts.own_domains:
        lacking = [name for name in each.templates if name not in names]
        if each.label and 0 < len(lacking) < len(each.templates):
            what = f"the pod of {lacking[0]} chooses the domain of the others and takes no GPUs"
            return f"{what}, so {keys.size} is left alone; give it some"
    return ""


def _own_domains(parts: JobParts, members: Sequence[GpuTemplate]) -> tuple[OwnDomains, ...]:
    """Return the runs of ranks that need domains of their own; empty where none does."""
    names = {each.template.name for each in members}
    found = tuple(
        OwnDomains(each.times, each.pods, each.label)
        for each in parts.own_domains
        if names.issuperset(each.templates) and each.times and each.pods
    )
    return found if any(each.label for each in found) else ()


def _own_node(templates: Sequence[Template]) -> str:
    for each in templates:
        if each.spec.get("nodeName"):
            return f"{field_path(each.path)}.spec.nodeName is set"
    return ""


def _members(
    templates: Sequence[Template], rules: Rules, namespace: str
) -> Sequence[GpuTemplate] | Refusal | UnknownTemplate:
    """Return the templates whose pods take GPUs; or a refusal.

    It is refused if no pod takes any, or if there are too many containers.
    """
    refusal = too_many_containers(sum(each.containers for each in templates))
    if refusal is not None:
        return refusal
    members: list[GpuTemplate] = []
    for each in templates:
        path = (*each.path, "spec")
        found = gpus_of(each.spec, namespace, rules, path)
        if isinstance(found, Refusal | UnknownTemplate):
            return found
        if found.gpus:
            members.append(GpuTemplate(each, found.gpus, found.claimed))
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
    if pods > MAX_PODS_AHEAD and (late := next(waits_for_others(templates), None)) is not None:
        what = f"places are kept for at most {MAX_PODS_AHEAD} pods, and the job has {pods}"
        return Refusal(what, late.where, late.fix)
    return None


def waits_for_others(templates: Sequence[Template]) -> Iterator[Wait]:
    """Yield why some of the pods are made only once others of them run."""
    names = {each.name for each in templates}
    waits = (each.waits for each in templates if each.waits is not None)
    return (each for each in waits if names & each.names)


def _misfit(request: Request, keys: AnnotationKeys, where: str) -> Refusal | None:
    """Return why pods of this size cannot fill a group; None if they can."""
    size, gpus = request.group_size or 0, request.gpus_per_pod
    if size % gpus:
        below, above = size - size % gpus, size - size % gpus + gpus
        what = f"{keys.size} {size} is not a multiple of the {gpus} GPUs of a pod"
        return Refusal(what, where, f"give {f'{below} or {above}' if below else above}")
    return flaw(request) or _crossing(request, where)


def _crossing(request: Request, where: str) -> Refusal | None:
    """Return why groups would be in several domains of their parts' own; None if they are not."""
    runs, gpus = request.own_domains, request.gpus_per_pod
    if not runs:
        return None
    if decode_own_domains(encode_own_domains(runs), request.pods) is None:
        domains = sum(each.times for each in runs if each.label)
        what = (
            f"{domains} parts of the job need a domain each, by {runs[0].label or runs[-1].label}"
        )
        return Refusal(what, where, f"name a label of nodes, and have at most {MAX_DOMAINS} parts")
    ends = accumulate(each.pods for each in runs for _ in range(each.times))
    crossed = [end for end in ends if end % request.pods_per_group and end != request.pods]
    if not crossed:
        return None
    fits = gcd(request.pods_per_group, *crossed) * gpus
    what = f"a group of {request.group_size} GPUs would be in several parts of the job"
    return Refusal(f"{what}, which have domains of their own", where, f"give {fits}")


def _unlike(members: Sequence[GpuTemplate]) -> str:
    """Return how pods that take different numbers of GPUs are counted; empty for equal ones."""
    most = max(each.gpus for each in members)
    fewer = [f"{each.template.name} {each.gpus}" for each in members if each.gpus < most]
    if not fewer:
        return ""
    return f"of pods with fewer GPUs ({', '.join(fewer)}) each is planned as one of {most} GPUs"

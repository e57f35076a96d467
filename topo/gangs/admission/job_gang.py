"""The gang that a job becomes: its templates with GPUs by rank, and the request for its groups.

A job becomes none if its user chooses nodes by other means, or if its pods cannot fill groups.
"""

from collections.abc import Sequence
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
from topo.gangs.json_patch import mapping
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
    empty where the controller of the pods is the gang. `choosers` are the templates of pods without
    GPUs by whose node the domain of others is chosen: they have no ranks.
    """

    terms: GroupTerms
    members: Sequence[GpuTemplate]
    request: Request
    warning: str
    kind: str
    choosers: tuple[Template, ...] = ()

    @property
    def templates(self) -> list[Template]:
        """The templates by rank."""
        return [each.template for each in self.members]

    @property
    def waits(self) -> list[Wait]:
        """Why some of the pods are made only once others of them run."""
        return waits_for_others([*self.choosers, *self.templates])

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
    choosers = _choosers(parts, members)
    if (refusal := _disorder([*choosers, *(each.template for each in members)])) is not None:
        return refusal
    pods = sum(each.template.pods for each in members)
    if why := _left_alone(parts, members, choosers, keys):
        return LeftAlone(why)
    most = max(each.gpus for each in members)
    request = Request(
        pods=pods,
        gpus_per_pod=most,
        group_size=terms.group_size,
        own_domains=_own_domains(parts, members),
    )
    misfit = _misfit(request, keys, asked.places[keys.size])
    return misfit or JobGang(
        terms, members, request, _unlike(members), parts.stamped_kind, tuple(choosers)
    )


def _choosers(parts: JobParts, members: Sequence[GpuTemplate]) -> list[Template]:
    """Return the templates of pods without GPUs by whose node the domain of others is chosen."""
    names = {each.template.name for each in members}
    firsts = {
        each.pods[0][0]
        for each in parts.own_domains
        if each.label and not names.isdisjoint(name for name, _ in each.pods)
    }
    return [each for each in parts.templates if each.name in firsts - names]


def _left_alone(
    parts: JobParts,
    members: Sequence[GpuTemplate],
    choosers: Sequence[Template],
    keys: AnnotationKeys,
) -> str:
    """Return why the job is left alone, now that the templates with GPUs are known; else empty."""
    if not any(each.template.pods for each in members):
        what = f"the job has no pods yet; those that it gets run without {keys.size}"
        return f"{what}, unless it is made again with one at least"
    names = {each.template.name for each in members}
    for each in parts.own_domains:
        first, *others = (name for name, _ in each.pods)
        lacking = [name for name in others if name not in names]
        if each.label and lacking and (first in names or len(lacking) < len(others)):
            what = f"the pods of {lacking[0]} share the domain of others and take no GPUs"
            return f"{what}, so {keys.size} is left alone; give them some"
    for chooser in choosers:
        for field in _NODE_FIELDS:
            if any(_node_field(chooser, field) != _node_field(m.template, field) for m in members):
                what = f"the pod of {chooser.name} chooses the domain of the others, takes no GPUs"
                return (
                    f"{what} and has other {field} than they, so {keys.size} is left alone;"
                    f" give all the same {field}"
                )
    return ""


_NODE_FIELDS = ("nodeSelector", "tolerations", "nodeAffinity")
"""What decides which nodes a pod may use. Of the pods that come later only the first one tells."""


def _node_field(template: Template, name: str) -> object:
    found = template.spec if name != "nodeAffinity" else mapping(template.spec.get("affinity"))
    return found.get(name) or None


def _own_domains(parts: JobParts, members: Sequence[GpuTemplate]) -> tuple[OwnDomains, ...]:
    """Return the runs of ranks that need domains of their own; empty where none does."""
    names = {each.template.name for each in members}
    sizes = [sum(pods for name, pods in each.pods if name in names) for each in parts.own_domains]
    found = tuple(
        OwnDomains(each.times, pods, each.label)
        for each, pods in zip(parts.own_domains, sizes, strict=True)
        if each.times and pods
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
    if pods > MAX_PODS_AHEAD and (late := next(iter(waits_for_others(templates)), None)):
        what = f"places are kept for at most {MAX_PODS_AHEAD} pods, and the job has {pods}"
        return Refusal(what, late.where, late.fix)
    return None


def waits_for_others(templates: Sequence[Template]) -> list[Wait]:
    """Return why some of the pods are made only once others of them run."""
    names = {each.name for each in templates}
    waits = (each.waits for each in templates if each.waits is not None)
    return [each for each in waits if names & each.names]


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

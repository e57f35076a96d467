"""What a ProvisioningRequest asks for: one job of whole groups, from its pod templates.

The size of a group is a parameter of the request or, where it has none, an annotation on a pod
template: `gpu-group-size` without or with the domain. Without either the whole request is one
group. Templates whose pods take no GPUs are left out, because nothing is booked for them.

Example: parameters {gpu-group-size: 16}, templates of 1 and 7 pods with 8 GPUs each
    → 8 pods of 8 GPUs in groups of 16, ranks 0 to 7 in the order of the templates
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import GroupTerms, read_terms, shown
from topo.model.errors import Refusal
from topo.model.pod_requests import Amounts
from topo.placement.job.request import PlacementMode, Request, flaw
from topo.provisioning.course import RequestTimes, read_times

MOST_PODS = 10_000
"""What was booked is written on the request, whose details hold 64 texts of 32,768 characters."""


@dataclass(frozen=True, slots=True)
class TemplatePods:
    """A pod template and the number of its pods: their whole GPUs and annotations."""

    name: str
    pods: int
    gpus: int
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be booked: `takes` is the most that a pod takes of its node beside GPUs."""

    request: Request
    takes: Amounts = ()


@dataclass(frozen=True, slots=True)
class Awaited:
    """What the request names is not there yet."""

    text: str


@dataclass(frozen=True, slots=True)
class NothingToBook:
    """The pods take what they get: nothing is booked, and nothing is waited for."""

    text: str


def read_request(
    parameters: Mapping[str, str], templates: Sequence[TemplatePods], keys: AnnotationKeys
) -> Request | Refusal:
    """Return the job of a request without the nodes that its pods may use; or why there is none."""
    times = read_times(dict(parameters))
    if not isinstance(times, RequestTimes):
        return times
    using = [each for each in templates if each.gpus]
    if not using:
        what = "no pod of the request takes whole GPUs"
        return Refusal(what, "spec.podSets", "name templates whose containers have a limit of them")
    terms = _terms(parameters, using, keys)
    if isinstance(terms, Refusal):
        return terms
    gpus, pods = max(each.gpus for each in using), sum(each.pods for each in using)
    if pods > MOST_PODS:
        what = f"the request is for {pods} pods"
        return Refusal(what, "spec.podSets", f"ask for at most {MOST_PODS} at once")
    size = terms.group_size if terms is not None else None
    if size is not None and size % gpus:
        what = f"{keys.size} {size} is not a multiple of the {gpus} GPUs of a pod"
        return Refusal(what, "spec.parameters", f"give {size - size % gpus + gpus}")
    request = Request(
        pods=pods,
        gpus_per_pod=gpus,
        group_size=size,
        mode=terms.mode if terms is not None else PlacementMode.REQUIRED,
        within=terms.within if terms is not None else None,
    )
    return flaw(request) or request


def _terms(
    parameters: Mapping[str, str], templates: Sequence[TemplatePods], keys: AnnotationKeys
) -> GroupTerms | Refusal | None:
    """Return the terms of the groups; None where neither parameters nor templates name a size."""
    found: dict[str, str] = {}
    for name in (keys.size, keys.mode, keys.within):
        short = name.partition("/")[2]
        stated = {parameters[each] for each in (short, name) if each in parameters}
        if not stated:
            stated = {each.annotations[name] for each in templates if name in each.annotations}
        if len(stated) > 1:
            values = " and ".join(map(shown, sorted(stated)))
            return Refusal(f"{name} is {values}", "spec.podSets", "give it once")
        if stated:
            (found[name],) = stated
    return read_terms(found, keys)

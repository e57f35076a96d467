"""What a ProvisioningRequest asks for: one job of whole groups, from its pod templates.

The terms of the groups are parameters of the request or, where it has none, annotations on a pod
template: `gpu-group-size` and the like, without or with the domain. Without a size the whole
request is one group. Templates whose pods take no GPUs are left out, because nothing is booked for
them. A parameter that looks like a misspelt one of ours is refused: others than ours are not read.

Example: parameters {gpu-group-size: 16}, templates of 1 and 7 pods with 8 GPUs each
    → 8 pods of 8 GPUs in groups of 16, ranks 0 to 7 in the order of the templates
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.terms import read_terms, shown
from topo.model.errors import Refusal
from topo.model.ids import Kind
from topo.model.nearest import nearest
from topo.model.pod_requests import Amounts
from topo.placement.job.request import PlacementMode, Request, flaw
from topo.provisioning.course import BOOKING, VALID, RequestTimes, read_times

MOST_PODS = 10_000
"""What was booked is written on the request, whose details hold 64 texts of 32,768 characters."""

_MOST_COMPARED = 64
_LIKENESS = 0.8
"""Of a misspelt parameter; `maxRunDurationSeconds` and `ValidUntilSeconds` have less."""


@dataclass(frozen=True, slots=True)
class TemplatePods:
    """A pod template and the number of its pods: their whole GPUs and annotations."""

    name: str
    pods: int
    gpus: int
    annotations: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Terms:
    """What is to be booked: `takes` is the most that a pod takes of its node beside GPUs.

    `resource` is that in which the pods ask for GPUs.
    """

    request: Request
    takes: Amounts = ()
    resource: str = ""


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
    size = terms.size
    if size is not None and size % gpus:
        what = f"{keys.size} {size} is not a multiple of the {gpus} GPUs of a pod"
        return Refusal(what, "spec.parameters", f"give {size - size % gpus + gpus}")
    request = Request(
        pods=pods,
        gpus_per_pod=gpus,
        group_size=size,
        mode=terms.mode,
        within=terms.within,
    )
    return flaw(request) or request


class _Groups(NamedTuple):
    """The terms of the groups; without a `size` all pods are one."""

    size: int | None
    mode: PlacementMode
    within: Kind | None


def _terms(
    parameters: Mapping[str, str], templates: Sequence[TemplatePods], keys: AnnotationKeys
) -> _Groups | Refusal:
    """Return the terms of the groups, each from the parameters or else from the templates."""
    if (misspelt := _misspelt(parameters, keys)) is not None:
        return misspelt
    found: dict[str, str] = {}
    places: dict[str, str] = {}
    for name in (keys.size, keys.mode, keys.within):
        by_value = {parameters[each]: each for each in _spellings(name) if each in parameters}
        stated = set(by_value)
        if not stated:
            stated = {each.annotations[name] for each in templates if name in each.annotations}
        if len(stated) > 1:
            values = " and ".join(map(shown, sorted(stated)))
            return Refusal(f"{name} is {values}", "spec.podSets", "give it once")
        if stated:
            (found[name],) = stated
            of_request = by_value.get(found[name])
            places[name] = f"spec.parameters[{of_request}]" if of_request else "spec.podSets"
    # The words beside the size are read with any size: they hold for one group of all pods, too.
    terms = read_terms({keys.size: "1", **found}, keys)
    if isinstance(terms, Refusal):
        return replace(terms, where=places.get(terms.where, terms.where))
    if terms is None:
        return _Groups(None, PlacementMode.REQUIRED, None)
    return _Groups(terms.group_size if keys.size in found else None, terms.mode, terms.within)


def _spellings(name: str) -> tuple[str, str]:
    """Return how a parameter may be called: without and with the domain."""
    return name.partition("/")[2], name


def _misspelt(parameters: Mapping[str, str], keys: AnnotationKeys) -> Refusal | None:
    """Return the first parameter that looks like one of ours and is none."""
    ours = {BOOKING, VALID}
    ours |= {each for name in (keys.size, keys.mode, keys.within) for each in _spellings(name)}
    for name in sorted(parameters.keys() - ours)[:_MOST_COMPARED]:
        if meant := nearest(name, sorted(ours), _LIKENESS):
            return Refusal(
                f"{shown(name)} is not read", "spec.parameters", f"did you mean {meant}?"
            )
    return None

"""From pods in domains of tier 1 to groups of pods on hosts."""

from collections import defaultdict

from tests.placement.oracle.model import Domain, Model
from topo.model.ids import NodeName
from topo.placement.job.plan import Pods
from topo.placement.job.request import PlacementMode

Solution = tuple[Pods, ...]


def allowed_tier(model: Model) -> int | None:
    """The tier in which a group must be whole, None where the request asks for the impossible."""
    tier = model.group_tier
    if tier is None:
        return None if model.request.mode is PlacementMode.REQUIRED else model.tiers
    if model.request.within is not None and (model.tier_of_limit() or 0) < tier and model.whole:
        return None
    return tier


def dealt(model: Model, pods: dict[Domain, int]) -> Solution:
    """Groups for so many pods in each domain of tier 1, as many of them whole as can be."""
    tier = model.group_tier or model.tiers
    request, k = model.request, model.k
    whole: list[list[NodeName]] = []
    rest: dict[Domain, list[NodeName]] = {}
    members = model.domains(1)
    for outer, inner in model.below(tier).items():
        slots = [n for key in inner for n in model.filling(members[key])[: pods.get(key, 0)]]
        cut = len(slots) // k * k if model.group_tier else 0
        whole += [slots[at : at + k] for at in range(0, cut, k)]
        rest[outer] = slots[cut:]
    tail: list[NodeName] = []
    host_of_tail = next(
        (key for key, slots in rest.items() if request.tail and len(slots) >= request.tail), None
    )
    if host_of_tail is not None:
        tail = rest[host_of_tail][: request.tail]
        rest[host_of_tail] = rest[host_of_tail][request.tail :]
    scattered = [name for slots in rest.values() for name in slots]
    while len(whole) < request.whole_groups:
        whole.append(scattered[:k])
        scattered = scattered[k:]
    if request.tail:
        whole.append(tail or scattered)
    return tuple(_counted(group) for group in whole)


def _counted(names: list[NodeName]) -> Pods:
    pods: dict[NodeName, int] = defaultdict(int)
    for name in names:
        pods[name] += 1
    return tuple(pods.items())

"""The question of one request, counted naively from a capacity's public reads, and its vector.

Nothing of the engine is used: what is eligible, what a domain is, and what a placement is worth are
said here a second time, from the words of docs/placement.md alone.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from topo.model.cluster import Taint
from topo.model.ids import Kind, NodeName, natural_key
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.host import Host
from topo.placement.job.plan import Pods
from topo.placement.job.policy import Policy
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration

Domain = tuple[str, ...]
"""A group's path, or the path of a lone node with its name at the end."""


def domain(host: Host, tier: int) -> Domain:
    """The outermost group above a host that is of a tier up to `tier`; the host itself if none."""
    for depth, at in enumerate(host.tiers):
        if at <= tier:
            return tuple(host.path[: depth + 1])
    return (*host.path, host.name)


@dataclass(frozen=True)
class Model:
    """A request against the hosts of one GPU type, in natural order."""

    request: Request
    policy: Policy
    hosts: tuple[Host, ...]
    used: Mapping[NodeName, int]
    slots: dict[NodeName, int]
    tiers: int

    @property
    def k(self) -> int:
        return self.request.pods_per_group

    def room(self, host: Host) -> int:
        """Pods that an empty and open host takes."""
        return host.gpus // self.request.gpus_per_pod

    @cached_property
    def by_name(self) -> dict[NodeName, Host]:
        return {host.name: host for host in self.hosts}

    def _largest(self, tier: int) -> int:
        room: dict[Domain, int] = defaultdict(int)
        for host in self.hosts:
            room[domain(host, tier)] += self.room(host)
        return max(room.values(), default=0)

    def _tier_for(self, pods: int) -> int | None:
        return next((t for t in range(1, self.tiers + 1) if self._largest(t) >= pods), None)

    @cached_property
    def group_tier(self) -> int | None:
        """The lowest tier whose largest domain can hold k when empty; None if none can.

        If none can, a job that is less than a group needs room for its own pods only.
        """
        tier = self._tier_for(self.k)
        return self._tier_for(self.request.pods) if tier is None and not self.whole else tier

    @property
    def whole(self) -> int:
        return self.request.pods // self.k

    @cached_property
    def canonical(self) -> tuple[int, int]:
        """Slots of a canonical group, and the lowest tier that can hold one."""
        slots = self.policy.canonical_gpus // self.request.gpus_per_pod
        tier = self._tier_for(slots) if slots else None
        if tier is not None:
            return slots, tier
        return max(1, self._largest(1)), 1

    def domains(self, tier: int) -> dict[Domain, list[Host]]:
        """Hosts by domain, both in natural order."""
        members: dict[Domain, list[Host]] = defaultdict(list)
        for host in self.hosts:
            members[domain(host, tier)].append(host)
        return members

    def below(self, tier: int) -> dict[Domain, list[Domain]]:
        """The domains of tier 1 in each domain of a tier, both in natural order."""
        inner: dict[Domain, list[Domain]] = defaultdict(list)
        for key, hosts in self.domains(1).items():
            inner[domain(hosts[0], tier)].append(key)
        return inner

    def filling(self, hosts: Sequence[Host]) -> list[NodeName]:
        """One entry for each slot of some hosts, the least penalty first."""
        ordered = sorted(hosts, key=lambda host: host.penalty)
        return [host.name for host in ordered for _ in range(self.slots[host.name])]

    def pristine(self, hosts: Sequence[Host]) -> bool:
        """Whether nothing runs on those of the hosts that are open, eligible or not."""
        return not any(host.is_open and self.used.get(host.name) for host in hosts)

    def within(self) -> list[Domain | None]:
        """The groups that may be the one to hold the whole job; [None] where anywhere is fine."""
        kind = self.request.within
        if kind is None:
            return [None]
        groups = {_of_kind(host, kind): None for host in self.hosts}
        return [group for group in groups if group is not None]

    def tier_of_limit(self) -> int | None:
        """The tier of the kind that the job must stay in; None where there is no such group."""
        kind = self.request.within
        of_kind = (
            tier
            for host in self.hosts
            for at, tier in zip(host.kinds, host.tiers, strict=True)
            if at == kind
        )
        return max(of_kind, default=None)

    def inside(self, host: Host, group: Domain | None) -> bool:
        """Whether a host belongs to a group."""
        return group is None or tuple(host.path[: len(group)]) == group


def _of_kind(host: Host, kind: Kind) -> Domain | None:
    """The path of the group of a kind that a host is in."""
    for depth, at in enumerate(host.kinds):
        if at == kind:
            return tuple(host.path[: depth + 1])
    return None


def models(capacity: CapacityView, request: Request) -> Iterator[Model]:
    """One for each GPU type that the job may have, in the policy's order."""
    everybody = tuple(capacity.hosts())
    used = {host.name: capacity.used(host.name) for host in everybody}
    asked = request.eligible.gpu_type
    for gpu_type in [asked] if asked is not None else _types(everybody, capacity.policy):
        yield model_of(everybody, used, replace_type(request, gpu_type), capacity.policy)


def replace_type(request: Request, gpu_type: str) -> Request:
    """The same request for one GPU type."""
    return replace(request, eligible=replace(request.eligible, gpu_type=gpu_type))


def model_of(
    everybody: Sequence[Host], used: Mapping[NodeName, int], request: Request, policy: Policy
) -> Model:
    """A request that names its GPU type, against hosts in natural order and their used GPUs."""
    gpu_type = request.eligible.gpu_type
    hosts = tuple(host for host in everybody if host.gpu_type == gpu_type)
    slots = {
        host.name: max(0, host.gpus - used.get(host.name, 0)) // request.gpus_per_pod
        if host.is_open and _eligible(host, request.eligible)
        else 0
        for host in hosts
    }
    tiers = max((tier for host in everybody for tier in host.tiers), default=1)
    return Model(request, policy, hosts, used, slots, tiers)


def _types(hosts: Sequence[Host], policy: Policy) -> list[str]:
    known = {host.gpu_type for host in hosts}
    first = [gpu_type for gpu_type in policy.gpu_types if gpu_type in known]
    return first + sorted(known - set(first), key=natural_key)


def _eligible(host: Host, wanted: Eligibility) -> bool:
    labels = dict(host.labels)
    return (
        host.name not in wanted.exclude
        and all(labels.get(key) == value for key, value in wanted.selector)
        and all(
            taint.effect == "PreferNoSchedule"
            or any(_tolerates(t, taint) for t in wanted.tolerations)
            for taint in host.taints
        )
        and (not wanted.usage or host.pool in ("", "hybrid", wanted.usage))
    )


def _tolerates(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if toleration.operator == "Exists":
        return toleration.key in ("", taint.key)
    return (toleration.key, toleration.value) == (taint.key, taint.value)


@dataclass(frozen=True, order=True)
class Vector:
    """What a placement is worth, smaller is better, stage by stage."""

    split: int
    span: tuple[int, ...]
    groups_lost: int
    top: tuple[int, ...]
    low: tuple[int, ...]
    broken: int
    penalty: int

    def stages(self) -> tuple[tuple[str, object], ...]:
        """Name and value of each, in the order of comparison; the names are the engine's."""
        tiers = len(self.span)
        spans = [(f"tier{tiers - i}_groups", used) for i, used in enumerate(self.span)]
        spans[0] = ("top_groups", self.span[0])
        if tiers == 1:
            spans.append(("tier1_groups", self.span[0]))
        return (
            ("split_groups", self.split),
            *spans,
            ("whole_groups_left", self.groups_lost),
            ("free_profile_top", self.top),
            ("free_profile_tier1", self.low),
            ("newly_broken", self.broken),
            ("penalty", self.penalty),
        )


def vector(model: Model, groups: Sequence[Pods]) -> Vector:
    """The vector of a placement, recounted from each host."""
    pods: dict[NodeName, int] = defaultdict(int)
    for group in groups:
        for name, some in group:
            pods[name] += some
    canonical, canonical_tier = model.canonical
    low = _free(model, canonical_tier, pods)
    whole = {key: free // canonical for key, free in low.items()}
    top: dict[Domain, int] = defaultdict(int)
    for key, members in model.domains(canonical_tier).items():
        top[domain(members[0], model.tiers)] += whole[key]
    return Vector(
        split=sum(_is_split(model, group) for group in groups),
        span=tuple(_used(model, tier, pods) for tier in range(model.tiers, 0, -1)),
        groups_lost=-sum(whole.values()),
        top=_descending(top),
        low=_descending(low),
        broken=sum(_breaks(model, hosts, pods) for hosts in model.domains(1).values()),
        penalty=sum(host.penalty * pods.get(host.name, 0) for host in model.hosts),
    )


def joint(every: Sequence[Model], on: Model, groups: Sequence[Pods]) -> Vector:
    """The vector of groups on the hosts of one type, counted over all types together."""
    own = vector(on, groups)
    others = [vector(model, ()) for model in every if model is not on]
    return replace(
        own,
        groups_lost=own.groups_lost + sum(each.groups_lost for each in others),
        top=tuple(sorted([*own.top, *(free for each in others for free in each.top)])),
        low=tuple(sorted([*own.low, *(free for each in others for free in each.low)])),
    )


def kept_groups(model: Model, path: Domain, pods: Mapping[NodeName, int]) -> int:
    """Canonical groups that stay free inside a group of the tree."""
    canonical, tier = model.canonical
    inside = (
        [host for host in hosts if tuple(host.path[: len(path)]) == path]
        for hosts in model.domains(tier).values()
    )
    return sum(
        sum(model.slots[host.name] - pods.get(host.name, 0) for host in hosts) // canonical
        for hosts in inside
    )


def spends_reserve(model: Model, groups: Sequence[Pods]) -> bool:
    """Whether some reserve loses groups that it needs."""
    pods: dict[NodeName, int] = defaultdict(int)
    for group in groups:
        for name, some in group:
            pods[name] += some
    return any(
        kept_groups(model, tuple(path), pods) < min(wanted, kept_groups(model, tuple(path), {}))
        for path, wanted in model.policy.reserves
    )


def _descending(capacities: dict[Domain, int]) -> tuple[int, ...]:
    return tuple(-free for free in sorted(capacities.values(), reverse=True))


def _free(model: Model, tier: int, pods: Mapping[NodeName, int]) -> dict[Domain, int]:
    return {
        key: sum(model.slots[host.name] - pods.get(host.name, 0) for host in hosts)
        for key, hosts in model.domains(tier).items()
    }


def _used(model: Model, tier: int, pods: dict[NodeName, int]) -> int:
    return len({domain(host, tier) for host in model.hosts if pods.get(host.name)})


def _is_split(model: Model, group: Pods) -> bool:
    if model.group_tier is None:
        return True
    return len({domain(model.by_name[name], model.group_tier) for name, _ in group}) > 1


def _breaks(model: Model, hosts: Sequence[Host], pods: dict[NodeName, int]) -> bool:
    taken = sum(pods.get(host.name, 0) for host in hosts)
    whole = sum(model.slots[host.name] for host in hosts)
    return model.pristine(hosts) and 0 < taken < whole


def violations(model: Model, groups: Sequence[Pods]) -> list[str]:
    """What a placement does that no placement may: empty for a sound one."""
    found = []
    sizes = [sum(some for _, some in group) for group in groups]
    request = model.request
    expected = [model.k] * request.whole_groups + [request.tail] * bool(request.tail)
    if sizes != expected:
        found.append(f"groups of {sizes} pods, not of {expected}")
    pods: dict[NodeName, int] = defaultdict(int)
    for group in groups:
        for name, some in group:
            pods[name] += some
    found += [
        f"{some} pods on {name}, which has {model.slots.get(name, 0)} slots"
        for name, some in pods.items()
        if not 0 < some <= model.slots.get(name, 0)
    ]
    if found:
        return found
    if request.mode is PlacementMode.REQUIRED and any(_is_split(model, group) for group in groups):
        found.append("a group is split in required mode")
    used = [host for host in model.hosts if pods.get(host.name)]
    if not any(all(model.inside(host, group) for host in used) for group in model.within()):
        found.append(f"not in one {request.within}")
    return found

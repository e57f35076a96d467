"""The resources that a pod takes, as the scheduler counts them.

Containers and sidecars run together; init containers run one after the other before them, each
beside the sidecars that were started before it. So a pod takes the larger of the two, and its
overhead. What a container does not request it is limited to, which for devices is the same.

Source: `PodRequests` (k8s.io/component-helpers, resource/helpers.go); KEP-753, "Resources
calculation for scheduling and pod admission".
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from topo.model.quantity import MOST, devices, thousandths, whole

PODS = "pods"
"""The resource of which every pod takes one."""
Amounts = tuple[tuple[str, int], ...]
"""Thousandths of the unit of each resource, in the order of their names."""
HOST_PORT = "host port "
"""A port of the node is a resource of this name, such as `host port 7777/TCP`; a node has one."""
APART = "apart "
"""So begins the place of pods of which a node takes one, since they keep off each other."""
DEVICE_CLASS = "device class "
"""Devices of a class that a pod claims are a resource of this name, such as `device class nics`."""
ONE_TO_A_NODE = (HOST_PORT, APART)
"""So begin the resources of which every node has one, though it states none."""
SIDECAR = "Always"
"""The restart policy that makes an init container stay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The requests and limits of a container, as they are written."""

    requests: dict[str, str] = field(default_factory=dict)
    limits: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerPort:
    """A port of a container; `host_port` is 0 where it takes none of its node."""

    host_port: int = 0
    protocol: str = "TCP"


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """One container; `restart_policy` is `Always` for an init container that stays (a sidecar)."""

    ports: tuple[ContainerPort, ...] = ()
    resources: Resources = field(default_factory=Resources)
    restart_policy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodRequests:
    """The containers of a pod, those that run one by one before them, and its own overhead.

    `resources` are those of the pod as a whole, in place of sums over its containers (KEP-2837).
    """

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: dict[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)


def requested(spec: PodRequests, wanted: Collection[str]) -> dict[str, int]:
    """Return the devices of each of these resources that the pod names, in the order of `wanted`.

    `MOST` stands for a request that is no quantity.
    """
    named = _named(spec)
    return {name: min(_requested(spec, name, devices), MOST) for name in wanted if name in named}


def whole_gpus(amounts: Mapping[str, int], resources: Iterable[str]) -> tuple[str, int]:
    """Return the first of these resources of which a pod takes any, and how many of that.

    An empty name and 0 for a pod that takes none. `resources` are those of whole GPUs: a pod has
    one kind of them.
    """
    found = next((name for name in resources if amounts.get(name)), "")
    return found, amounts.get(found, 0)


def others_requested(
    spec: PodRequests, cards: Collection[str], places: Iterable[str] = ()
) -> Amounts:
    """Return what the pod takes of its node beside cards, itself as one of `pods` included.

    A request that is no quantity counts as nothing: an API server refuses it. A port of the node
    counts once, on whichever of its addresses. `places` are further resources of which it takes
    one.
    """
    found = {
        name: _requested(spec, name, lambda text: thousandths(text) or 0)
        for name in _named(spec).difference(cards)
    }
    found |= {PODS: 1000, **dict.fromkeys(places, 1000)}
    sidecars = (each for each in spec.init_containers if each.restart_policy == SIDECAR)
    for container in (*spec.containers, *sidecars):
        for port in container.ports:
            if port.host_port:
                found[f"{HOST_PORT}{port.host_port}/{port.protocol}"] = 1000
    return tuple(sorted((name, amount) for name, amount in found.items() if amount))


def most_of(found: Iterable[Amounts]) -> Amounts:
    """Return the most that any of several pods takes of each resource."""
    different = dict.fromkeys(found)
    if len(different) == 1:
        return next(iter(different))
    most: dict[str, int] = {}
    for resource, amount in (each for takes in different for each in takes):
        most[resource] = max(most.get(resource, 0), amount)
    return tuple(sorted(most.items()))


def _named(spec: PodRequests) -> set[str]:
    """Return the names of all resources in a spec."""
    named = {*spec.overhead, *spec.resources.requests}
    for each in (*spec.containers, *spec.init_containers):
        named.update(each.resources.requests, each.resources.limits)
    return named


def _requested(spec: PodRequests, resource: str, read: Callable[[str], int]) -> int:
    overhead = read(spec.overhead.get(resource, "0"))
    if of_pod := spec.resources.requests.get(resource):
        return read(of_pod) + overhead
    asked = [
        read(each.resources.requests.get(resource) or each.resources.limits.get(resource, "0"))
        for each in (*spec.containers, *spec.init_containers)
    ]
    beside = len(spec.containers)
    main, largest, sidecars = sum(asked[:beside]), 0, 0
    for each, number in zip(spec.init_containers, asked[beside:], strict=True):
        if each.restart_policy == SIDECAR:
            sidecars += number
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + number)
    return max(main + sidecars, largest) + overhead


def unreadable(spec: PodRequests, wanted: Collection[str]) -> tuple[str, ...]:
    """Return the requests of these resources that are no quantity: `metax-tech.com/gpu: all`."""
    containers = (*spec.containers, *spec.init_containers)
    stated = [
        asked for each in containers for asked in (each.resources.requests, each.resources.limits)
    ]
    return tuple(
        f"{name}: {quantity[:32]!r}"
        for asked in (*stated, spec.overhead)
        for name, quantity in asked.items()
        if name in wanted and whole(quantity) is None
    )

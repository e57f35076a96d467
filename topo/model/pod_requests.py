"""The resources that a pod takes, as the scheduler counts them.

Containers and sidecars run together; init containers run one after the other before them, each
beside the sidecars that were started before it. So a pod takes the larger of the two, and its
overhead. What a container does not request it is limited to, which for devices is the same.

Source: `PodRequests` (k8s.io/component-helpers, resource/helpers.go); KEP-753, "Resources
calculation for scheduling and pod admission".
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from topo.model.quantity import MOST, whole

SIDECAR = "Always"
"""The restart policy that makes an init container stay."""


class Resources(Protocol):
    """The requests and limits of a container, as they are written."""

    @property
    def requests(self) -> Mapping[str, str]:
        """The requests."""
        ...

    @property
    def limits(self) -> Mapping[str, str]:
        """The limits."""
        ...


class Container(Protocol):
    """The counted fields of a container."""

    @property
    def resources(self) -> Resources:
        """The requests and limits."""
        ...

    @property
    def restart_policy(self) -> str:
        """`Always` for an init container that stays."""
        ...


class PodSpec(Protocol):
    """The counted fields of a pod."""

    @property
    def containers(self) -> Sequence[Container]:
        """The containers that run together."""
        ...

    @property
    def init_containers(self) -> Sequence[Container]:
        """The containers that run before the others, in this order."""
        ...

    @property
    def overhead(self) -> Mapping[str, str]:
        """The overhead of the pod itself."""
        ...


def requested(spec: PodSpec, wanted: Collection[str]) -> dict[str, int]:
    """Return the devices of each of these resources that the pod names, in the order of `wanted`.

    `MOST` stands for a request that is no quantity.
    """
    containers = (*spec.containers, *spec.init_containers)
    named = set(spec.overhead)
    for each in containers:
        named.update(each.resources.requests, each.resources.limits)
    return {name: _requested(spec, name) for name in wanted if name in named}


def _requested(spec: PodSpec, resource: str) -> int:
    main = sum([_asked(each, resource) for each in spec.containers])
    largest = sidecars = 0
    for each in spec.init_containers:
        asked = _asked(each, resource)
        if each.restart_policy == SIDECAR:
            sidecars += asked
            largest = max(largest, sidecars)
        else:
            largest = max(largest, sidecars + asked)
    overhead = _read(spec.overhead[resource]) if resource in spec.overhead else 0
    return min(max(main + sidecars, largest) + overhead, MOST)


def unreadable(spec: PodSpec, wanted: Collection[str]) -> tuple[str, ...]:
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


def _asked(container: Container, resource: str) -> int:
    stated = container.resources
    quantity = stated.requests.get(resource) or stated.limits.get(resource)
    return 0 if quantity is None else _read(quantity)


def _read(quantity: str) -> int:
    """Return the number; the largest one where there is none, since it might be everything."""
    number = whole(quantity)
    return MOST if number is None else number

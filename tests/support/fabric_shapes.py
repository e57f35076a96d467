"""Fabrics of any number of hosts with eight adapters each, in the shapes that people build.

A unit is hosts on the same leaves, a pod is units under the same spines, a plane is a fabric of its
own for a part of each host's adapters.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import TypeVar

from tests.support.fabric import Fabric

ADAPTERS = 8
_T = TypeVar("_T")


@dataclass(frozen=True)
class Shape:
    """Hosts of a unit, leaves of it in a plane, units of a pod, spines of a pod in a plane.

    Pods hang on cores, or spines on those of each other pod.
    """

    name: str
    hosts: int
    leaves: int
    units: int
    spines: int = 2
    planes: int = 1
    has_cores: bool = True


SHAPES = (
    Shape("rail-optimised", hosts=32, leaves=ADAPTERS, units=16, spines=4),
    Shape("fat tree", hosts=4, leaves=1, units=16, spines=4),
    Shape("dragonfly+", hosts=4, leaves=1, units=16, spines=4, has_cores=False),
    Shape("two planes", hosts=8, leaves=1, units=16, planes=2),
)


def hosts_named(count: int) -> list[str]:
    """The names of so many hosts."""
    return [f"gpu-{number:05}" for number in range(1, count + 1)]


def groups_of(shape: Shape, count: int) -> dict[str, set[frozenset[str]]]:
    """The sets of hosts by tier; one that holds no more than the tier below is none."""
    units = list(_parts(hosts_named(count), shape.hosts))
    pods = list(_parts(units, shape.units))
    return {
        "leaf": {frozenset(unit) for unit in units},
        "spine": {frozenset(chain(*pod)) for pod in pods if len(pod) > 1},
        "core": {frozenset(chain(*units))} if len(pods) > 1 else set(),
    }


def shaped(shape: Shape, count: int) -> Fabric:
    """A fabric of so many hosts without a fault."""
    fabric, hosts = Fabric(), hosts_named(count)
    pods = list(_parts(list(_parts(hosts, shape.hosts)), shape.units))
    adapters = ADAPTERS // shape.planes
    for plane in range(shape.planes):
        made = range(plane * adapters, (plane + 1) * adapters)
        tops = [_pod(fabric, shape, f"{plane}-{at}", units, made) for at, units in enumerate(pods)]
        if shape.has_cores:
            cores = [fabric.switch(f"core-{plane}-{n}", 2 * len(pods) + 2) for n in (0, 1)]
            for core in cores:
                for spines in tops:
                    fabric.trunk(spines[0], core)
                    fabric.trunk(spines[1], core)
        else:
            for one, other in combinations(range(len(tops)), 2):
                fabric.trunk(tops[one][other % 2], tops[other][one % 2])
    return fabric


def _pod(
    fabric: Fabric, shape: Shape, name: str, units: Sequence[Sequence[str]], adapters: range
) -> list[str]:
    """The GUIDs of the spines of a pod, with all below them."""
    spines = [fabric.switch(f"spine-{name}-{n}", 512) for n in range(shape.spines)]
    for at, hosts in enumerate(units):
        leaves = [fabric.switch(f"leaf-{name}-{at}-{n}") for n in range(shape.leaves)]
        for host in hosts:
            for adapter in adapters:
                made = fabric.adapter(f"{host} mlx5_{adapter}")
                fabric.plug(made, leaves[adapter % shape.leaves])
        for leaf in leaves:
            for spine in spines:
                fabric.trunk(leaf, spine)
    return spines


def _parts(of: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    return (of[first : first + size] for first in range(0, len(of), size))

"""Fabrics of 10 to 10,000 hosts in four shapes with faults at random: their groups are the truth.

The model knows where each cable was planned and what was done to it, and nothing of tiers.
"""

from collections.abc import Iterable
from dataclasses import replace
from itertools import product

import pytest

from tests.builders import discovery, groups
from tests.discovery.fabrics import listed
from tests.support.fabric_shapes import SHAPES, Shape, groups_of, hosts_named
from tests.support.miswired import Miswired
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery
from topo.model.fabric import FabricDump
from topo.model.forest import Node
from topo.model.observation import FabricLoaded

PODS = 132
"""So many hosts make two full pods and one of a single unit, in units of four."""


def told(hosts: int, dumps: Iterable[FabricDump]) -> Discovery:
    """A state that has taken in these nodes and all dumps."""
    state = discovery(Mode.FABRIC)
    files = tuple((f"subnet-{number}", dump) for number, dump in enumerate(dumps))
    state.advance(0.0, listed(hosts_named(hosts)), FabricLoaded(files))
    state.validate()
    return state


def found(state: Discovery) -> dict[str, set[frozenset[str]]]:
    """The sets of nodes by tier."""
    by_tier: dict[str, set[frozenset[str]]] = {"leaf": set(), "spine": set(), "core": set()}
    for group in groups(state).values():
        below = (each.name for _, each in group.walk() if isinstance(each, Node))
        by_tier[str(group.kind)].add(frozenset(map(str, below)))
    return by_tier


@pytest.mark.parametrize(
    ("hosts", "seeds"),
    [
        (10, 2),
        (PODS, 1),
        pytest.param(1_000, 2, marks=pytest.mark.deep),
        pytest.param(10_000, 1, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_no_wrong_cable_makes_a_neighbour_or_takes_one_and_exactly_hosts_elsewhere_are_named(
    shape: Shape, hosts: int, seeds: int
) -> None:
    for seed in range(seeds):
        made = Miswired.at_random(shape, hosts, seed)
        state = told(hosts, made.dumps())
        assert found(state) == groups_of(shape, hosts)
        conflicts = state.snapshot.forest.conflicts
        named = {each.subjects[0] for each in conflicts if each.code == "fabric-cable-astray"}
        assert named == made.astray()


@pytest.mark.parametrize("shape", SHAPES[1:3], ids=lambda shape: shape.name)
@pytest.mark.parametrize(("one", "other"), list(product(("gpu", "leaf", "spine"), repeat=2))[:-1])
def test_cables_of_any_two_tiers_that_are_swapped_join_nobody(
    one: str, other: str, shape: Shape
) -> None:
    """Plugs of hosts in spines and cores, of leaves in other leaves, of spines in leaves.

    Of spines among themselves it may cut off a pod that has a single cable to each other one.
    """
    for seed in range(2):
        made = Miswired.of(shape, PODS, seed)
        made.swap(one, other)
        assert found(told(PODS, made.dumps())) == groups_of(shape, PODS)


def test_a_leaf_that_is_as_much_in_one_pod_as_in_another_is_in_neither_and_joins_none() -> None:
    shape = replace(SHAPES[1], spines=2)
    made = Miswired.of(shape, PODS, 1)
    made.swap("leaf-0-0", "leaf-0-1")
    truth, tiers = groups_of(shape, PODS), found(told(PODS, made.dumps()))
    assert tiers["leaf"] == truth["leaf"]
    assert tiers["core"] == truth["core"]
    left = [len(pod - mine) for pod in truth["spine"] for mine in tiers["spine"] if mine <= pod]
    assert left == [4, 4]

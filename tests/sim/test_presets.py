"""Simulated worlds are what they claim to be: sizes, wiring, and the manager's view of them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.sim.worlds.presets import (
    PRESET_NAMES,
    World,
    demo_world,
    managed_topology,
    nvlink_world,
    preset,
    world,
)


def seen_from_both_sides(a_world: World) -> bool:
    """Every peer of a host lists that host among its own."""
    peers = {node.server_uuid: node.peers for node in a_world.nodes}
    return all(mine in peers[other] for mine, others in peers.items() for other in others)


def test_the_demo_is_two_switchboxes_of_two_pairs() -> None:
    """node-sample1 … 8, in pairs, four to a switchbox, eight GPUs each."""
    demo = demo_world()
    assert [node.name for node in demo.nodes] == [f"node-sample{n}" for n in range(1, 9)]
    assert [node.switchbox for node in demo.nodes] == ["switchbox-sample1"] * 4 + [
        "switchbox-sample2"
    ] * 4
    assert {node.hardware.gpus for node in demo.nodes} == {8}
    first, second, third = demo.nodes[:3]
    assert first.peers == (second.server_uuid,)
    assert second.peers == (first.server_uuid,)
    assert first.dragonfly != third.dragonfly


@given(st.integers(0, 3), st.integers(1, 3), st.integers(1, 9), st.integers(1, 16))
def test_any_size_is_wired_both_ways(boxes: int, flies: int, nodes: int, gpus: int) -> None:
    """Wires have two ends, stay inside a dragonfly, and use no more than two slots."""
    made = world(boxes, flies, nodes, gpus)
    assert len(made.nodes) == max(boxes, 1) * flies * nodes
    assert seen_from_both_sides(made)
    home = {node.server_uuid: node.dragonfly for node in made.nodes}
    assert all(home[peer] == node.dragonfly for node in made.nodes for peer in node.peers)
    assert all(len(node.peers) == min(nodes - 1, 2) for node in made.nodes)
    assert len({node.identity.internal_ip for node in made.nodes}) == len(made.nodes)


def test_the_cube_sees_y_in_slot_one_and_x_in_slot_two() -> None:
    """Four hosts on a square: 1-3 and 2-4 in Y, 1-2 and 3-4 in X."""
    cube = preset("metax-c550-cube-4x8")
    assert cube is not None
    one, two, three, four = cube.nodes
    assert one.peers == (three.server_uuid, two.server_uuid)
    assert four.peers == (two.server_uuid, three.server_uuid)


def test_an_nvl72_rack_is_one_domain_of_72_gpus() -> None:
    """18 trays share a cluster UUID and a clique; two cliques split them evenly."""
    rack = preset("nvl72-18x4")
    assert rack is not None
    assert sum(node.hardware.gpus for node in rack.nodes) == 72
    assert len({node.fabric for node in rack.nodes}) == 18
    assert len({(f.cluster_uuid, f.clique) for n in rack.nodes if (f := n.fabric)}) == 1
    halves = [n.fabric.clique for n in nvlink_world(1, 18, cliques=2).nodes if n.fabric]
    assert sorted(halves.count(c) for c in set(halves)) == [9, 9]


def test_super_pods_have_each_server_index_once_and_as_many_npus_as_they_say() -> None:
    world = preset("ascend-a3-2x4x16")
    assert world is not None
    seats = [node.super_pod for node in world.nodes if node.super_pod is not None]
    assert [(seat.number, seat.server) for seat in seats] == list(product(range(2), range(4)))
    assert {seat.size for seat in seats} == {sum(node.hardware.gpus for node in world.nodes) // 2}


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_every_preset_has_a_world_of_its_name(name: str) -> None:
    """A preset is made anew each time and is equal each time."""
    made = preset(name)
    assert made is not None
    assert made.name == name
    assert made == preset(name)


def test_unknown_presets_are_not_made_up() -> None:
    """A name that is no preset gives nothing."""
    assert preset("metax-of-the-future") is None


def test_the_manager_lists_switchboxes_and_their_machines_by_other_names() -> None:
    """Machines are joined by host name, address and UUIDs: the node name is not among them."""
    view = managed_topology(demo_world())
    assert [group.name for group in view.groups] == ["switchbox-sample1", "switchbox-sample2"]
    assert [machine.group_id for machine in view.machines] == ["box-1"] * 4 + ["box-2"] * 4
    assert {key for machine in view.machines for key, _ in machine.names} == {
        "hostname",
        "internal_ip",
        "system_uuid",
        "server_uuid",
    }


def test_the_manager_knows_machines_without_a_switchbox() -> None:
    """An NVLink rack has no switchbox and no server UUIDs; its machines are still listed."""
    view = managed_topology(nvlink_world(1, 2))
    assert view.groups == ()
    assert [machine.group_id for machine in view.machines] == [None, None]

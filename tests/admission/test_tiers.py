"""The tiers that native jobs are judged by are those of the HyperNodes, with what groups hold."""

import asyncio
from collections.abc import Mapping

import pytest

from master.admission.tiers import OLD_S, POLL_S, SETTLED_S, KnownTiers, tiers
from tests.publish.forests import box, forest
from topo.gangs.native import HyperNodeTier, lowest_tier_for, tier_of_kind
from topo.model.forest import Forest
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.placement.capacity.host import Host
from topo.publish.hypernodes import hypernodes

TREE = forest(box("s1", {"d1": ["a", "b"], "d2": ["c"]}), box("s2", {}, alone=["e"]))
PLACES = {"a": ("s1", "d1"), "b": ("s1", "d1"), "c": ("s1", "d2"), "e": ("s2",), "f": ()}


def hosts(gpus: Mapping[str, int]) -> list[Host]:
    return [
        Host(name=NodeName(name), path=GroupPath(tuple(map(GroupName, PLACES[name]))), gpus=each)
        for name, each in gpus.items()
    ]


def test_each_tier_has_its_number_as_hypernodes_have_it_its_kind_and_the_shapes_of_its_groups():
    pairs, boxes = tiers(TREE, hosts({"a": 8, "b": 8, "c": 4, "e": 16, "f": 64}))
    assert pairs == HyperNodeTier(1, frozenset({DRAGONFLY}), frozenset({((8, 2),), ((4, 1),)}))
    assert boxes == HyperNodeTier(
        2, frozenset({SWITCHBOX}), frozenset({((4, 1), (8, 2)), ((16, 1),)})
    )
    numbers = {each.tier for each in hypernodes(TREE).values()}
    assert numbers == {pairs.number, boxes.number}


def test_pods_do_not_share_what_is_left_on_two_nodes():
    found = tiers(TREE, hosts({"a": 8, "b": 8}))
    pairs, _ = found
    assert (pairs.pods(8), pairs.pods(5), pairs.pods(16)) == (2, 2, 0)
    assert lowest_tier_for(found, 4, 5) is None
    assert tier_of_kind(found, SWITCHBOX) == found[1]


def test_a_group_without_hosts_is_in_no_tier_and_without_groups_there_is_none():
    assert [each.number for each in tiers(TREE, hosts({"e": 8}))] == [2]
    assert tiers(TREE, ()) == ()
    assert tiers(forest(), hosts({"f": 8})) == ()


@pytest.mark.virtual_time
async def test_what_is_known_is_counted_anew_with_the_forest_and_after_a_while_with_its_nodes():
    loop, known, there = asyncio.get_running_loop(), list[Forest](), {"a": 8}
    live = KnownTiers(
        forest=lambda: known[-1] if known else None, hosts=lambda: hosts(there), clock=loop.time
    )

    async def held_after(seconds: float) -> int:
        await asyncio.sleep(seconds)
        found = live.now()
        return found[0].pods(8) if found else -1

    work = asyncio.ensure_future(live.run())
    assert await held_after(2 * POLL_S) == -1
    known.append(forest())
    assert await held_after(2 * POLL_S) == -1
    known.append(TREE)
    assert await held_after(0) == 1
    there |= {"b": 8}
    assert await held_after(OLD_S + POLL_S) == 2
    there.clear()
    known.append(forest(box("s1", {"d1": ["a"]})))
    assert await held_after(SETTLED_S + POLL_S) == -1
    there |= {"a": 16}
    known.append(forest(box("s1", {"d1": ["a"]})))
    assert await held_after(SETTLED_S + POLL_S) == 2
    known.clear()
    assert await held_after(2 * POLL_S) == -1
    assert not work.done()
    work.cancel()

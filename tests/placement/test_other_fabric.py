"""Placement beside another fabric: it decides no plan, and its kinds are refused with the fix."""

from dataclasses import replace

from tests.placement.asked import job
from tests.support.capacity import capacity_of
from topo.model.forest import Forest, Group, Node, PathGroup, Status
from topo.model.ids import DRAGONFLY, SCALE_OUT, GroupName, Kind, NodeName
from topo.model.observation import FABRIC
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.forest_hosts import host_differences, hosts_of
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.engine import fits, place
from topo.placement.job.plan import NoFit

LEAF = Kind("leaf")


def forest(pairs: int, *, has_leaves: bool) -> Forest:
    """Dragonflies of two nodes, each across two leaves."""

    def node(pair: int, side: str) -> Node:
        leaf = PathGroup(LEAF, side, GroupName(f"leaf-{side}"), FABRIC)
        elsewhere = ((SCALE_OUT, (leaf,)),) if has_leaves else ()
        return Node(NodeName(f"n{pair}{side}"), Status.READY, (), 8, "A", elsewhere=elsewhere)

    return Forest(
        tuple(
            Group(
                GroupName(f"d{pair}"),
                DRAGONFLY,
                1,
                Status.READY,
                (node(pair, "a"), node(pair, "b")),
            )
            for pair in range(1, pairs + 1)
        )
    )


def test_a_kind_of_another_fabric_is_refused_with_the_kinds_of_the_tree() -> None:
    seen = capacity_of(hosts_of(forest(2, has_leaves=True)).values())
    asked = replace(job(2, group_size=8), within=LEAF)
    refused = place(seen, asked)
    assert isinstance(refused, NoFit)
    assert refused.failed == "span"
    assert "of another fabric" in refused.text
    assert refused.text.endswith("the kinds there are: dragonfly: name one of these")
    assert not fits(seen, asked)
    alone = capacity_of(hosts_of(forest(2, has_leaves=False)).values())
    nowhere = place(alone, asked)
    assert isinstance(nowhere, NoFit)
    assert "another fabric" not in nowhere.text


def test_another_fabric_decides_no_plan_and_a_capacity_follows_it() -> None:
    followed = Capacity()
    follower = HostFollower(followed)
    for has_leaves in (False, True, False):
        now = forest(3, has_leaves=has_leaves)
        follower.follow(now)
        assert {host.name: host for host in followed.hosts()} == hosts_of(now)
        assert host_differences(followed, now, {}) == ()
        for pods in range(1, 7):
            asked = job(pods, group_size=16)
            bare = capacity_of(hosts_of(forest(3, has_leaves=False)).values())
            assert place(followed, asked) == place(bare, asked)

"""Nodes that cannot be trusted are taken late, never refused; those in quarantine are left out."""

from tests.placement.asked import job, planned
from tests.support.capacity import capacity_of
from topo.model.cluster import ClusterNode, quarantine_taint
from topo.model.forest import Forest, Group, Node, NodeSuspicion, Status
from topo.model.ids import DRAGONFLY, GroupName, NodeName
from topo.placement.advice.explain import explain
from topo.placement.advice.refusal_reasons import reasons
from topo.placement.advice.suggestions import find_suggestions
from topo.placement.capacity.capacity import Capacity
from topo.placement.capacity.forest_hosts import SUSPECTED_PENALTY, hosts_of
from topo.placement.capacity.host_follower import HostFollower
from topo.placement.engine import place
from topo.placement.job.plan import NoFit

BAD = NodeSuspicion((("slot 1", "3 flaps"),))
APART = NodeSuspicion((), "cable ordered")


def forest(pairs: int, **held: NodeSuspicion) -> Forest:
    """Dragonflies of two nodes."""
    return Forest(
        tuple(
            Group(
                GroupName(f"d{pair}"),
                DRAGONFLY,
                1,
                Status.READY,
                tuple(
                    Node(NodeName(name), Status.READY, (), 8, "A", (), held.get(name))
                    for name in (f"n{pair}a", f"n{pair}b")
                ),
            )
            for pair in range(1, pairs + 1)
        )
    )


def capacity(pairs: int, **held: NodeSuspicion) -> Capacity:
    return capacity_of(hosts_of(forest(pairs, **held)).values())


def nodes(of: Capacity, pods: int) -> set[str]:
    plan = planned(of, job(pods, group_size=16))
    return {node for group in plan.groups for node, _ in group.pods}


def test_a_group_with_a_suspected_link_is_taken_last_and_the_plan_says_so() -> None:
    seen = capacity(3, n1a=BAD)
    assert nodes(seen, 4) == {"n2a", "n2b", "n3a", "n3b"}
    plan = planned(seen, job(6, group_size=16))
    assert plan.objective.penalty == SUSPECTED_PENALTY
    said = f"The penalty of its nodes is {SUSPECTED_PENALTY} (n1a has links not to be trusted)"
    assert explain(seen, plan)[-1].startswith(said)


def test_no_job_is_refused_because_all_are_suspected() -> None:
    every = {f"n{pair}{side}": BAD for pair in (1, 2) for side in "ab"}
    assert len(nodes(capacity(2, **every), 4)) == 4


def test_a_node_in_quarantine_takes_no_job_and_the_refusal_has_the_reason() -> None:
    seen = capacity(2, n1a=APART)
    assert nodes(seen, 2) == {"n2a", "n2b"}
    refused = place(seen, job(4, group_size=16))
    assert isinstance(refused, NoFit)
    text = "1 cordoned, of these in quarantine n1a: cable ordered."
    assert any(each.endswith(text) for each in reasons(seen, refused))
    fix = "The job fits once n1a (cable ordered) is taken out of quarantine: 1 node."
    assert fix in [each.text for each in find_suggestions(seen, refused)]


def test_the_taint_of_a_quarantine_hides_no_reason_and_counts_where_there_is_none() -> None:
    cluster = {
        NodeName(name): ClusterNode(
            name=NodeName(name), taints=(quarantine_taint("metax-tech.com"),)
        )
        for name in ("n1a", "n2a")
    }
    seen = capacity_of(hosts_of(forest(2, n1a=APART), cluster).values())
    refused = place(seen, job(4, group_size=16))
    assert isinstance(refused, NoFit)
    text = "1 cordoned, of these in quarantine n1a: cable ordered."
    assert any(each.endswith(text) for each in reasons(seen, refused))
    assert "n2a" not in nodes(seen, 1)


def test_a_capacity_that_follows_suspicions_is_that_of_the_forest_from_nothing() -> None:
    followed = Capacity()
    follower = HostFollower(followed)
    for held in ({}, {"n1a": BAD}, {"n1a": APART, "n2b": BAD}, {"n2b": APART}, {}):
        now = forest(2, **held)
        follower.follow(now)
        assert {host.name: host for host in followed.hosts()} == hosts_of(now)
        assert nodes(followed, 2) == nodes(capacity_of(hosts_of(now).values()), 2)
        assert not followed.recount()

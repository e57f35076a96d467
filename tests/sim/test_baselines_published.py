"""Every baseline answers as its own public documentation says it does."""

import pytest

from tests.sim.forests import ask, by_domain, counts, flat, tree
from topo.sim.baselines import (
    ascend,
    kueue,
    slurm,
    unaware,
    volcano,
)
from topo.sim.baselines.cluster import place


def test_kueue_best_fit_takes_the_emptiest_nodes_and_the_tightest_last():
    """KEP-2724, "Computing the assignment", example: a rack of 3, 3, 2, 1; a pod set of 7."""
    rack = flat([3, 3, 2, 1])
    assert counts(place(rack, ask(7), kueue.best_fit)) == {"n1": 3, "n2": 3, "n4": 1}


def test_kueue_least_free_takes_the_fullest_nodes_first():
    """KEP-2724, the same example: 1, 2, 3, and one of the last node's three."""
    rack = flat([3, 3, 2, 1])
    assert counts(place(rack, ask(7), kueue.least_free)) == {"n4": 1, "n3": 2, "n1": 3, "n2": 1}


SLICES = [[6], [5], [4], [3], [2]]
"""KEP-2724, "Two-level Topology Aware scheduling", example: nodes for 6, 5, 4, 3 and 2 pods,
slices of 2 that require a node."""


def test_kueue_best_fit_counts_slices_and_prefers_the_tighter_of_equal_nodes():
    """KEP-2724, two-level table, row BestFit, 12 pods: 6 . 4 . 2."""
    rack = tree(SLICES)
    found = place(rack, ask(12, group=2), kueue.best_fit)
    assert counts(found) == {"n1": 6, "n3": 4, "n5": 2}


def test_kueue_least_free_counts_slices_too():
    """KEP-2724, two-level table, row LeastFreeCapacity, 10 pods: . 2 4 2 2."""
    rack = tree(SLICES)
    found = place(rack, ask(10, group=2), kueue.least_free)
    assert counts(found) == {"n2": 2, "n3": 4, "n4": 2, "n5": 2}


def test_kueue_prefers_one_block_and_climbs_when_none_holds_the_job():
    """KEP-2724: `preferred` searches at the level named, then higher; at the top it takes several
    domains, most capacity first, the last as tight as possible.
    """
    blocks = tree([[2, 2], [2, 2]], [[2, 2], [2, 2]], [[2, 2]], size=2)
    in_one = by_domain(blocks, place(blocks, ask(8, group=4), kueue.best_fit))
    assert in_one == {"d1": 4, "d2": 4}
    over_two = by_domain(blocks, place(blocks, ask(12, group=4), kueue.best_fit))
    assert over_two == {"d1": 4, "d2": 4, "d5": 4}


def test_kueue_leaves_a_job_waiting_whose_slice_fits_nowhere():
    """KEP-2724: where no domain can accommodate a required slice the workload keeps waiting."""
    rack = tree([[1, 1, 0, 0], [1, 0, 0, 1]], size=1)
    assert place(rack, ask(3, group=3), kueue.best_fit) is None
    assert place(rack, ask(3, group=3), kueue.least_free) is None


def test_kueue_places_a_tail_as_a_pod_set_of_its_own():
    """KEP-2724: slices divide a pod set evenly; what does not divide is a second pod set, which
    takes the domain that fits best, whatever the first one took.
    """
    racks = tree([[1] * 4, [1] * 4], [[1, 1, 0, 0]], size=1)
    found = place(racks, ask(6, group=4), kueue.best_fit)
    assert by_domain(racks, found) == {"d1": 4, "d3": 2}


def test_volcano_fills_the_hypernode_that_is_used_already_with_both_sub_groups():
    """support.huaweicloud.com, CCE "bin packing of hypernodes" (cce_10_1129), first figure: two
    tier-1 hypernodes, the first partly used; both groups of the job go there, the other one stays
    whole.
    """
    hypernodes = tree([[8, 8, 8, 8, 0, 0], [8] * 6], size=8)
    found = place(hypernodes, ask(4, 8, group=2), volcano.place)
    assert by_domain(hypernodes, found) == {"d1": 4}
    assert counts(found) == {"n1": 1, "n2": 1, "n3": 1, "n4": 1}


def test_volcano_takes_the_lowest_tier_that_holds_the_job():
    """volcano.sh, "Network Topology Aware Scheduling", figure: eight nodes, hypernodes s0 to s3 of
    two nodes at tier 1, s4 and s5 at tier 2; node0 and node1 talk fastest, node0 and node4 over the
    highest tier.
    """
    nodes = tree([[8, 8], [8, 8]], [[8, 8], [8, 8]], size=8)
    assert counts(place(nodes, ask(2, 8), volcano.place)) == {"n1": 1, "n2": 1}
    assert by_domain(nodes, place(nodes, ask(4, 8), volcano.place)) == {"d1": 2, "d2": 2}
    over_all = place(nodes, ask(6, 8, group=2), volcano.place)
    assert by_domain(nodes, over_all) == {"d1": 2, "d2": 2, "d3": 2}


def test_slurm_tree_stays_below_the_lowest_switch_that_holds_the_job():
    """slurm.schedmd.com/topology.html, first example: tux[0-7] in pairs under s0 to s3, those in
    pairs under s4 and s5, s6 above; tux0 is busy here.
    """
    tux = tree([[0, 1], [1, 1]], [[1, 1], [1, 1]], size=1)
    assert counts(place(tux, ask(2), slurm.tree)) == {"n3": 1, "n4": 1}
    assert by_domain(tux, place(tux, ask(3), slurm.tree)) == {"d1": 1, "d2": 2}
    assert by_domain(tux, place(tux, ask(4), slurm.tree)) == {"d3": 2, "d4": 2}


def test_slurm_tree_takes_leaves_best_fit():
    """topology.conf(5), EXAMPLE: dev[0-5], dev[6-11] and dev[12-17] under s0 to s2, s3 above. The
    rest goes to the smallest leaf that holds it.
    """
    dev = tree([[1] * 6, [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 0, 0]], size=1)
    assert by_domain(dev, place(dev, ask(9), slurm.tree)) == {"d1": 6, "d2": 3}
    assert by_domain(dev, place(dev, ask(10), slurm.tree)) == {"d1": 6, "d3": 4}


def test_slurm_tree_knows_no_groups():
    """topology/tree has no notion of a group of nodes: a group may lie over two leaves."""
    dev = tree([[1] * 6, [1] * 6], size=1)
    groups = place(dev, ask(8, group=4), slurm.tree)
    assert groups is not None
    assert by_domain(dev, groups[1:]) == {"d1": 2, "d2": 2}


BLOCKS = [[1] * 32] * 4
"""topology.conf(5), EXAMPLE of topology/block: node[1-128] in four blocks of 32."""


def test_slurm_block_keeps_every_segment_in_one_block():
    """sbatch(1), `--segment`: 16 nodes to a segment; two fit a block of 32."""
    blocks = flat(*BLOCKS)
    assert by_domain(blocks, place(blocks, ask(32, group=16), slurm.block)) == {"d4": 32}
    found = place(blocks, ask(48, group=16), slurm.block)
    assert by_domain(blocks, found) == {"d3": 16, "d4": 32}


def test_slurm_block_takes_the_block_with_fewest_free_nodes_that_fits():
    """slurm.schedmd.com/topology.html, block: best fit, to avoid fragmentation; three blocks of the
    example are partly used.
    """
    free = [32, 20, 16, 31]
    blocks = flat(*([1] * n + [0] * (32 - n) for n in free), size=1)
    assert by_domain(blocks, place(blocks, ask(16, group=16), slurm.block)) == {"d3": 16}
    assert by_domain(blocks, place(blocks, ask(18), slurm.block)) == {"d2": 18}


def test_slurm_block_lets_segments_land_below_different_higher_blocks():
    """sbatch(1), `--segment`: segments need not share a higher-level block (that would be
    `--consolidate-segments`).
    """
    higher = tree([[1] * 4, [1] * 5], [[1] * 4], size=1)
    found = place(higher, ask(8, group=4), slurm.block)
    assert by_domain(higher, found) == {"d1": 4, "d3": 4}


def test_slurm_block_waits_when_no_block_holds_a_segment():
    blocks = flat([1] * 15 + [0] * 17, [1] * 15 + [0] * 17, size=1)
    assert place(blocks, ask(16, group=16), slurm.block) is None


NODES = {"A": 47, "B": 16, "C": 31, "D": 31, "E": 15}
"""github.com/Ascend/mind-cluster, ascend-for-volcano, comment on the table of super pods: block of
14 nodes, reserve of 2, super pods A to E with so many free nodes."""


@pytest.mark.parametrize(
    ("pod", "cell"), [("A", (3, 3)), ("B", (0, 1)), ("C", (1, 2)), ("D", (1, 2)), ("E", (13, 0))]
)
def test_ascend_puts_super_pods_into_the_published_table(pod, cell):
    """The same comment: A at [3][3], B at [0][1], C and D at [1][2], E at [13][0]."""
    assert ascend.cell(NODES[pod], 14, 2) == cell


@pytest.mark.parametrize(
    ("blocks", "shares"),
    [
        (1, {"B": 1}),
        (2, {"B": 1, "C": 1}),
        (5, {"B": 1, "C": 2, "D": 2}),
        (8, {"B": 1, "C": 2, "D": 2, "A": 3}),
        (9, {"B": 1, "C": 2, "D": 2, "A": 3, "E": 1}),
    ],
)
def test_ascend_takes_the_smallest_remainder_first_then_bigger_ones_then_the_reserve(
    blocks, shares
):
    """The table's order on the same five super pods; E gives its reserve only as the last."""
    found = ascend.shared_out(list(NODES.values()), blocks, 14)
    assert found is not None
    assert {list(NODES)[pod]: count for pod, count in found.items()} == shares


def test_ascend_has_no_room_for_a_tenth_block():
    assert ascend.shared_out(list(NODES.values()), 10, 14) is None


def test_ascend_fills_super_pods_up():
    """hiascend.com, "Affinity Scheduling Policies", table 1, row 3.

    Of two with reserve, with four and three nodes left, the one with three is taken.
    """
    assert ascend.shared_out([4, 3], 1, 1) == {1: 1}


def test_ascend_keeps_the_reserve_of_a_super_pod():
    """hiascend.com, table 1, row 2: three nodes left are better than two, which are the reserve."""
    assert ascend.shared_out([3, 2], 1, 1) == {0: 1}


def test_ascend_keeps_two_nodes_of_forty_eight_and_none_of_small_domains():
    """mind-cluster's published volcano configuration: `super-pod-size` 48, `reserve-nodes` 2."""
    large = flat([1] * 3 + [0] * 45, [1] * 2 + [0] * 46, size=1)
    assert by_domain(large, place(large, ask(1), ascend.place)) == {"d1": 1}
    small = flat([1] * 3 + [0] * 5, [1] * 2 + [0] * 6, size=1)
    assert by_domain(small, place(small, ask(1), ascend.place)) == {"d2": 1}


def test_first_fit_goes_by_the_names_of_the_nodes():
    nodes = tree([[1, 0], [1, 1]], [[1, 1]], size=1)
    assert list(counts(place(nodes, ask(4), unaware.first_fit))) == ["n1", "n3", "n4", "n5"]


def test_random_draws_the_same_for_the_same_state():
    nodes = tree([[1] * 8, [1] * 8], [[1] * 8], size=1)
    first = place(nodes, ask(6), unaware.random_nodes)
    assert first == place(nodes.copy(), ask(6), unaware.random_nodes)
    nodes.book("one more", {next(iter(nodes.hosts())).name: 1})
    assert first != place(nodes, ask(6), unaware.random_nodes)

"""The end of a leader in the middle of hundreds of writes, on a control plane of its own.

`make bench-kube` measures the same: how soon another leads is a figure, and no verdict.
"""

from bench.kubernetes import takeover
from master.kube.leader_election.election import LeaseTimes
from master.kube.writing.writer import CONCURRENCY

NODES = 200
LEASE_S = 45.0
"""Long enough for masters on a busy machine: one that cannot renew its lease ends."""


async def test_a_leader_killed_while_it_labels_leaves_no_node_wrong_and_none_written_twice() -> (
    None
):
    """SIGKILL when half of the nodes have their labels; a second client watches all the while."""
    seen = await takeover.seen(NODES, print, LEASE_S)
    assert seen.at_kill >= NODES / 2
    times = LeaseTimes.of(LEASE_S)
    least_s = times.duration_s - 2 * times.retry_s
    assert seen.led_s > least_s, "the next leader waited for the end of the lease"
    assert seen.wrong == 0
    again = [name for name, made in seen.writes.items() if made > 1]
    assert len(again) <= CONCURRENCY, "only what was under way may have to be made again"
    assert max(seen.writes.values()) <= 2

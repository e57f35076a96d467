"""A gang whose nodes are booked goes before all others in the queue."""

from dataclasses import replace

from tests.gangs.jobs import Job, dragonflies, job
from tests.gangs.world import Cluster
from topo.gangs.machine.gang import Gang
from topo.gangs.machine.pending_queue import PendingQueue, QueueOrder, QueueRequest
from topo.placement.booking.holds import HoldId


def gang(made: Job, *, booked: bool = False) -> Gang:
    cluster = Cluster(dragonflies(1))
    cluster.submit(made)
    found = cluster.seen(made.id).gang
    return replace(found, booked=(HoldId("hold-1"),)) if booked else found


def test_it_comes_before_older_gangs_of_a_higher_priority_in_any_order_of_the_queue() -> None:
    old = gang(job("old", 2, priority=2_000_000_000, created_s=1.0))
    new = gang(job("new", 2, created_s=2.0), booked=True)
    for order in QueueOrder:
        queue = PendingQueue(order)
        queue.join(old, QueueRequest(old.request))
        queue.join(new, QueueRequest(new.request, frozenset({"pod"})))
        turn = queue.next()
        assert turn is not None
        assert turn.id == "new"

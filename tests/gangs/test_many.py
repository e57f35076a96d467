"""A thousand gangs that wait: what is asked for when there is room is what can have it."""

from tests.gangs.world import Cluster, Leader, dragonflies, job
from topo.gangs.gang import GangId
from topo.gangs.instructions import Place
from topo.model.ids import NodeName

GANGS = 300


def test_gangs_that_ask_for_the_same_are_asked_about_once() -> None:
    cluster = Cluster(dragonflies(1))
    for at in ("n1-1-1", "n1-1-2"):
        cluster.intrude(at, NodeName(at))
    leader = Leader.over(cluster)
    for number in range(GANGS):
        cluster.submit(job(f"g{number:04}", 2, created_s=float(number)))
    leader.settle()
    assert sum(isinstance(each, Place) for each in leader.given) == 1
    for at in ("n1-1-1", "n1-1-2"):
        cluster.leave(at)
    leader.settle()
    assert cluster.bound(GangId("g0000"))
    assert sum(isinstance(each, Place) for each in leader.given) <= 4

"""A pod that joins its gang gets a hybrid node only where its own pool has no room."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.gangs.test_evicting import asked
from tests.placement.capacity.test_pools import POLICY, stated
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.machine.events import Refused
from topo.model.cluster import HYBRID, INFERENCE, TRAINING
from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity
from topo.placement.job.request import Eligibility, PlacementMode, Request

POOLS = st.lists(st.sampled_from([TRAINING, HYBRID, INFERENCE]), min_size=2, max_size=8)
MODES = st.sampled_from(PlacementMode)


@given(POOLS, st.sets(st.integers(1, 7)), st.integers(1, 3), MODES)
def test_pods_that_join_take_their_own_pool_first_and_never_the_other(
    pools: list[str], busy: set[int], joining: int, mode: PlacementMode
) -> None:
    """A dragonfly of some nodes, on the first of which a pod of the group stays."""
    names = [NodeName(f"n1-1-{at}") for at in range(len(pools))]
    capacity = Capacity(POLICY)
    for name, pool in zip(names, pools, strict=True):
        capacity.upsert(stated(str(name), pool))
    capacity.book("others", {names[at]: 8 for at in {0, *busy} if at < len(names)})
    free = [pool for at, pool in enumerate(pools) if at not in {0, *busy}]
    own, both = free.count(TRAINING), free.count(TRAINING) + free.count(HYBRID)
    request = Request(
        pods=joining + 1,
        gpus_per_pod=8,
        group_size=8 * (joining + 1),
        mode=mode,
        eligible=Eligibility(usage=TRAINING),
    )
    question = asked(joining + 1, request=request, over=None, kept=((0, names[0]),))
    found = answer_place(capacity, replace(question, wanted=question.wanted[1:]), ())
    if both < joining:
        assert isinstance(found, Refused)
        return
    assert isinstance(found, Placed)
    used = [pools[names.index(node)] for node in found.nodes]
    assert INFERENCE not in used
    assert (HYBRID in used) == (own < joining)
    assert (found.mode, found.request.mode) == (mode, mode)
    assert not found.request.eligible.spares_hybrid

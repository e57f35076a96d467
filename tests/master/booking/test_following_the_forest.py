"""What the owner of free capacity has done once it has followed a forest."""

import pytest

from tests.master.booking_states import booking_state
from tests.publish.forests import VENDOR, box, forest
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Generation
from topo.placement.capacity.host_index import HostIndex
from topo.placement.engine import place
from topo.placement.job.plan import Plan
from topo.placement.job.request import Request

PAIRS = Request(pods=4, gpus_per_pod=8, group_size=16)
SWAPPED = forest(
    box("switchbox-1", {"dragonfly-1": ["node-1", "node-3"], "dragonfly-2": ["node-2", "node-4"]}),
    box("switchbox-2", {"dragonfly-9": ["node-5", "node-6"], "dragonfly-4": ["node-7", "node-8"]}),
)


@pytest.mark.parametrize("forests", [(VENDOR,), (VENDOR, SWAPPED)], ids=["first", "regrouped"])
def test_no_decision_puts_the_groups_of_a_followed_forest_in_order(
    forests: tuple[Forest, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    state = booking_state()
    for generation, each in enumerate(forests, start=1):
        state.follow(Snapshot(Generation(generation), each))

    def late(_: HostIndex) -> None:
        raise AssertionError("the groups are put in order while a decision waits")

    monkeypatch.setattr(HostIndex, "settle", late)
    assert isinstance(place(state.capacity, PAIRS), Plan)

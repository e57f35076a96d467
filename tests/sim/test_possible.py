"""Which faults a simulated or recorded host can have."""

from itertools import product

import pytest

from topo.recording.possible import facts_of, impossible
from topo.recording.timeline import Fault, FaultKind, apply, counting
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import PRESET_NAMES, preset


@pytest.mark.parametrize("world", PRESET_NAMES)
def test_what_would_change_nothing_is_impossible_and_what_is_possible_changes_a_fact(
    world: str,
) -> None:
    """The vendor's pairs, rings, the cube and NVL72: every number up to beyond what is there."""
    found = preset(world)
    assert found is not None
    node = found.nodes[0]
    facts = facts_of(bundle_of(node))
    possible = 0
    for kind, gpu, index in product(FaultKind, range(10), range(20)):
        fault = Fault(kind, node.name, gpu, index)
        refused = impossible(fault, facts)
        changes = apply(frozenset({fault}), facts) != facts
        if refused is None:
            counts = counting(frozenset({fault}), node.name)
            assert changes or counts or kind is FaultKind.SILENT
            possible += 1
        else:
            assert not changes or "link" in refused.what, "an unused port cannot go down"
            assert refused.fix
    assert possible > 100

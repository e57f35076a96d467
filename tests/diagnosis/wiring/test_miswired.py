"""Plans and dumps of up to 10,000 hosts with eight cables: each fault by its name, no other swap.

Read as people give them: the plan as a file, the fabric as ibnetdiscover prints it. Cables are
swapped, also three in a ring, and beside them others are lost, slow, nameless or in wrong ports.
"""

import pytest

from tests.support.fabric_shapes import SHAPES, Shape
from tests.support.miswired import Miswired, plans
from topo.diagnosis.wiring.compare import CableComparison, compare
from topo.diagnosis.wiring.seen import SeenCables, seen_in_dumps
from topo.facts.plans import read_plan
from topo.facts.plans.plan import CablePlan


def compared(text: str, seen: SeenCables) -> CableComparison:
    """What a plan in a file and the dumps differ in."""
    plan = read_plan(text)
    assert isinstance(plan, CablePlan), plan
    found = compare(plan, seen)
    assert isinstance(found, CableComparison), found
    return found


@pytest.mark.parametrize(
    ("hosts", "seeds", "formats"),
    [
        (10, 4, ("csv", "topo", "dot", "cvt")),
        (60, 2, ("csv", "topo", "dot", "cvt")),
        pytest.param(1_000, 2, ("csv", "topo", "dot", "cvt"), marks=pytest.mark.deep),
        pytest.param(10_000, 1, ("csv", "topo"), marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.name)
def test_each_swap_and_each_other_fault_of_a_random_fabric_is_named_and_nothing_else(
    shape: Shape, hosts: int, seeds: int, formats: tuple[str, ...]
) -> None:
    for seed in range(seeds):
        made = Miswired.at_random(shape, hosts, seed)
        written, seen = plans(made), seen_in_dumps(made.dumps())
        for name in formats:
            found = compared(written[name], seen)
            told = [(str(each.verdict), frozenset(each.ends)) for each in found.findings]
            assert set(told) == made.expected, name
            assert len(told) == len(made.expected)
            wrong = [each for each in found.findings if each.verdict != "slow"]
            assert found.planned == len(made.planned)
            assert found.right == found.planned - sum(len(each.cables) for each in wrong)

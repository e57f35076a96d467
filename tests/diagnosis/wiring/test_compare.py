"""A plan beside cables that are exchanged, moved and cut at random: each fault by its name.

The model is the list of what was done to the cables. It knows no circles and chains.
"""

from collections.abc import Sequence
from random import Random

import pytest

from topo.diagnosis.wiring.compare import CableComparison, CableVerdict, compare
from topo.diagnosis.wiring.seen import SeenCable, SeenCables
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.model.errors import Refusal

Pairs = list[tuple[End, End]]
FABRICS = [
    pytest.param(0, 2, 0, id="pairs of nodes, two wires each"),
    pytest.param(8, 2, 2, id="two rails"),
    pytest.param(32, 8, 4, id="eight rails, four spines"),
    pytest.param(200, 1, 3, id="a fat tree of one rail"),
]


def fabric(hosts: int, rails: int, spines: int) -> Pairs:
    """The cables of hosts on a leaf for each rail and eight hosts; of dragonflies without hosts."""
    if not hosts:
        nodes = [(f"node-{2 * n + 1}", f"node-{2 * n + 2}") for n in range(8)]
        return [(End(a, str(s)), End(b, str(s))) for a, b in nodes for s in range(1, rails + 1)]
    cables: Pairs = []
    leaves: set[str] = set()
    for host in range(hosts):
        for rail in range(rails):
            leaf = f"leaf-{host // 8}-{rail}"
            leaves.add(leaf)
            cables.append((End(f"gpu-{host:03}", f"mlx5_{rail}"), End(leaf, str(host % 8 + 1))))
    for number, leaf in enumerate(sorted(leaves)):
        for spine in range(spines):
            for twin in range(2):
                far = End(f"spine-{spine}", str(2 * number + twin + 1))
                cables.append((End(leaf, str(33 + 2 * spine + twin)), far))
    return cables


def plan(cables: Pairs) -> CablePlan:
    return CablePlan(tuple(PlannedCable(*ends, line) for line, ends in enumerate(cables, 1)))


def seen(cables: Pairs, devices: Sequence[str] = (), rate: float = 400.0) -> SeenCables:
    everything = {*devices, *(end.device for ends in cables for end in ends)}
    found = tuple(SeenCable(*ends, "4xNDR", rate) for ends in cables)
    return SeenCables(found, frozenset(everything), frozenset(d for d in everything if "gpu" in d))


def compared(wanted: CablePlan, there: SeenCables) -> CableComparison:
    found = compare(wanted, there)
    assert isinstance(found, CableComparison), found
    return found


def devices(cables: Pairs) -> list[str]:
    return [end.device for ends in cables for end in ends]


def swapped(cables: Pairs, one: int, other: int) -> None:
    """Exchange the second plugs of two cables."""
    (a, b), (c, d) = cables[one], cables[other]
    cables[one], cables[other] = (a, d), (c, b)


def mended(now: Pairs, found: CableComparison) -> set[frozenset[End]]:
    """The cables after somebody has made all moves, in their order."""
    at = {end: far for one, other in now for end, far in ((one, other), (other, one))}
    for move in (move for finding in found.findings for move in finding.moves):
        far, back = at.pop(move.source), at.pop(move.target, None)
        assert move.is_exchange == (back is not None), move
        at[move.target], at[far] = far, move.target
        if back is not None:
            at[move.source], at[back] = back, move.source
    return {frozenset(each) for each in at.items()}


@pytest.mark.parametrize(("hosts", "rails", "spines"), FABRICS)
def test_a_fabric_as_planned_has_no_finding(hosts: int, rails: int, spines: int) -> None:
    cables = fabric(hosts, rails, spines)
    turned = [(other, one) for one, other in reversed(cables)]
    found = compared(plan(cables), seen(turned))
    assert (found.findings, found.right) == ((), len(cables))


@pytest.mark.parametrize(("hosts", "rails", "spines"), FABRICS)
@pytest.mark.parametrize("swaps", [1, 2])
def test_swaps_are_named_with_their_exact_cables_and_mended(
    hosts: int, rails: int, spines: int, swaps: int
) -> None:
    cables = fabric(hosts, rails, spines)
    random = Random(f"{hosts} {swaps}")  # noqa: S311 - examples, no secrets
    exact = 0
    for _ in range(rounds := 40):
        now = list(cables)
        done: list[set[int]] = []
        for _ in range(swaps):
            one, other = random.sample(range(len(cables)), 2)
            swapped(now, one, other)
            done.append({one, other})
        found = compared(plan(cables), seen(random.sample(now, len(now))))
        assert mended(now, found) == {frozenset(each) for each in cables}
        assert {finding.verdict for finding in found.findings} <= {CableVerdict.SWAP}
        assert sum(len(finding.moves) for finding in found.findings) <= swaps
        exact += {frozenset(finding.ends) for finding in found.findings} == _touched(cables, done)
    assert exact >= 0.99 * rounds


def _touched(cables: Pairs, done: list[set[int]]) -> set[frozenset[End]]:
    """The ports of each swap; of two that share a cable those of both, of one undone none."""
    if len(done) == 2 and done[0] == done[1]:
        return set()
    if len(done) == 2 and done[0] & done[1]:
        done = [done[0] | done[1]]
    return {frozenset(end for number in each for end in cables[number]) for each in done}


@pytest.mark.parametrize(("hosts", "rails", "spines"), FABRICS)
def test_random_faults_give_no_more_moves_than_were_made_and_lose_no_cable(
    hosts: int, rails: int, spines: int
) -> None:
    cables = fabric(hosts, rails, spines)
    random = Random(hosts)  # noqa: S311 - examples, no secrets
    for _ in range(20):
        now, cut, made = list(cables), set[int](), 0
        for _ in range(random.randrange(1, 6)):
            one, other = random.sample(range(len(cables)), 2)
            act = random.choice(["swap", "cut", "spare"])
            if act == "cut":
                cut.add(one)
            elif act == "swap":
                swapped(now, one, other)
                made += 1
            else:
                a, b = now[one]
                now[one] = (a, End(b.device, "60")) if ("60" not in str(now)) else (a, b)
                made += 1
        now = [ends for number, ends in enumerate(now) if number not in cut]
        found = compared(plan(cables), seen(now, devices(cables)))
        told = [cable for finding in found.findings for cable in finding.cables]
        missing = [f for f in found.findings if f.verdict is CableVerdict.MISSING]
        assert len(missing) == len(cables) - len(now)
        assert sum(len(finding.moves) for finding in found.findings) <= made
        assert found.right + sum(cable.planned is not None for cable in told) == len(cables)
        rest = mended(now, found)
        assert rest <= {frozenset(ends) for ends in cables}
        assert len(rest) == len(now)


def test_three_cables_in_a_ring_are_two_exchanges_on_the_switch_that_they_share() -> None:
    cables = fabric(8, 1, 0)
    now = list(cables)
    swapped(now, 0, 1)
    swapped(now, 1, 2)
    (finding,) = compared(plan(cables), seen(now)).findings
    assert finding.text == "3 cables are exchanged in a ring on leaf-0-0"
    assert [(move.source.device, move.is_exchange) for move in finding.moves] == [
        ("leaf-0-0", True)
    ] * 2


def test_a_plug_in_another_port_switch_or_rail_is_told_by_where_it_is() -> None:
    cables = fabric(16, 2, 0)
    verdicts = {}
    for target in (End("leaf-0-0", "20"), End("leaf-0-1", "20"), End("leaf-1-0", "20")):
        now = [(cables[0][0], target), *cables[1:]]
        (finding,) = compared(plan(cables), seen(now)).findings
        verdicts[target.device] = finding.verdict
        assert [(move.source, move.target) for move in finding.moves] == [(target, cables[0][1])]
    assert verdicts == {
        "leaf-0-0": CableVerdict.WRONG_PORT,
        "leaf-0-1": CableVerdict.WRONG_RAIL,
        "leaf-1-0": CableVerdict.WRONG_END,
    }


def test_a_cable_that_nobody_looked_at_is_unseen_and_not_missing() -> None:
    cables = fabric(16, 1, 0)
    now = [ends for ends in cables if ends[1].device == "leaf-0-0"][1:]
    found = compared(plan(cables), seen(now)).findings
    verdicts = [finding.verdict for finding in found]
    assert verdicts == [CableVerdict.MISSING] + [CableVerdict.UNSEEN] * 8


def test_a_loopback_plug_is_no_cable() -> None:
    cables = fabric(8, 2, 2)
    loops = [(End("leaf-0-0", "40"),) * 2, (cables[0][1],) * 2]
    found = compared(plan(cables), seen([*cables[1:], *loops]))
    assert [each.verdict for each in found.findings] == [CableVerdict.MISSING]
    assert found.right == len(cables) - 1


def test_a_cable_that_no_plan_has_is_told_only_between_devices_of_the_plan() -> None:
    cables = fabric(8, 1, 0)
    extra = (End("gpu-001", "mlx5_7"), End("leaf-0-0", "30"))
    other = (End("store-1", "mlx5_0"), End("leaf-0-0", "31"))
    (finding,) = compared(plan(cables), seen([*cables, extra, other])).findings
    assert finding.verdict is CableVerdict.UNPLANNED
    assert set(finding.ends) == set(extra)


def test_a_cable_slower_than_planned_or_than_its_like_is_slow() -> None:
    cables = fabric(8, 2, 0)
    fast = seen(cables).cables
    slow = SeenCable(*cables[0], "4xHDR", 200.0)
    there = seen(cables)
    (finding,) = compared(
        plan(cables), SeenCables((slow, *fast[1:]), there.devices, there.hosts)
    ).findings
    assert (finding.verdict, finding.text) == (
        CableVerdict.SLOW,
        "runs at 4xHDR: 200 of 400 Gbit/s usual there",
    )
    wanted = CablePlan(tuple(each._replace(gbps=800.0) for each in plan(cables).cables))
    assert len(compared(wanted, there).findings) == len(cables)


def test_the_words_of_a_plan_and_of_a_fabric_are_one_port() -> None:
    words = [
        (End("GPU-01", "HCA-1"), End("leaf-0-0.example.com", "P1")),
        (End("gpu-01", "mlx5_1/P1"), End("LEAF-0-0", "swp2")),
        (End("gpu-01.example.com", "3"), End("leaf-0-0", "03")),
    ]
    now = [(End("gpu-01", f"mlx5_{n}"), End("leaf-0-0", str(n + 1))) for n in range(3)]
    assert compared(plan(words), seen(now)).findings == ()


def test_switches_of_two_domains_are_two_also_where_one_alone_is_seen() -> None:
    east, west = ((End(f"gpu-{at}", "mlx5_0"), End(f"leaf.{at}.com", "1")) for at in ("e", "w"))
    found = compared(plan([east, west]), seen([east]))
    assert found.right == 1
    assert [each.verdict for each in found.findings] == [CableVerdict.UNSEEN]
    short = compared(plan([east]), seen([(east[0], End("leaf", "1"))]))
    assert (short.right, short.findings) == (1, ())


def test_switches_whose_names_differ_in_case_alone_are_two() -> None:
    cables = [
        (end, End("LEAF-0-0", far.port) if far.device == "leaf-1-0" else far)
        for end, far in fabric(16, 1, 0)
    ]
    now = list(cables)
    swapped(now, 0, 8)
    assert compared(plan(cables), seen(cables)).findings == ()
    (finding,) = compared(plan(cables), seen(now)).findings
    assert finding.verdict is CableVerdict.SWAP


@pytest.mark.parametrize(("is_planned", "where"), [(True, "line 3"), (False, "what is seen")])
def test_a_port_in_two_cables_under_two_words_is_refused(*, is_planned: bool, where: str) -> None:
    """Whoever follows such cables from port to port need not come to an end."""
    doubled = [
        (End("leaf-1", "7"), End("leaf-0", "P1")),
        (End("gpu-01", "mlx5_0"), End("leaf-0", "2")),
        (End("gpu-01", "HCA-1"), End("leaf-0", "1")),
    ]
    wanted, there = (doubled, []) if is_planned else (doubled[1:2], doubled)
    found = compare(plan(wanted), seen(there))
    assert isinstance(found, Refusal)
    assert found.where == where
    assert "in two cables" in found.what


@pytest.mark.parametrize("renamed", ["node", "gpu", "leaf", ""])
def test_a_plan_whose_names_are_not_those_of_the_fabric_moves_nothing(renamed: str) -> None:
    """Of the vendor's nodes, of hosts, of leaves, of everything; what else is planned is judged."""
    now = fabric(0 if renamed == "node" else 16, 2, 2)
    if renamed != "node":
        swapped(now, len(now) - 2, len(now) - 1)
    wanted = [
        tuple(
            End(f"H-{end.device}", end.port) if end.device.startswith(renamed) else end
            for end in ends
        )
        for ends in fabric(0 if renamed == "node" else 16, 2, 2)
    ]
    found = compared(plan([(one, other) for one, other in wanted]), seen(now))
    told = [each for each in found.findings if each.verdict != "unseen"]
    assert [each.verdict for each in told] == (["swap"] if renamed == "gpu" else [])
    (said,) = found.unjoined
    names = {"leaf": "H-leaf-0-0 and H-leaf-0-1", "node": "H-node-1 and H-node-2"}
    assert f"as {names.get(renamed, 'H-gpu-000 and H-gpu-001')}, where it has " in said
    one = compared(plan([(one, other) for one, other in wanted[:1]]), seen(now))
    assert not one.unjoined

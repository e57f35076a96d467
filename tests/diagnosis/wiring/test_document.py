"""A comparison read back from its document is the same, and so are the sheets printed of it."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import facts
from topo.cli.wiring.writing import as_csv, as_text
from topo.diagnosis.wiring.compare import CableComparison, compare
from topo.diagnosis.wiring.cost import Costs, Job, NodeAt
from topo.diagnosis.wiring.document import Compared, compared, wiring_document
from topo.diagnosis.wiring.neighbours import seen_by_neighbours
from topo.diagnosis.wiring.own_ports import own_ports
from topo.diagnosis.wiring.seen import SeenCable, SeenCables, joined
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.model.ids import NodeName
from topo.model.machine import NetworkPort, NicNeighbour

HOSTS = 6
COSTS = Costs(
    {f"h{n}": NodeAt(8, bool(n % 2), (f"g{n // 2}",), (f"g{n // 2}",)) for n in range(HOSTS)},
    [Job("ns/job", frozenset({"h1", "h2"})), Job("ns/later", would_fit="h3 were Ready.")],
)


def cables(order: list[int]) -> list[tuple[End, End]]:
    """Host n in the port of the switch that the order gives it."""
    return [(End(f"h{n}", "mlx5_0"), End("leaf", str(port))) for n, port in enumerate(order)]


@given(
    order=st.permutations(range(1, HOSTS + 1)),
    gone=st.sets(st.integers(0, HOSTS - 1), max_size=2),
    racks=st.sampled_from([("", ""), ("R1", "R2"), ("R1", "")]),
    label=st.sampled_from(["", "R1-01"]),
)
def test_a_comparison_read_back_prints_the_same_sheets(order, gone, racks, label) -> None:
    plan = CablePlan(
        tuple(
            PlannedCable(*ends, line, racks=racks, label=label)
            for line, ends in enumerate(cables(list(range(1, HOSTS + 1))), 2)
        )
    )
    there = tuple(SeenCable(*e) for n, e in enumerate(cables(order)) if n not in gone)
    devices = frozenset({"leaf", *(f"h{n}" for n in range(HOSTS))})
    found = compare(plan, SeenCables(there, devices, devices - {"leaf"}))
    assert isinstance(found, CableComparison)
    first = Compared(found, ["a note"], COSTS.of)
    document = wiring_document(first)
    again = compared(document)
    assert wiring_document(again) == document
    assert as_text(again) == as_text(first)
    assert as_csv(again) == as_csv(first)


@given(order=st.permutations(range(1, HOSTS + 1)), most=st.integers(0, HOSTS))
def test_a_document_lists_so_many_cables_at_most_and_counts_all(order, most) -> None:
    wanted = cables(list(range(1, HOSTS + 1)))
    plan = CablePlan(tuple(PlannedCable(*ends, n) for n, ends in enumerate(wanted, 1)))
    there = tuple(SeenCable(*e) for e in cables(order))
    found = compare(plan, SeenCables(there, frozenset({"leaf"})))
    assert isinstance(found, CableComparison)
    whole, cut = (wiring_document(Compared(found), most_cables=n) for n in (None, most))
    listed = [e for p in cut["places"] for f in p["findings"] for e in f["cables"]]
    assert len(listed) <= most
    assert cut["counts"] == whole["counts"]
    left = sum(cut["counts"].values()) - len(listed)
    assert bool(cut["notes"]) == bool(left)
    assert as_text(compared(cut)).splitlines()[0] == as_text(Compared(found)).splitlines()[0]


def neighbour(
    nic: str, name: str, port: str, description: str = "", chassis: str = ""
) -> NicNeighbour:
    """Who names itself at the end of an interface."""
    return NicNeighbour(nic, f"mac {chassis or name}", name, port, description)


def seen(*told: tuple[str, NicNeighbour], plan: CablePlan) -> set[tuple[str, str, str, str]]:
    """The cables of what nodes see."""
    facts: dict[NodeName, list[NicNeighbour]] = {}
    for node, each in told:
        facts.setdefault(NodeName(node), []).append(each)
    return {(*c.one, *c.other) for c in seen_by_neighbours(facts, plan).cables}


def planned(*rows: str) -> CablePlan:
    """A plan of rows `a port z port`."""
    ends = [row.split() for row in rows]
    return CablePlan(
        tuple(PlannedCable(End(a, b), End(c, d), n) for n, (a, b, c, d) in enumerate(ends, 1))
    )


def test_a_port_of_a_switch_is_called_as_the_plan_calls_it() -> None:
    """SONiC's identity is etp1, its description Ethernet0, and plans write either."""
    told = ("n1", neighbour("eth0", "leaf.dc1", "etp1", "Ethernet0"))
    assert seen(told, plan=planned("n1 eth0 LEAF Ethernet0")) == {
        ("n1", "eth0", "leaf.dc1", "Ethernet0")
    }
    assert seen(told, plan=planned("n1 eth0 leaf swp1")) == {("n1", "eth0", "leaf.dc1", "etp1")}


def test_of_two_neighbours_and_of_two_claims_on_a_port_the_planned_one_counts() -> None:
    plan = planned("n1 eth0 leaf 1", "n2 eth0 leaf 2")
    moving = [("n1", neighbour("eth0", "leaf", port)) for port in ("7", "1")]
    assert seen(*moving, plan=plan) == {("n1", "eth0", "leaf", "1")}
    claims = [(node, neighbour("eth0", "leaf", "1")) for node in ("n2", "n1")]
    assert seen(*claims, plan=plan) == {("n1", "eth0", "leaf", "1")}
    others = [(node, neighbour("eth0", "leaf", "9")) for node in ("n2", "n1")]
    assert seen(*others, plan=plan) == set()


def test_switches_of_one_name_are_told_apart_by_their_chassis() -> None:
    told = [(f"n{n}", neighbour("eth0", "localhost", "1", chassis=str(n))) for n in (1, 2)]
    assert seen(*told, plan=planned("n1 eth0 leaf 1")) == {
        ("n1", "eth0", "mac 1", "1"),
        ("n2", "eth0", "mac 2", "1"),
    }


def test_no_node_takes_a_switch_or_the_whole_comparison_from_others_by_what_it_says() -> None:
    plan = planned("n1 eth0 leaf 1", "n2 eth0 leaf 2", "n4 mlx5_0 leaf 3")
    honest = {
        NodeName(f"n{n}"): [neighbour("eth0", "leaf", str(n), chassis="leaf")] for n in (1, 2)
    }
    dumps = SeenCables((SeenCable(End("n4", "mlx5_0"), End("leaf", "3")),), frozenset({"leaf"}))
    lies = [
        neighbour("eth0", "leaf", "swp1", chassis="other"),
        neighbour("ETH0", "leaf", "P1", chassis="other"),
        neighbour("eth1", "leaf", "swp3", chassis="leaf"),
        neighbour("eth2", "n3", "eth2"),
    ]
    for told in (honest, honest | {NodeName("n3"): lies}):
        found = compare(plan, joined(dumps, seen_by_neighbours(told, plan)))
        assert isinstance(found, CableComparison)
        assert (found.right, found.findings) == (3, ())


def test_silence_of_lldp_is_no_missing_cable_and_a_swap_is_found() -> None:
    plan = planned("n1 eth0 leaf 1", "n2 eth0 leaf 2", "n3 eth0 leaf 3")
    told = {
        NodeName("n1"): [neighbour("eth0", "leaf", "swp2")],
        NodeName("n2"): [neighbour("eth0", "leaf", "swp1")],
    }
    found = compare(plan, joined(seen_by_neighbours(told, plan)))
    assert isinstance(found, CableComparison)
    assert [each.verdict for each in found.findings] == ["swap", "unseen"]


def test_a_cable_of_ethernet_is_as_fast_as_the_node_reads_its_own_port() -> None:
    plan = planned("n1 eth0 leaf 1", "n2 eth0 leaf 2", "n3 eth0 leaf 3")
    told = {
        NodeName(f"n{n}"): [neighbour("eth0", "leaf", f"swp{n}", chassis="leaf")] for n in (1, 2, 3)
    }
    port = NetworkPort("mlx5_0", 1, up=True, rate_gbps=400, interfaces=("eth0",))
    port = replace(port, link_layer="Ethernet")
    nics = {"n1": port, "n2": replace(port, rate_gbps=100), "n3": port}
    own = own_ports(replace(facts(node), nics=(nic,)) for node, nic in nics.items())
    found = compare(plan, joined(seen_by_neighbours(told, plan, own)))
    assert isinstance(found, CableComparison)
    (slow,) = found.findings
    assert (slow.verdict, slow.ends[0]) == ("slow", End("n2", "eth0"))
    assert slow.text == "runs at 100G: 100 of 400 Gbit/s usual there"

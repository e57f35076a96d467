"""Plans of cables in the formats in which people keep them, and what is refused with its line."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.facts.plans import read_plan
from topo.facts.plans.plan import CablePlan, End, PlannedCable
from topo.model.errors import Refusal

FOLDER = Path(__file__).resolve().parents[3].parent / "shared/data/fabrics/plans"
OURS = "a_node,a_port,z_node,z_port,rate,label,a_rack,z_rack\n"
CVT = "A-Node Name,A-Type,A-Port,Z-Node Name,Z-Type,Z-Port\n"
NETBOX = "side_a_device,side_a_type,side_a_name,side_b_device,side_b_type,side_b_name\n"
EXPORT = "ID,Label,Termination A,Termination B,Status,Type,Device A,Device B,Rack A,Rack B,Site A\n"
PAIR = (End("gpu-01", "mlx5_0"), End("leaf-01", "1"))


def cables(text: str) -> tuple[PlannedCable, ...]:
    found = read_plan(text)
    assert isinstance(found, CablePlan), found
    return found.cables


@pytest.mark.parametrize(
    "text",
    [
        OURS + "gpu-01,mlx5_0,leaf-01,1\n",
        "\ufeffZ_Node;Z_Port;A_Node;A_Port\n" + "leaf-01;1;gpu-01;mlx5_0\n",
        f"{CVT}gpu-01,Host,mlx5_0,leaf-01,Switch,1\n",
        "Rack,U,Name,HCA/Port,Rack,U,Name,Port\n1,2,gpu-01,mlx5_0,R1,3,leaf-01,1\n",
        f"{NETBOX}gpu-01,dcim.interface,mlx5_0,leaf-01,dcim.interface,1\n",
        f"id,label,{NETBOX}7,,gpu-01,dcim.interface,mlx5_0,leaf-01,dcim.interface,1\n",
        f"{EXPORT}7,,mlx5_0,1,Connected,,gpu-01,leaf-01,,,s\n",
        'graph f { "gpu-01":"mlx5_0" -- "leaf-01":"1" [bfd=on] }\n',
        "strict graph f\n{\n// a -- b\n gpu-01:mlx5_0 -- leaf-01:1;\n}\n",
        "DGX gpu-01\n   mlx5_0 -4x-100G-> MQM9700 leaf-01 1\n",
    ],
)
def test_one_cable_in_every_format(text: str) -> None:
    (cable,) = cables(text)
    assert cable[:2] == PAIR


def test_what_a_plan_says_beside_the_ends_is_kept() -> None:
    (cable,) = cables(OURS + 'gpu-01,mlx5_0,leaf-01,1,4xNDR,"C, 7",R1,R2\n')
    assert (round(cable.gbps), cable.label, cable.racks, cable.line) == (
        425,
        "C, 7",
        ("R1", "R2"),
        2,
    )


def test_a_cable_that_is_written_at_both_ends_is_one() -> None:
    text = "T a\n  P1 -4x-50G-> T b P2\n\nT b\n  P2 -4x-50G-> T a P1\n"
    assert [each.gbps for each in cables(text)] == [200.0]


@pytest.mark.parametrize(
    ("text", "where", "word"),
    [
        (OURS + "a,1,b,1\na,1,c,1\n", "line 3", "a port 1 is in two cables, also in line 2"),
        (OURS + "a,1,a,1\n", "line 2", "with itself"),
        (OURS + "a,1,,1\n", "line 2", "without a device"),
        (OURS + "a,1\n", "line 2", "2 cells"),
        (f"id,{NETBOX}7,a,dcim.interface,1,b,dcim.interface\n", "line 2", "6 cells"),
        (OURS, "the plan", "no cable"),
        ("graph g {\n a -- b\n}\n", "line 2", "not one edge with a port"),
        ("graph g { a:1 -- b:1; a:2 -- b:2 }\n", "line 1", "not one edge with a port"),
        ("T a\n  P1 -> \n", "line 2", "neither"),
        ("hello\n", "line 1", "no plan"),
        ("", "line 1", "no plan"),
    ],
)
def test_what_cannot_be_a_plan_is_refused_with_its_line(text: str, where: str, word: str) -> None:
    found = read_plan(text)
    assert isinstance(found, Refusal)
    assert found.where == where
    assert word in found.what
    assert found.fix


def test_an_export_of_netbox_has_racks_and_passes_over_what_is_no_plain_cable() -> None:
    rows = (
        "7,C7,eth0,swp1,Connected,,gpu-01,leaf-01,R1,R2,s",
        '8,,"eth1, eth2",swp2,Connected,,gpu-01,leaf-01,R1,R2,s',
        "9,,eth3,swp3,Decommissioning,,gpu-01,leaf-01,R1,R2,s",
        "10,,eth4,,Connected,,gpu-01,,R1,,s",
    )
    found = read_plan(EXPORT + "\n".join(rows))
    assert isinstance(found, CablePlan)
    assert [(each.label, each.racks) for each in found.cables] == [("C7", ("R1", "R2"))]
    assert "3 cables" in found.notes[0]


def test_cables_of_panels_are_passed_over_and_told() -> None:
    text = f"{NETBOX}a,dcim.interface,1,b,dcim.interface,1\np,dcim.rearport,1,q,dcim.rearport,1\n"
    found = read_plan(text)
    assert isinstance(found, CablePlan)
    assert len(found.cables) == 1
    assert "1 cable is not between two interfaces (line 3): panels are" in found.notes[0]


def test_a_rate_that_is_no_speed_is_told_with_its_line() -> None:
    found = read_plan(OURS + "a,1,b,1,fast\na,2,b,2,400G\na,3,b,3,\na,4,b,4,NDR\n")
    assert isinstance(found, CablePlan)
    assert [cable.gbps for cable in found.cables] == [0, 400, 0, 0]
    (note,) = found.notes
    assert "rate 'fast' is no speed (line 2, 5): write it as 4xNDR" in note


@given(st.text(max_size=200), st.sampled_from([OURS, "graph g {\n", "T a\n  P1 -> T b P2\n", ""]))
def test_any_text_is_a_plan_or_a_refusal(text: str, head: str) -> None:
    found = read_plan(head + text)
    assert isinstance(found, Refusal) or all(all(each[:2]) for each in found.cables)


@pytest.mark.skipif(not FOLDER.exists(), reason="no public plans here")
@pytest.mark.parametrize(
    ("file", "count"),
    [
        ("broken-fabric.plan.csv", 50),
        ("broken-fabric.plan.dot", 50),
        ("cvt-p2p.ethernet.csv", 3),
        ("cvt-p2p.infiniband.csv", 5),
        ("ibdiagnet.cvt.topo", 5),
        ("ibdm.topo", 10),
        ("netbox.cables.csv", 2),
        ("ptm.topology.dot", 12),
        ("ptm.options.dot", 3),
    ],
)
def test_public_plans_are_read_with_all_their_cables(file: str, count: int) -> None:
    assert len(cables((FOLDER / file).read_text())) == count


@pytest.mark.skipif(not FOLDER.exists(), reason="no public plans here")
def test_two_formats_of_one_plan_are_the_same_cables() -> None:
    csv, dot = (
        {each[:2] for each in cables((FOLDER / f"broken-fabric.plan.{end}").read_text())}
        for end in ("csv", "dot")
    )
    assert csv == dot

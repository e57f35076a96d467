"""Neighbours by LLDP: both JSON forms say the same, and what was cut off says nothing.

The real outputs are not part of the repository; without them their tests are skipped.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.model.machine import NicNeighbour

SHARED = Path(__file__).resolve().parents[2].parent / "shared/data/fabrics/lldp"
LEAF, OTHER = "mac 1c:34:da:00:01:00", "mac 1c:34:da:00:02:00"
HOST = "mac b8:3f:d2:20:00:20"
TRUTH = {
    "gpu-01": {
        ("eth-rdma0", LEAF, "LEAF01", "etp1"),
        ("eth-rdma1", OTHER, "leaf02.dc1.example.com", "Ethernet0"),
        ("eth-rdma2", LEAF, "LEAF01", "etp3"),
        ("eth-rdma2", HOST, "gpu-02", "b8:3f:d2:20:00:20"),
        ("eth-rdma3", HOST, "gpu-02", "b8:3f:d2:20:00:30"),
    },
    "shutdown-host2": {
        ("eth-rdma0", LEAF, "LEAF01", "etp1"),
        ("eth-rdma2", LEAF, "LEAF01", "etp3"),
    },
    "empty": set(),
}
"""By output what its index says of the wiring."""

names = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=9)
ids = st.tuples(st.sampled_from(("ifname", "local", "ip")), names)
neighbours = st.builds(
    NicNeighbour,
    nic=names,
    chassis=ids.map(" ".join),
    name=st.one_of(st.just(""), names.filter(lambda name: name != "id")),
    port=names,
    port_description=st.one_of(st.just(""), names),
)


def json0(found: list[NicNeighbour]) -> str:
    """As lldpcli prints them where everything is a list."""

    def entry(each: NicNeighbour) -> dict[str, Any]:
        kind, _, value = each.chassis.partition(" ")
        chassis: dict[str, Any] = {"id": [{"type": kind, "value": value}]}
        port: dict[str, Any] = {"id": [{"type": "ifname", "value": each.port}]}
        chassis |= {"name": [{"value": each.name}]} if each.name else {}
        port |= {"descr": [{"value": each.port_description}]} if each.port_description else {}
        return {
            "name": each.nic,
            "via": "LLDP",
            "age": "0 day, 00:00:08",
            "chassis": [chassis],
            "port": [port],
        }

    inner = {"interface": [entry(each) for each in found]} if found else {}
    return json.dumps({"lldp": [inner]}, indent=2)


def plain_json(found: list[NicNeighbour]) -> str:
    """As lldpcli prints them where what is there once stands alone."""

    def entry(each: NicNeighbour) -> dict[str, Any]:
        kind, _, value = each.chassis.partition(" ")
        chassis: dict[str, Any] = {"id": {"type": kind, "value": value}}
        port: dict[str, Any] = {"id": {"type": "ifname", "value": each.port}}
        port |= {"descr": each.port_description} if each.port_description else {}
        named = {each.name: chassis} if each.name else chassis
        return {each.nic: {"via": "LLDP", "chassis": named, "port": port}}

    entries = [entry(each) for each in found]
    inner: dict[str, Any] = {} if not entries else {"interface": entries}
    if len(entries) == 1:
        inner = {"interface": entries[0]}
    return json.dumps({"lldp": inner}, indent=2)


@given(st.lists(neighbours, max_size=6))
def test_both_forms_name_each_neighbour_once(found: list[NicNeighbour]) -> None:
    one = items(understood(json0(found)), NicNeighbour)
    assert set(one) == set(found)
    assert len(one) == len(set(found))
    assert items(understood(plain_json(found)), NicNeighbour) == one


@given(st.lists(neighbours, min_size=1, max_size=3), st.data())
def test_an_output_that_was_cut_off_is_refused(
    found: list[NicNeighbour], data: st.DataObject
) -> None:
    text = json0(found)
    at = data.draw(st.integers(text.index("[") + 1, len(text) - 1))
    assert "cut off" in refused(text[:at], "lldpcli").what


def test_a_neighbour_by_another_protocol_is_left_out_and_told() -> None:
    """A switch that speaks two protocols is listed twice."""
    text = json0([NicNeighbour("eth0", "mac aa", "leaf", "1")])
    document = json.loads(text)
    (entry,) = document["lldp"][0]["interface"]
    document["lldp"][0]["interface"] = [entry, entry | {"via": "CDPv2"}]
    found = understood(json.dumps(document))
    assert len(items(found, NicNeighbour)) == 1
    assert found.warnings == ("1 neighbour by other protocols than LLDP left out",)


def test_a_neighbour_that_does_not_say_who_it_is_is_left_out_and_told() -> None:
    document = json.loads(json0([NicNeighbour("eth0", "mac aa", "leaf", "1")]))
    del document["lldp"][0]["interface"][0]["chassis"][0]["id"]
    found = understood(json.dumps(document))
    assert not found.facts
    assert found.warnings == ("1 neighbour without chassis or port left out",)


def test_the_outputs_of_two_hosts_are_not_one() -> None:
    text = json0([NicNeighbour("eth0", "mac aa", "leaf", "1")])
    assert "2 outputs" in refused(f"{text}\n{text}", "lldpcli").what


def test_a_document_of_another_shape_is_refused_with_the_command() -> None:
    found = refused('{"lldp": [3]}')
    assert "is not an object" in found.what
    assert "lldpcli -f json0 show neighbors" in found.fix


@pytest.mark.parametrize("name", TRUTH)
@pytest.mark.parametrize("form", ["json0", "json"])
def test_real_outputs_say_what_was_wired(name: str, form: str) -> None:
    path = SHARED / f"{name}.{form}.json"
    if not path.exists():
        pytest.skip("the real outputs are not part of the repository")
    found = items(understood(path.read_text()), NicNeighbour)
    assert {(each.nic, each.chassis, each.name, each.port) for each in found} == TRUTH[name]


@pytest.mark.skipif(not SHARED.exists(), reason="the real outputs are not part of the repository")
def test_each_real_output_says_the_same_in_both_forms() -> None:
    forms = sorted(SHARED.glob("*.json0.json"))
    assert forms
    for path in forms:
        other = path.with_name(path.name.replace("json0.json", "json.json"))
        assert understood(path.read_text()).facts == understood(other.read_text()).facts, path.name

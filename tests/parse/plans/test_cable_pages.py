"""Cables as the REST API of NetBox or Nautobot answers them, by pages."""

import json
from typing import Any

import pytest

from topo.facts.plans import read_plan
from topo.facts.plans.plan import CablePlan, End
from topo.model.errors import Refusal


def termination(device: str, name: str, kind: str = "dcim.interface") -> dict[str, Any]:
    """An end of a cable, with what the API says beside it."""
    about = {"id": 1, "url": "https://netbox/api/dcim/devices/1/", "display": device}
    return {
        "object_type": kind,
        "object_id": 7,
        "object": {"id": 7, "display": name, "name": name, "device": {**about, "name": device}},
    }


def cable(number: int, a: list[Any], b: list[Any], **more: Any) -> dict[str, Any]:
    """A cable; connected, unless it says otherwise."""
    status = {"value": "connected", "label": "Connected"}
    ends = {"a_terminations": a, "b_terminations": b}
    return {"id": number, "display": f"#{number}", "label": "", "status": status, **ends, **more}


def uplink(number: int, host: str = "gpu-01") -> dict[str, Any]:
    """From an interface of a host to the port of that number."""
    end = [termination("leaf-01", f"swp{number}")]
    return cable(number, [termination(host, f"eth{number}")], end, label=f"R{number}")


def nautobot(number: int, host: str = "gpu-01", **more: Any) -> dict[str, list[Any]]:
    """The same cable as `uplink`, as the lists of Nautobot have it."""

    def brief(kind: str, name: str) -> dict[str, Any]:
        return {"id": f"id-of-{name}", "object_type": kind, "url": "https://nautobot/api/"}

    def named(kind: str, name: str, text: str) -> dict[str, Any]:
        return {**brief(kind, name), "display": text, "name": text}

    ends = {"a": (host, f"eth{number}"), "b": ("leaf-01", f"swp{number}")}
    cable = brief("dcim.cable", f"cable-{number}") | {
        "label": f"R{number}",
        "status": brief("extras.status", "connected"),
        "terminations": {f"{side}1": brief("dcim.interface", "x") for side in ends},
    }
    for side, (_, port) in ends.items():
        cable[f"termination_{side}_type"] = "dcim.interface"
        cable[f"termination_{side}_id"] = f"id-of-{port}"
    return {
        "cables": [cable | more],
        "interfaces": [
            named("dcim.interface", port, port) | {"device": brief("dcim.device", device)}
            for device, port in ends.values()
        ],
        "devices": [named("dcim.device", device, device) for device, _ in ends.values()],
        "statuses": [
            named("extras.status", word, word.title()) for word in ("connected", "decommissioning")
        ],
    }


def nautobot_pages(*cables: dict[str, list[Any]], size: int = 2) -> str:
    """The pages of all four lists of these cables."""
    text = []
    for name in cables[0]:
        found = {each["id"]: each for cable in cables for each in cable[name]}
        text.append(paged(*found.values(), size=size))
    return "\n".join(text)


def paged(*cables: Any, size: int = 2) -> str:
    """Pages of so many cables, one after another."""
    parts = [cables[at : at + size] for at in range(0, len(cables), size)] or [()]
    return "\n".join(
        json.dumps(
            {
                "count": len(cables),
                "next": f"https://netbox/?offset={n}" if n < len(parts) else None,
                "previous": None,
                "results": part,
            },
            indent=1,
        )
        for n, part in enumerate(parts, 1)
    )


def test_cables_of_all_pages_are_the_plan_with_their_labels() -> None:
    found = read_plan(paged(*map(uplink, range(1, 6))))
    assert isinstance(found, CablePlan), found
    assert [each[:2] for each in found.cables] == [
        (End("gpu-01", f"eth{n}"), End("leaf-01", f"swp{n}")) for n in range(1, 6)
    ]
    assert [(each.label, each.line) for each in found.cables] == [(f"R{n}", n) for n in range(1, 6)]
    assert found.notes == ()


def test_cables_of_nautobot_are_those_of_netbox() -> None:
    found = read_plan(nautobot_pages(*map(nautobot, range(1, 6))))
    netbox = read_plan(paged(*map(uplink, range(1, 6))))
    assert isinstance(found, CablePlan), found
    assert found == netbox


def test_racks_of_devices_are_those_of_their_cables_and_may_be_left_out() -> None:
    """A device in no rack, and one of a list that was not given, has none."""
    far, near = termination("leaf-01", "swp1"), termination("gpu-01", "eth1")
    for number, end in ((5, far), (6, near)):
        end["object"]["device"]["id"] = number
    cables = paged(cable(1, [near], [far]))
    devices = [
        {"id": 5, "name": "leaf-01", "rack": {"id": 1, "name": "R07"}},
        {"id": 6, "rack": None},
    ]
    nautobots = nautobot(1)
    nautobots["devices"][1]["rack"] = {"id": "id-of-R07"}
    nautobots["racks"] = [{"id": "id-of-R07", "object_type": "dcim.rack", "name": "R07"}]
    for text, racks in (
        (cables + paged(*devices), ("", "R07")),
        (paged(*devices, size=1) + cables, ("", "R07")),
        (cables + paged(), ("", "")),
        (nautobot_pages(nautobots), ("", "R07")),
        (nautobot_pages(nautobot(1)) + paged(), ("", "")),
    ):
        found = read_plan(text)
        assert isinstance(found, CablePlan), found
        assert [each.racks for each in found.cables] == [racks]
    first, _ = paged(*devices, size=1).split("\n{")
    assert isinstance(read_plan(cables + first), Refusal), "the list is not all"


@pytest.mark.parametrize("name", ["interfaces", "devices", "statuses"])
def test_an_object_of_nautobot_that_is_in_no_list_is_refused(name: str) -> None:
    """It came after its list was read, or the token may not view it."""
    cable = nautobot(1)
    found = read_plan(nautobot_pages(cable | {name: cable[name][1:]}))
    assert isinstance(found, Refusal)
    assert "is in no list" in found.what


@pytest.mark.parametrize(
    "more",
    [
        {"termination_a_type": "dcim.rearport"},
        {"termination_b_type": None, "termination_b_id": None},
        {"status": {"id": "id-of-decommissioning"}},
        {"terminations": {"a1": {}, "b1": {}, "b2": {}}},
    ],
)
def test_what_of_nautobot_is_not_between_two_interfaces_is_passed_over(more: Any) -> None:
    found = read_plan(nautobot_pages(nautobot(1), nautobot(2, **more)))
    assert isinstance(found, CablePlan)
    assert (len(found.cables), "1 cable" in found.notes[0]) == (1, True)


def test_an_interface_of_a_module_is_passed_over() -> None:
    cable = nautobot(2)
    cable["interfaces"][0]["device"] = None
    found = read_plan(nautobot_pages(nautobot(1), cable))
    assert isinstance(found, CablePlan)
    assert len(found.cables) == 1


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (paged(*map(uplink, range(1, 6))), "a_terminations"),
        (nautobot_pages(*map(nautobot, range(1, 4))), "termination_a_type"),
    ],
    ids=["netbox", "nautobot"],
)
def test_pages_that_are_not_all_or_cut_are_refused(text: str, key: str) -> None:
    """Wherever the text ends, and whichever page is left out."""
    for end in range(text.index(key) + 16, len(text)):
        if text[end:].strip():
            assert isinstance(read_plan(text[:end]), Refusal), end
    pages = text.split("\n{")
    for left_out in range(len(pages)):
        rest = [page for nth, page in enumerate(pages) if nth != left_out]
        assert isinstance(read_plan("\n{".join(rest).lstrip("{").join(["{", ""])), Refusal)
    assert isinstance(read_plan(text + text), Refusal)


@pytest.mark.parametrize(
    "other",
    [
        cable(9, [termination("p1", "r1", "dcim.rearport")], [termination("p2", "r1")]),
        cable(9, [termination("a", "1"), termination("a", "2")], [termination("b", "1")]),
        cable(9, [], [termination("b", "1")]),
        uplink(9) | {"status": {"value": "decommissioning"}},
    ],
)
def test_what_is_not_between_two_interfaces_is_passed_over_and_told(other: Any) -> None:
    found = read_plan(paged(uplink(1), other))
    assert isinstance(found, CablePlan)
    assert (len(found.cables), "1 cable" in found.notes[0], "cable 9" in found.notes[0]) == (
        1,
        True,
        True,
    )


def test_a_port_in_two_cables_is_refused_with_both_numbers() -> None:
    one, two = uplink(1), uplink(1, "gpu-02") | {"id": 12}
    found = read_plan(paged(one, two))
    assert isinstance(found, Refusal)
    assert (found.where, "also in cable 1" in found.what) == ("cable 12", True)


@pytest.mark.parametrize("text", ['{"a_terminations": 1}', '{"results": ["a_terminations"]}'])
def test_other_json_is_refused(text: str) -> None:
    assert isinstance(read_plan(text), Refusal)

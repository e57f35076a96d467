"""Cables as NetBox's REST API answers them: by pages, between what it calls terminations."""

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


def test_pages_that_are_not_all_or_cut_are_refused() -> None:
    """Wherever the text ends, and whichever page is left out."""
    text = paged(*map(uplink, range(1, 6)))
    for end in range(text.index("a_terminations") + 16, len(text)):
        if text[end:].strip():
            assert isinstance(read_plan(text[:end]), Refusal), end
    pages = text.split("\n{")
    for left_out in range(3):
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
    assert (len(found.cables), "1 cables" in found.notes[0], "cable 9" in found.notes[0]) == (
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

"""A note says what the machine can have written and nothing else: anybody can write its text."""

import orjson
import pytest

from topo.gangs.machine.gang import GangId, Note, Selection
from topo.gangs.note_codec import (
    MAX_INSIDE_CHARS,
    MAX_NOTE_CHARS,
    decode,
    encode_note,
    encode_unplanned,
)
from topo.model.ids import NodeName
from topo.model.limits import MAX_PODS
from topo.placement.booking.holds import HoldId

GANG = GangId("8c1f")
NOTE = Note(
    node=NodeName("n1.example"),
    group=0,
    hold=HoldId("hold-1"),
    selection=Selection("hold-1"),
    generation=3,
    certified=True,
)


def with_value(name: str, value: object) -> str:
    stated = orjson.loads(encode_note(GANG, NOTE))
    return orjson.dumps({**stated, name: value}).decode()


def test_what_is_encoded_is_decoded() -> None:
    assert decode(GANG, encode_note(GANG, NOTE)) == (NOTE, "")
    assert decode(GANG, encode_unplanned("why")) == (None, "why")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("gang", "another"),
        ("certified", 1),
        ("node", ""),
        ("node", "N1"),
        ("node", "n1/../n2"),
        ("node", "n" * 254),
        ("node", 1),
        ("hold", ""),
        ("hold", "a b"),
        ("hold", "-a"),
        ("hold", "h" * 64),
        ("selection", ""),
        ("selection", "a b"),
        ("selection", "x\n"),
        ("selection", "h" * 64),
        ("group", -1),
        ("group", MAX_PODS),
        ("group", True),
        ("group", 0.0),
        ("generation", -1),
        ("generation", (1 << 53) + 1),
        ("generation", False),
    ],
)
def test_a_value_that_the_machine_does_not_write_makes_it_no_note(name: str, value: object) -> None:
    """A value that is none of a label would have the API server refuse all labels of a node."""
    assert decode(GANG, with_value(name, value)) == (None, "")


def test_values_at_the_limits_are_taken() -> None:
    for name, value in (
        ("group", MAX_PODS - 1),
        ("hold", "h" * 63),
        ("selection", "x" * 63),
        ("node", "n" * 253),
    ):
        found, _ = decode(GANG, with_value(name, value))
        assert found is not None
        assert getattr(found, name) == value


def test_a_text_longer_than_a_note_is_not_read() -> None:
    long = with_value("more", "x" * MAX_NOTE_CHARS)
    assert decode(GANG, long) == (None, "")
    assert decode(GANG, encode_unplanned("x" * MAX_NOTE_CHARS)) == (None, "")


def test_the_group_that_a_job_is_inside_is_bounded_and_a_flag_is_a_truth_value() -> None:
    for value, inside in (("x" * MAX_INSIDE_CHARS, "x" * MAX_INSIDE_CHARS), (1, "")):
        found, _ = decode(GANG, with_value("inside", value))
        assert found is not None
        assert found.inside == inside
    longer, _ = decode(GANG, with_value("inside", "x" * (MAX_INSIDE_CHARS + 1)))
    assert longer is not None
    assert longer.inside == ""
    for name in ("over", "withdrawn"):
        found, _ = decode(GANG, with_value(name, 1))
        assert found == NOTE

"""What a parser answered, taken apart for the tests."""

from typing import TypeVar

from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.machine import LinkMatrix
from topo.model.observation import ParsedProbe

T = TypeVar("T")


def understood(text: str, format_name: str | None = None) -> ParsedProbe:
    """The observation of a text that must be readable."""
    found = parse(text, format_name)
    assert isinstance(found, ParsedProbe), str(found)
    return found


def refused(text: str, format_name: str | None = None) -> Refusal:
    """The refusal of a text that must not be readable; it always says what, where and the fix."""
    found = parse(text, format_name)
    assert isinstance(found, Refusal), found
    assert found.what
    assert found.where
    assert found.fix
    return found


def items(probe: ParsedProbe, kind: type[T]) -> list[T]:
    """The facts of one kind, out of their tuples."""
    flat = [item for fact in probe.facts for item in (fact if isinstance(fact, tuple) else [fact])]
    return [item for item in flat if isinstance(item, kind)]


def matrix_of(probe: ParsedProbe) -> LinkMatrix:
    """The one matrix."""
    (only,) = items(probe, LinkMatrix)
    return only


def codes_of(found: LinkMatrix) -> tuple[tuple[str, ...], ...]:
    """A matrix as printed."""
    return tuple(tuple(link.code for link in row) for row in found.links)

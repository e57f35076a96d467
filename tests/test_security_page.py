"""docs/security.md says what the code does: each limit is the code's, each threat has its test."""

import ast
import importlib
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from master.authentication.tokens import CONFIRM_S, CONFIRMATIONS, GRACE_S
from master.settings import MasterSettings
from topo.kit.files import LOOK_S
from topo.model.durations import parse_duration
from topo.placement.booking.holds import Limits
from worker.settings import WorkerSettings

TESTS = Path(__file__).parent
PAGE = (TESTS.parent / "docs" / "security.md").read_text(encoding="utf-8")
_BYTES = {"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_SECONDS = {"ms": 0.001, "s": 1, "min": 60, "h": 3600, "d": 86400}
_NUMBER = re.compile(r"([0-9.]+)(?: ([A-Za-z]+))?")
_FLAG = re.compile(r"(topo-worker )?--([a-z-]+)")


def rows(heads: tuple[str, ...]) -> Iterator[list[str]]:
    """The rows of all tables with these heads."""
    inside = False
    for line in PAGE.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|"):
            inside = False
        elif tuple(cells) == heads:
            inside = True
        elif inside and set(line) != set("|-"):
            yield cells


LIMITS = list(rows(("what", "limit", "set by")))
THREATS = list(rows(("threat", "what holds it", "test")))


def number(text: str) -> float:
    """A limit as the page writes it, in bytes, seconds or pieces."""
    found = _NUMBER.fullmatch(text)
    assert found is not None, f"no number with a unit: {text!r}"
    unit = found[2] or "characters"
    return float(found[1]) * ({"characters": 1} | _BYTES | _SECONDS)[unit]


def of_the_code(name: str) -> Any:
    """What a flag is by default, or a constant or a field's default is."""
    flag = _FLAG.fullmatch(name)
    if flag is not None:
        settings = WorkerSettings if flag[1] else MasterSettings
        return settings.model_fields[flag[2].replace("-", "_")].default
    place, _, last = name.rpartition(".")
    try:
        return getattr(importlib.import_module(place), last)
    except ModuleNotFoundError:
        owner = of_the_code(place)
        assert is_dataclass(owner), place
        return {field.name: field.default for field in fields(owner)}[last]


@cache
def names_in(path: str) -> frozenset[str]:
    """The tests of a file."""
    tree = ast.parse((TESTS / path).read_text(encoding="utf-8"))
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef)]
    return frozenset(function.name for function in functions if function.name.startswith("test_"))


@pytest.mark.parametrize(("what", "limit", "name"), LIMITS, ids=[row[0] for row in LIMITS])
def test_every_limit_of_the_page_is_that_of_the_code(what: str, limit: str, name: str) -> None:
    assert number(limit) == of_the_code(name.strip("`")), what


@pytest.mark.parametrize(("threat", "held", "test"), THREATS, ids=[row[0] for row in THREATS])
def test_every_threat_of_the_page_names_a_test_that_exists(
    threat: str, held: str, test: str
) -> None:
    path, _, name = test.strip("`").partition("::")
    assert name in names_in(path), threat
    assert held


def test_the_page_is_read_as_it_is_meant() -> None:
    """A table that nobody finds would hold nothing; a row that stands twice is a slip."""
    tables = re.findall(r"^\| (?:what \| limit|threat) \|", PAGE, re.MULTILINE)
    assert len(tables) == len(re.findall(r"^### ", PAGE, re.MULTILINE))
    assert len(LIMITS) > 40
    assert len(THREATS) > 40
    assert len({row[0] for row in THREATS}) == len(THREATS)
    assert len({row[2] for row in LIMITS}) == len(LIMITS)


def test_the_times_of_revocation_are_those_of_the_settings() -> None:
    """They stand in sentences: how soon a token is over, how soon its last words are."""
    settings = MasterSettings()
    assert LOOK_S + CONFIRM_S * CONFIRMATIONS <= 2
    assert GRACE_S == 300
    assert settings.discovery.stale_s == 30
    assert settings.discovery.forget_s == parse_duration("1d")
    assert settings.hold_limits == Limits(holds=1000, hold_s=86_400.0)
    held = "up to 1000 holds of a day each"
    for sentence in (
        "within two seconds",
        "three beats, 30 s",
        "after a day of silence",
        "for 300 s",
        held,
    ):
        assert sentence in PAGE


def test_every_link_of_the_page_leads_to_a_heading() -> None:
    for file, anchor in re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", PAGE):
        text = (TESTS.parent / "docs" / file).read_text(encoding="utf-8")
        heads = [
            re.sub(r"[^\w -]", "", head) for head in re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        ]
        assert not anchor or anchor in {head.lower().replace(" ", "-") for head in heads}, anchor

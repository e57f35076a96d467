"""A log of gangs replays to the same instructions, and what differs is named by its line."""

import pytest

from tests.gangs.test_random_life import STEPS, Life
from topo.gangs.machine.log import GangLogHeader, GangReplay, GangsAdvanced, line_of, replay
from topo.gangs.machine.settings import GangSettings
from topo.model.errors import Refusal


def lived(seed: int) -> list[bytes]:
    """The log of the last leader of a random life."""
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.late.clear()
    life.rest()
    return [
        line_of(GangLogHeader(life.settings)),
        *(line_of(GangsAdvanced(*step)) for step in life.leader.log),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_the_same_events_give_the_same_instructions_byte_for_byte(seed: int) -> None:
    lines = lived(seed)
    found = replay(iter(lines))
    assert isinstance(found, GangReplay)
    assert found.difference == ""
    assert found.steps == len(lines) - 1
    assert lived(seed) == lines


def test_the_first_step_that_differs_is_named() -> None:
    wanted = b'"reserve":true'
    lines = next(log for log in map(lived, range(20)) if any(wanted in line for line in log))
    at = next(n for n, line in enumerate(lines) if wanted in line)
    lines[at] = lines[at].replace(b'"reserve":true', b'"reserve":false')
    found = replay(iter(lines))
    assert isinstance(found, GangReplay)
    assert found.difference.startswith(f"line {at + 1}: it was Place")


def test_a_step_that_is_missing_is_found() -> None:
    wanted = b'"kind":"planned"'
    lines = next(log for log in map(lived, range(20)) if any(wanted in line for line in log))
    at = next(n for n, line in enumerate(lines) if wanted in line)
    found = replay(iter([*lines[:at], *lines[at + 1 :]]))
    assert isinstance(found, GangReplay)
    assert found.difference


@pytest.mark.parametrize(
    ("lines", "where"),
    [
        ([], "line 1"),
        ([b"{}\n"], "line 1"),
        ([line_of(GangsAdvanced(0.0, (), ()))], "line 1"),
        ([line_of(GangLogHeader(GangSettings()))] * 2, "line 2"),
        ([b'{"kind":"topo-gang-log","format":2,"settings":{}}\n'], "line 1"),
    ],
)
def test_what_is_no_log_is_refused_with_its_line(lines: list[bytes], where: str) -> None:
    found = replay(iter(lines))
    assert isinstance(found, Refusal)
    assert found.where.startswith(where)


def test_a_last_line_that_was_cut_is_left_out() -> None:
    lines = lived(2)
    found = replay(iter([*lines[:-1], lines[-1][:-5]]))
    assert isinstance(found, GangReplay)
    assert found.difference == ""
    assert found.steps == len(lines) - 2

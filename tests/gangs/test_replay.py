"""The same events at the same times give the same instructions, whatever happened before."""

import pytest

from tests.gangs.test_random_life import STEPS, Life
from topo.gangs.machine.gangs import Gangs


def lived(seed: int) -> Life:
    """A random life; its last leader has a log of all steps."""
    life = Life(seed)
    for _ in range(STEPS):
        life.step()
    life.late.clear()
    life.rest()
    return life


@pytest.mark.parametrize("seed", range(5))
def test_the_steps_of_a_leader_replay_to_the_same_instructions_and_the_same_state(
    seed: int,
) -> None:
    life = lived(seed)
    again = Gangs(life.settings)
    for now_s, events, instructions in life.leader.log:
        assert again.advance(now_s, *events) == instructions
        again.validate()
    assert again.state() == life.leader.gangs.state()
    assert repr(lived(seed).leader.log) == repr(life.leader.log)


def test_a_step_that_is_missing_gives_other_instructions() -> None:
    life = lived(2)
    again = Gangs(life.settings)
    steps = [step for step in life.leader.log if step[2]][1:]
    assert [again.advance(at_s, *events) for at_s, events, _ in steps] != [
        instructions for _, _, instructions in steps
    ]

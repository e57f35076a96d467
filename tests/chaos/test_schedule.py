"""The schedule is the same for a seed, and leaves nothing out."""

from itertools import islice

import pytest

from tests.chaos.model.truth import Wiring
from tests.chaos.notes import Notes, table
from tests.chaos.schedule import ATTACKS, SPOILT, STATES, TOKEN_FILES, Do, Round, rounds
from topo.sim.clustermanager.faults import ManagerFaultKind
from topo.sim.worlds.presets import world

SEEDS = range(1, 21)
HARDWARE = {Do.CUT, Do.UNPLUG, Do.GPU, Do.LINK, Do.SILENCE}


def of(seed: int, count: int) -> list[Round]:
    return list(islice(rounds(seed, Wiring()), count))


def test_a_seed_is_a_schedule() -> None:
    assert of(7, 20) == of(7, 20) != of(8, 20)


@pytest.mark.parametrize("seed", SEEDS)
def test_five_rounds_have_every_kind_of_act(seed: int) -> None:
    assert {act.do for each in of(seed, 5) for act in each.acts} == set(Do)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_long_run_has_every_way_of_each_act(seed: int) -> None:
    acts = [act for each in of(seed, 100) for act in each.acts]
    assert {act.how for act in acts if act.how} >= {*ATTACKS, *SPOILT, *STATES, *TOKEN_FILES}
    assert set(SPOILT) <= set(ManagerFaultKind)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_broken_while_the_master_may_forget(seed: int) -> None:
    """What was broken before its start it cannot know, so no answer could be judged."""
    stood = False
    for each in of(seed, 100):
        kinds = {act.do for act in each.acts}
        assert Do.STATE not in kinds or not (stood or kinds & HARDWARE)
        stood = each.keeps


def test_the_model_is_told_the_wiring_that_was_asked_for() -> None:
    wiring = Wiring()
    hosts = world(wiring.switchboxes, wiring.dragonflies, 2, stem="sample").nodes
    assert [str(host.name) for host in hosts] == list(wiring.nodes)
    assert {str(h.name): str(h.switchbox) for h in hosts} == {
        node: wiring.switchbox(node) for node in wiring.nodes
    }
    by_server = {host.server_uuid: str(host.name) for host in hosts}
    assert {str(h.name): [by_server[peer] for peer in h.peers] for h in hosts} == {
        node: [wiring.partner(node)] for node in wiring.nodes
    }


def test_the_table_fits_80_columns(tmp_path) -> None:
    with (tmp_path / "log").open("w") as log:
        notes = Notes(log, lambda: 0.0)
        notes.acts.update(dict.fromkeys(Do, 12_345))
        notes.converged_s += [0.5, 1234.5]
        lines = list(table(notes))
    assert max(map(len, lines)) <= 80
    assert all(do in "\n".join(lines) for do in Do)

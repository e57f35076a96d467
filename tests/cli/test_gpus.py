"""`topo gpus`: the picture, what it asks, how it ends."""

import json
from typing import Any

import pytest

from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit

PATH = "/v1/nodes/node-3/gpus"


def document(choice: Any = None, **more: Any) -> Any:
    """Two bridged pairs, of which GPU 1 is in use and GPU 3 is broken."""
    links = [
        ["X" if a == b else "MX" if a // 2 == b // 2 else "SYS" for b in range(4)] for a in range(4)
    ]
    return {
        "node": "node-3",
        "gpus": [
            {"index": at, "model": "MXC500", "healthy": at != 3, "free": at in (0, 2)}
            for at in range(4)
        ],
        "links": links,
        "scores": {"1": 0, "2": 1, "3": 0, "4": 0},
        "losses": {"1": 1, "2": 1, "3": 2000, "4": 2000},
        "exact": True,
        "choice": choice,
        **more,
    }


TWO = {"n": 2, "fits": True, "gpus": [0, 2], "score": 1, "loss": 1, "why": "GPUs 0, 2: all free"}
FOUR: dict[str, Any] = {
    "n": 4,
    "fits": False,
    "gpus": [],
    "score": 0,
    "loss": 2000,
    "why": "4 do not fit: 2 of 4 GPUs are free",
}


@pytest.fixture
def answers(fake_master: FakeMaster) -> Any:
    """Sets what the master answers for node-3."""

    def answer(body: Any, status: int = 200) -> None:
        fake_master.broken[PATH] = (status, json.dumps(body), {})

    return answer


def test_the_chosen_gpus_stand_out_in_the_matrix_without_colour(topo: Topo, answers: Any) -> None:
    answers(document(TWO))
    shown = topo("gpus", "node-3", "-n", "2")
    assert shown.exit_code == Exit.OK
    assert [line.rstrip() for line in shown.stdout.splitlines()] == [
        "node-3  2 of 4 GPUs free  MXC500",
        "█ GPUs 0, 2: all free",
        "",
        "links",
        "      █0   ·1   █2   ✗3",
        "  ──────────────────────",
        "  █0   X   MX   SYS  SYS",
        "  ·1  MX    X   SYS  SYS",
        "  █2  SYS  SYS   X   MX",
        "  ✗3  SYS  SYS  MX    X",
        "",
        "what n GPUs are worth, and cost the others (0 to 2000)",
        "  n  score  loss",
        "  1      0     1",
        "  2      1     1",
        "  3      0  2000",
        "  4      0  2000",
    ]


def test_the_cables_beside_gpus_are_shown_with_their_rails(topo: Topo, answers: Any) -> None:
    cable: Any = {"adapter": "mlx5_0", "interface": "eth0", "gpus": [0, 1], "switch": "LEAF-1"}
    cable |= {"port": "swp3", "rate": "", "rail": 0, "unseen_s": None}
    far = {**cable, "adapter": "mlx5_1", "interface": "eth1", "gpus": [2, 3], "rail": None}
    management = {**cable, "adapter": "", "gpus": []}
    answers(document(uplinks=[{**far, "unseen_s": 200.0}, management, cable]))
    shown = [line.rstrip() for line in topo("gpus", "node-3").stdout.splitlines()]
    at = shown.index("cables to switches")
    assert shown[at + 1 : at + 4] == [
        "  GPU   adapter      switch  port  rate  rail",
        "  0, 1  mlx5_0 eth0  LEAF-1  swp3        0",
        "  2, 3  mlx5_1 eth1  LEAF-1  swp3              not seen for 3 min",
    ]


def test_it_asks_for_what_was_said_and_nothing_else(
    topo: Topo, fake_master: FakeMaster, answers: Any
) -> None:
    answers(document())
    assert topo("gpus", "node-3").exit_code == Exit.OK
    assert dict(fake_master.asked[-1].query) == {}
    topo("gpus", "node-3", "--gpus", "2", "--free", "0,2")
    assert fake_master.asked[-1].path == PATH
    assert dict(fake_master.asked[-1].query) == {"n": "2", "free": "0,2"}


def test_more_than_are_free_is_said_and_ends_with_5(topo: Topo, answers: Any) -> None:
    answers(document(FOUR))
    for output in ("table", "json"):
        shown = topo("gpus", "node-3", "-n", "4", "-o", output)
        assert shown.exit_code == Exit.NO_FIT
        assert FOUR["why"] in shown.stdout


def test_json_is_the_masters_own_document(topo: Topo, answers: Any) -> None:
    answers(document(TWO))
    assert json.loads(topo("gpus", "node-3", "-n", "2", "-o", "json").stdout) == document(TWO)


def test_a_greedy_answer_says_that_it_is_one(topo: Topo, answers: Any) -> None:
    answers(document(exact=False))
    assert "too many free GPUs to look at every set" in topo("gpus", "node-3").stdout


def test_a_node_without_a_matrix_is_refused_in_the_masters_words(topo: Topo, answers: Any) -> None:
    said = {"detail": "the worker of node-3 reports no link matrix", "field": "node", "fix": "see"}
    answers(said, 409)
    shown = topo("gpus", "node-3")
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr.splitlines()[0] == "topo: the worker of node-3 reports no link matrix"


@pytest.mark.parametrize("name", ["a/b", "..", "a?n=1", "a b", "a\x1b[2J"])
def test_a_name_that_would_be_another_call_is_bad_usage(
    topo: Topo, fake_master: FakeMaster, name: str
) -> None:
    shown = topo("gpus", name)
    assert shown.exit_code == Exit.USAGE
    assert "\x1b" not in shown.stderr
    assert not fake_master.asked


def test_what_a_terminal_would_obey_is_never_printed(topo: Topo, answers: Any) -> None:
    evil = {**TWO, "why": "why\x1b[2J"}
    answers(document(evil, node="node\x9b3", links=[["\x1b[31mX"]]))
    shown = topo("gpus", "node-3", "-n", "2")
    assert shown.exit_code == Exit.OK
    assert not {"\x1b", "\x9b"} & set(shown.stdout)

"""Which lines of a long tree are seen, and where keys lead."""

import pytest

from topo.cli.watch.viewport import Viewport, keys

LONG = Viewport(total=57, height=20)


def test_what_is_longer_than_the_screen_is_seen_from_its_beginning() -> None:
    assert LONG.seen == slice(0, 20)
    assert Viewport(5, 20).seen == slice(0, 5)
    assert Viewport(5, 20).is_all
    assert not LONG.is_all


@pytest.mark.parametrize(
    ("pressed", "top"),
    [
        ("j", 1),
        ("\x1b[B\x1b[B", 2),
        ("jjk", 1),
        ("k", 0),
        (" ", 19),
        ("\x1b[6~\x1b[5~", 0),
        ("G", 37),
        ("\x1b[F", 37),
        ("Gj ", 37),
        ("Gg", 0),
        ("\x1bOB", 1),
        ("x\x1b[31;5Z", 0),
    ],
)
def test_a_key_never_leads_beyond_an_end(pressed: str, top: int) -> None:
    view = LONG
    for key in keys(pressed):
        view = view.moved(key)
    assert view.top == top


def test_a_tree_that_shrinks_is_seen_to_its_end_and_a_place_is_kept() -> None:
    deep = LONG.moved("G")
    assert deep.of(57, 20) == deep
    assert deep.of(30, 20).top == 10
    assert deep.of(3, 20).top == 0
    assert LONG.moved("j").of(80, 10).top == 1


def test_sequences_of_a_terminal_are_one_key_each() -> None:
    assert list(keys("j\x1b[Bq\x1b[1~")) == ["j", "\x1b[B", "q", "\x1b[1~"]

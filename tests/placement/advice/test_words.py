import pytest

from topo.model.words import counted, listed, plural


@pytest.mark.parametrize(
    ("noun", "several"),
    [
        ("dragonfly", "dragonflies"),
        ("switchbox", "switchboxes"),
        ("nvlink-domain", "nvlink-domains"),
        ("leaf", "leaves"),
        ("switch", "switches"),
        ("bay", "bays"),
        ("node", "nodes"),
    ],
)
def test_every_kind_of_group_has_its_plural(noun, several):
    assert plural(noun) == several
    assert counted(1, noun) == f"1 {noun}"
    assert counted(0, noun) == f"0 {several}"


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], ""),
        (["a"], "a"),
        (["a", "b"], "a and b"),
        (["a", "b", "c"], "a, b and c"),
        (["a", "b", "c", "d", "e", "f"], "a, b, c, d and 2 more"),
    ],
)
def test_a_list_of_names_stays_short_and_says_how_many_it_left_out(names, text):
    assert listed(names) == text

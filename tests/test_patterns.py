"""Regular expressions on texts of others take time in proportion to the text, by their shape."""

import pytest

from tests.support.patterns import Compiled, calls, compiled, faults, is_searched, searched

BOUNDED = {
    "master/kube/schedulers/volcano_config.py _ACTIONS": "each round has a word between blanks",
    "master/kube/schedulers/volcano_config.py _FIRST_ITEM": "each round ends with its line",
    "topo/cli/client/option_names.py _FIELD": "a word begins at one place of it alone",
    "topo/facts/metax/mx_smi_table.py _INDEXED": "a cell of a line; what is left of it always fits",
    "topo/facts/nvidia/nvidia_smi_fabric.py _PAIR": "61 places at most where the name may end",
    "topo/facts/nvidia/nvidia_smi_fabric.py _TITLE": "61 places at most where the name may end",
    "topo/kit/hiding.py _RULES": "quotes part the rounds; kit/test_hiding.py tries it",
    "topo/kit/hiding.py _OF_LINES": "nothing follows that can fail; kit/test_hiding.py as well",
    "topo/kit/process/extras.py _OF_AN_EXTRA": "the metadata of our own package",
}
"""Patterns of a shape that may be slow and are not, each with the reason."""

LATER = {
    "topo/cli/client/option_names.py": "the name of an option of ours, at the beginning of a text",
    "topo/facts/plans/dot.py": "one character",
    "topo/facts/nvidia/nvidia_smi_topo.py": "the name of a device and what is no digit",
    "topo/kit/files.py": "the name of a file of ours and eight characters",
    "topo/kit/logs.py": "the name of a file of ours and a time",
    "topo/publish/slurm/reading.py": "up to nine digits",
    "worker/record.py": "a name of the node itself between other characters",
}
"""Files that compile patterns when they are used, and what they are made of: none repeats."""


@pytest.fixture(scope="module")
def patterns() -> list[Compiled]:
    return compiled()


def test_no_pattern_has_a_shape_that_takes_more_than_its_text(patterns: list[Compiled]) -> None:
    names = searched()
    found: dict[str, list[str]] = {}
    for each in patterns:
        if kinds := faults(each.text, each.flags, is_searched=is_searched(each, names)):
            found.setdefault(each.named, []).extend(kinds)
    assert {name: kinds for name, kinds in found.items() if name not in BOUNDED} == {}
    assert set(BOUNDED) <= set(found), "a reason that is not needed any more"


def test_all_patterns_of_the_product_are_looked_at(patterns: list[Compiled]) -> None:
    """All but those of `LATER` are compiled when their modules are imported."""
    places = {each.place for each in patterns}
    assert {each.rpartition(":")[0] for each in calls() - places} == set(LATER)


@pytest.mark.parametrize(
    ("text", "flags", "kind"),
    [
        (r"(a+b?)+c", 0, "nested"),
        (r"(\w+\s*)*;", 0, "nested"),
        (r"a*[ab]*c", 0, "adjacent"),
        (r"x\s*;?\s*y", 0, "adjacent"),
        (r"\s*x", 0, "leading"),
        (r"^\s{0,64}\[\s{0,64}\{", 8, "leading"),
    ],
)
def test_a_shape_that_takes_more_than_its_text_is_found(text: str, flags: int, kind: str) -> None:
    assert kind in faults(text, flags, is_searched=True)


@pytest.mark.parametrize(
    ("text", "flags"),
    [
        (r"a+b", 8),
        (r"\w+(?:\.\w+)*", 0),
        (r"^[ \t]*x", 8),
        (r"[a-z]([-a-z]*[a-z])?", 0),
        (r"x: *(.*)", 0),
    ],
)
def test_a_shape_that_is_linear_where_it_is_tried_is_let_be(text: str, flags: int) -> None:
    assert faults(text, flags, is_searched=False) == []

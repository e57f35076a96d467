"""Matches in windows are those of the whole text."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topo.facts.reading import windows

PATTERNS = [
    re.compile(r"^ ?\[a{1,5}", re.MULTILINE),
    re.compile(r"\n(?!\n|\Z|\[)"),
    re.compile(r"a{1,6}b"),
    re.compile(r"(?<=\n)a"),
]


@given(
    st.text("ab\n [", max_size=200), st.sampled_from(PATTERNS), st.integers(0, 9), st.integers(0, 9)
)
def test_matches_in_windows_are_those_of_the_whole_text(
    text: str, pattern: re.Pattern[str], begin: int, beyond: int
) -> None:
    end = len(text) - beyond
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(windows, "WINDOW", 40)
        patch.setattr(windows, "OVERLAP", 15)
        found = [each.span() for each in windows.find_all(pattern, text, begin, end)]
    assert found == [each.span() for each in pattern.finditer(text, begin, max(begin, end))]

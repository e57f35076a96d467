"""Slurm's hostlists: what is written is read back by another reader, and as Slurm writes it."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.publish.slurm.verdicts import hosts
from topo.model.errors import Refusal
from topo.publish.slurm.hostlist import MAX_NAMES, compress, expand, is_host

NAMES = st.builds(
    "{}{}".format,
    st.sampled_from(["gpu-", "n", "a-1b", "dragonfly-1f", "x.y_", "n1."]),
    st.one_of(
        st.just(""),
        st.integers(0, 130).map(str),
        st.integers(0, 130).map("{:03d}".format),
        st.integers(0, 1 << 40).map(str),
    ),
)


@given(st.lists(NAMES, max_size=40))
@example(["n9", "n10", "n08"])
@example(["n", "n1", "n01"])
def test_a_hostlist_stands_for_exactly_its_names(names: list[str]) -> None:
    text = compress(names)
    assert sorted(hosts(text)) == sorted(set(names))
    assert not isinstance(found := expand(text), Refusal)
    assert sorted(found) == sorted(set(names))
    assert compress(reversed(names)) == text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["gpu-01", "gpu-02", "gpu-03", "gpu-16"], "gpu-[01-03,16]"),
        (["n9", "n10", "n11"], "n[9-11]"),
        (["n7"], "n7"),
        (["b", "a"], "a,b"),
        (["x12345678", "x12345679"], "x12345678,x12345679"),
        ([], ""),
    ],
)
def test_names_are_written_as_slurm_writes_them(names: list[str], text: str) -> None:
    assert compress(names) == text


@pytest.mark.parametrize(
    "text", ["n[1-", "n[4-1]", "n[a]", "n[1-99][1-99", f"n[0-{MAX_NAMES}]", "n[1]]"]
)
def test_what_is_no_hostlist_is_refused_with_a_fix(text: str) -> None:
    refused = expand(text)
    assert isinstance(refused, Refusal)
    assert refused.fix


def test_a_name_that_would_be_two_is_no_host() -> None:
    assert is_host("gpu-01.cluster_a")
    assert not any(map(is_host, ["", "a,b", "a[1]", "a b", "a=b", "#a", 'a"', "a\n", "-a", "é"]))

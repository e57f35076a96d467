"""What a user's annotations ask for, and what is said of those that nobody can read."""

import pytest

from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.stamp import Stamp, pod_index, read_stamp
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.model.errors import Refusal
from topo.model.ids import Kind
from topo.placement.job.request import PlacementMode

WORDS = AnnotationKeys("metax-tech.com")


def asked(**values: object) -> GroupTerms | Refusal | None:
    return read_terms({getattr(WORDS, name): value for name, value in values.items()}, WORDS)


def test_the_vendors_annotation_alone_asks_for_required_groups() -> None:
    assert read_terms({"metax-tech.com/gpu-group-size": "64"}, WORDS) == GroupTerms(group_size=64)


def test_every_term_is_read() -> None:
    terms = asked(size="16", mode="preferred", within="switchbox", wait="10m", way="native")
    assert terms == GroupTerms(
        group_size=16,
        mode=PlacementMode.PREFERRED,
        within=Kind("switchbox"),
        wait_s=600,
        way=Way.NATIVE,
    )


def test_without_a_size_nothing_is_asked() -> None:
    assert asked(mode="required") is None


def test_a_kind_of_somebodys_own_is_a_kind() -> None:
    terms = asked(size="8", within="rack")
    assert isinstance(terms, GroupTerms)
    assert terms.within == "rack"


@pytest.mark.parametrize(
    ("values", "annotation", "fix"),
    [
        ({"size": "all"}, "gpu-group-size", "whole number"),
        ({"size": "0"}, "gpu-group-size", "whole number"),
        ({"size": "-8"}, "gpu-group-size", "whole number"),
        ({"size": "6.4"}, "gpu-group-size", "whole number"),
        ({"size": "٦٤"}, "gpu-group-size", "whole number"),
        ({"size": "9" * 4000}, "gpu-group-size", "whole number"),
        ({"size": 64}, "gpu-group-size", "quotes"),
        ({"size": None}, "gpu-group-size", "quotes"),
        ({"size": "8", "mode": "require"}, "gpu-group-mode", "did you mean required?"),
        ({"size": "8", "mode": "?"}, "gpu-group-mode", "required or preferred"),
        ({"size": "8", "within": "switchbx"}, "gpu-group-within", "did you mean switchbox?"),
        ({"size": "8", "within": "node"}, "gpu-group-within", "dragonfly"),
        ({"size": "8", "within": "a b"}, "gpu-group-within", "dragonfly"),
        ({"size": "8", "wait": "soon"}, "gpu-group-wait", "10m"),
        ({"size": "8", "wait": "9999w"}, "gpu-group-wait", "a year"),
        ({"size": "8", "way": "nativ"}, "placement-mode", "did you mean native?"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_name_and_the_fix(values, annotation, fix) -> None:
    refused = asked(**values)
    assert isinstance(refused, Refusal)
    assert refused.where == f"metax-tech.com/{annotation}"
    assert fix in refused.fix
    assert len(str(refused)) < 300


def test_a_stamp_is_read_as_it_was_written() -> None:
    stamp = Stamp(pods=8, rank_offset=1, pods_per_group=2)
    assert read_stamp(stamp.annotations(WORDS), WORDS) == stamp
    assert [stamp.group(rank) for rank in range(5)] == [0, 0, 1, 1, 2]


def test_who_has_no_stamp_has_none() -> None:
    assert read_stamp({"metax-tech.com/gpu-group-size": "64"}, WORDS) is None


@pytest.mark.parametrize("broken", ["", "x", "-1", "0", "1" * 20, None, 8])
def test_a_stamp_that_somebody_else_wrote_is_refused(broken) -> None:
    annotations = Stamp(8, 0, 2).annotations(WORDS) | {WORDS.pods_per_group: broken}
    refused = read_stamp(annotations, WORDS)
    assert isinstance(refused, Refusal)
    assert WORDS.pods_per_group in refused.where


@pytest.mark.parametrize(
    ("annotations", "labels", "index"),
    [
        ({"volcano.sh/task-index": "3"}, {}, 3),
        ({}, {"volcano.sh/task-index": "3"}, 3),
        ({}, {"batch.kubernetes.io/job-completion-index": "0"}, 0),
        ({"volcano.sh/task-index": "x"}, {}, None),
        ({}, {}, None),
    ],
)
def test_a_pods_index_is_that_of_its_controller(annotations, labels, index) -> None:
    assert pod_index(annotations, labels) == index

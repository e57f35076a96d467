"""The annotations by which HAMi chooses among nodes."""

import json
from dataclasses import replace

import pytest

from tests.builders import facts
from topo.model.machine import Link, LinkKind, LinkMatrix, NodeFacts
from topo.publish.gpu_annotations import GpuAnnotations, gpu_annotations, is_foreign, keys

DOMAIN = "metax-tech.com"


def islands(gpus: int = 8, size: int = 4, names: int | None = None) -> LinkMatrix:
    """Full meshes of `size` beside each other, as `mx-smi topo -m` prints a C500 host."""
    kinds = [
        [
            LinkKind.SELF
            if a == b
            else LinkKind.METAXLINK
            if a // size == b // size
            else LinkKind.NUMA_NODE
            for b in range(gpus)
        ]
        for a in range(gpus)
    ]
    links = tuple(tuple(Link(kind, kind.value) for kind in row) for row in kinds)
    return LinkMatrix(tuple(f"GPU{n}" for n in range(names or gpus)), (), links)


def host(name: str = "node-1", **more: object) -> NodeFacts:
    return replace(facts(name, **more), matrix=islands())  # type: ignore[arg-type]


def read(found: GpuAnnotations | None) -> tuple[dict[int, int], dict[int, int]]:
    """As HAMi reads them: JSON objects whose keys are numbers."""
    assert found is not None
    scores, losses = json.loads(found.scores), json.loads(found.losses)
    return {int(n): v for n, v in scores.items()}, {int(n): v for n, v in losses.items()}


def test_two_islands_of_four_have_the_numbers_of_the_docs():
    """The table of docs/gpus.md, where four GPUs of one island cost 128."""
    scores, losses = read(gpu_annotations(host()))
    assert list(scores.values()) == [0, 16, 48, 96, 104, 128, 168, 224]
    assert list(losses.values()) == [56, 96, 120, 128, 176, 208, 224, 224]


def test_every_number_of_gpus_is_there_even_where_fewer_are_healthy():
    """For a number that is missing HAMi reads 0, and as a loss that would be the best of all."""
    scores, losses = read(gpu_annotations(host(sick=[0, 5])))
    assert list(scores) == list(losses) == list(range(1, 9))
    assert scores[7] == scores[8] == 0
    assert losses[7] == losses[8] == 2000
    assert losses[6] < 2000


def test_a_node_without_a_link_matrix_has_no_annotations():
    assert gpu_annotations(facts("node-1")) is None


def test_a_broken_matrix_still_gives_numbers_that_hami_can_read():
    """A report that was cut short: the pairs that it does not show weigh nothing."""
    short = replace(islands(), links=islands().links[:3])
    scores, losses = read(gpu_annotations(replace(host(), matrix=short)))
    assert len(scores) == len(losses) == 8
    assert max((*scores.values(), *losses.values())) <= 2000


def test_equal_hosts_share_one_answer():
    """What makes 10,000 nodes cheap: the tables are worked out once for each kind of host."""
    matrix = islands()
    first, second = (
        gpu_annotations(replace(facts(name), matrix=matrix)) for name in ("node-1", "node-2")
    )
    assert first is second
    sick = gpu_annotations(replace(facts("node-3", sick=[1]), matrix=matrix))
    assert sick != first


def test_the_keys_are_those_of_the_vendor_under_the_domain():
    found = gpu_annotations(host())
    assert found is not None
    assert set(found.named("example.com")) == {
        "example.com/gpu.topology.scores",
        "example.com/gpu.topology.losses",
        "example.com/gpu.topology.digest",
    }
    assert keys(DOMAIN)[:2] == (
        "metax-tech.com/gpu.topology.scores",
        "metax-tech.com/gpu.topology.losses",
    )


@pytest.mark.parametrize("key", keys(DOMAIN)[:2])
def test_what_somebody_else_wrote_is_told_from_what_we_wrote(key):
    """The vendor's device plugin writes the same two annotations."""
    found = gpu_annotations(host())
    assert found is not None
    ours = dict(found.named(DOMAIN))
    assert not is_foreign({}, DOMAIN)
    assert not is_foreign(ours, DOMAIN)
    assert is_foreign({**ours, key: '{"1":7}'}, DOMAIN)
    assert is_foreign({key: '{"1":7}'}, DOMAIN)

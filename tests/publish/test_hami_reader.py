"""HAMi's arithmetic on our annotations, written a second time from its own source.

Source: HAMi pkg/device/metax/device.go: `map[string]int` out of the annotation, `strconv.Itoa(n)`
as the key, 0 where it is missing; binpack scores a node 2000 - loss, spread 2000 - score.
"""

import json

from hypothesis import given
from hypothesis import strategies as st

from tests.publish.test_gpu_annotations import host, islands
from topo.model.machine import NodeFacts
from topo.publish.gpu_annotations import gpu_annotations

MOST = 2000


def hami(facts: NodeFacts, gpus: int) -> tuple[int, int]:
    """The score of a node for a pod of so many GPUs, by binpack and by spread."""
    found = gpu_annotations(facts)
    assert found is not None
    read = [json.loads(text, parse_float=_no_float) for text in (found.losses, found.scores)]
    loss, score = (values.get(str(gpus), 0) for values in read)
    return MOST - loss, MOST - score


def _no_float(text: str) -> int:
    raise AssertionError(f"Go reads no int out of {text}")


hosts = st.builds(
    lambda gpus, sick: host("node-1", gpus=gpus, sick=sick),
    st.integers(1, 8),
    st.sets(st.integers(0, 7)),
)


@given(facts=hosts, gpus=st.integers(1, 8))
def test_both_of_hamis_scores_stay_between_0_and_2000(facts: NodeFacts, gpus: int) -> None:
    binpack, spread = hami(facts, gpus)
    assert 0 <= binpack <= MOST
    assert 0 <= spread <= MOST


@given(facts=hosts, gpus=st.integers(1, 8))
def test_binpack_takes_a_node_last_whose_healthy_gpus_do_not_suffice(
    facts: NodeFacts, gpus: int
) -> None:
    healthy = sum(gpu.healthy is not False for gpu in facts.gpus)
    binpack, _ = hami(facts, gpus)
    if gpus <= len(facts.gpus):
        assert (binpack == 0) == (gpus > healthy)


def test_binpack_prefers_a_broken_island_and_spread_shows_what_a_pod_would_get() -> None:
    whole, broken = host("a"), host("b", sick={7})
    assert hami(broken, 2)[0] > hami(whole, 2)[0], "it breaks no whole island"
    assert hami(broken, 4)[1] == hami(whole, 4)[1], "both have a whole island of four"
    assert whole.matrix == islands()

"""The links of real machines and of the simulated ones: which GPUs, and that nothing is better.

The recorded outputs are not part of the repository; without them those tests are skipped.
"""

from dataclasses import replace
from itertools import combinations
from pathlib import Path

import pytest

from topo.facts import decode, parse
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.ids import BootId, NodeName
from topo.model.machine import (
    Gpu,
    Link,
    LinkKind,
    LinkMatrix,
    NodeFacts,
    NodeIdentity,
    ProbeHealth,
    ProbeState,
)
from topo.model.observation import ParsedProbe
from topo.placement.gpus.gpu_sets import BEST, pair_weights, weight
from topo.placement.gpus.node_gpus import NodeGpus, node_gpus
from topo.sim.bundles import bundle_of
from topo.sim.worlds.presets import PRESET_NAMES, preset

FOLDER = Path(__file__).resolve().parents[3].parent / "shared/data/probes"
FILES = sorted(FOLDER.glob("*topo*.txt"))
ISLANDS = (0, 1, 2, 3)

WANTED: dict[str, dict[int, tuple[int, ...]]] = {
    # two islands of four
    "mx-smi-topo-m.c500-8gpu-2x4.txt": {2: (0, 1), 3: (0, 1, 2), 4: ISLANDS, 5: (0, 1, 2, 3, 4)},
    "mx-smi-topo-m.c500-8gpu-2x4-sys-excerpt.txt": {4: ISLANDS},
    "mx-smi-topo-n.c500-8gpu-6nic.txt": {4: ISLANDS},
    # full meshes
    "mx-smi-topo-m.c500-4gpu-8numa.txt": {2: (0, 1), 4: ISLANDS},
    "nvidia-smi-topo-m.a100-sxm-8gpu-10nic.txt": {4: ISLANDS, 8: tuple(range(8))},
    "nvidia-smi-topo-m.dgx-h100-8gpu-12nic-excerpt.txt": {4: ISLANDS},
    "nvidia-smi-topo-m.gb200-4gpu-8nic.txt": {2: (0, 1)},
    # hybrid cube mesh: a pair with two NVLinks, and a face of the cube
    "nvidia-smi-topo-m.dgx1-v100-8gpu-4ib.txt": {2: (0, 3), 3: (0, 2, 3), 4: ISLANDS},
    "nvidia-smi-topo-m.v100-sxm2-8gpu-1nic.txt": {2: (0, 3), 4: ISLANDS},
    # bridged pairs
    "nvidia-smi-topo-m.a100-pcie-4gpu-2bridged-pairs.txt": {1: (0,), 2: (0, 1)},
    "nvidia-smi-topo-m.h100-pcie-2gpu-nv12.txt": {2: (0, 1)},
    "npu-smi-topo.a3-2chip-sio.txt": {2: (0, 1)},
    # no links of their own: one NUMA node, or nothing to choose by
    "nvidia-smi-topo-m.pcie-8gpu-2numa.txt": {4: ISLANDS},
    "nvidia-smi-topo-m.rtx4090-8gpu-all-sys.txt": {4: ISLANDS},
    "nvidia-smi-topo-m.4gpu-phb-spaces.txt": {2: (0, 1)},
}


def matrix_at(path: Path) -> LinkMatrix | None:
    """The matrix in a recorded output, None where it is refused."""
    text = decode(path.read_bytes())
    found = parse(text) if isinstance(text, str) else text
    facts = found.facts if isinstance(found, ParsedProbe) else ()
    return next((fact for fact in facts if isinstance(fact, LinkMatrix)), None)


def facts_of(matrix: LinkMatrix | None, *gpus: Gpu, probes: tuple[ProbeHealth, ...] = ()):
    identity = NodeIdentity(NodeName("n1"), BootId("b1"))
    return NodeFacts(identity, gpus=gpus, matrix=matrix, probes=probes)


def joined(facts: NodeFacts) -> NodeGpus:
    found = node_gpus(facts)
    assert isinstance(found, NodeGpus), found
    return found


def named(name: str) -> NodeGpus:
    path = FOLDER / name
    if not path.is_file():
        pytest.skip(f"no recorded output at {path}")
    matrix = matrix_at(path)
    assert matrix is not None
    return joined(facts_of(matrix))


def check_by_hand(node: NodeGpus) -> None:
    """For every number of GPUs: no set has a higher sum, and no set with that sum costs less."""
    weights = pair_weights(node.matrix, node.rows)
    everyone = tuple(range(len(node.gpus)))

    def total(gpus: tuple[int, ...]) -> int:
        return sum(weights[a][b] for a, b in combinations(gpus, 2))

    found = node.best_sets()
    assert [len(choice.gpus) for choice in found.sets] == [n + 1 for n in everyone]
    for choice in found.sets:
        costs = {
            gpus: total(everyone) - total(tuple(g for g in everyone if g not in gpus))
            for gpus in combinations(everyone, len(choice.gpus))
        }
        best = max(map(total, costs))
        assert choice.score == total(choice.gpus) == best
        equals = {gpus: cost for gpus, cost in costs.items() if total(gpus) == best}
        assert choice.loss == costs[choice.gpus] == min(equals.values())
        assert choice.gpus == min(g for g, cost in equals.items() if cost == choice.loss)


@pytest.mark.parametrize("name", WANTED)
def test_a_real_machine_gives_the_gpus_that_a_person_would_take(name):
    node = named(name)
    found = node.best_sets()
    for count, gpus in WANTED[name].items():
        choice = found.of_size(count)
        assert choice is not None
        assert choice.gpus == gpus
        assert node.why(found, count).startswith("GPU")
    assert max((*found.scores.values(), *found.losses.values())) <= 2000


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_nothing_is_better_on_any_real_machine(path):
    """Every recorded matrix, in the table above or not."""
    matrix = matrix_at(path)
    if matrix is not None:
        check_by_hand(joined(facts_of(matrix)))


@pytest.mark.parametrize(
    "name", ["mx-smi-topo-m.c500-8gpu-2x4.txt", "mx-smi-topo-m.c500-8gpu-2x4-sys-excerpt.txt"]
)
def test_four_of_two_real_islands_cost_less_than_any_other_four(name):
    node = named(name)
    weights = pair_weights(node.matrix, node.rows)
    rests = {
        gpus: sum(weights[a][b] for a, b in combinations([g for g in range(8) if g not in gpus], 2))
        for gpus in combinations(range(8), 4)
    }
    most = max(rests.values())
    assert sorted(gpus for gpus, rest in rests.items() if rest == most) == [
        (0, 1, 2, 3),
        (4, 5, 6, 7),
    ]
    assert node.best_sets().losses[4] == node.best_sets().losses[8] - most


@pytest.mark.parametrize("name", PRESET_NAMES)
def test_a_simulated_machine_gives_one_island(name):
    """What its own recording says, through the parsers and the join of a worker."""
    world = preset(name)
    assert world is not None
    host = world.nodes[0]
    if host.super_pod is not None:
        pytest.skip("the worker reads no links between the NPUs of a host")
    bundle = bundle_of(host)
    parsed = [(take.probe, parse(take.text, take.format)) for take in bundle.probes if take.text]
    node = joined(assemble(bundle.identity, parsed, ()))
    assert node.numbers == tuple(range(host.hardware.gpus))
    check_by_hand(node)
    island = node.best_sets().of_size(host.hardware.island)
    assert island is not None
    size = host.hardware.island
    assert island.gpus == tuple(range(size))
    assert island.score == BEST * size * (size - 1) // 2


def link(code: str, count: int = 0) -> Link:
    return Link(LinkKind.NVLINK if count else LinkKind(code), code, count)


def test_the_order_of_links_is_that_of_the_legends_and_nvlink_counts():
    order = [
        *map(link, ("MX", "ETH", "PIX", "PXB", "PHB", "NODE", "SYS", "NA")),
    ]
    weights = [weight(each) for each in order]
    assert weights == sorted(set(weights), reverse=True)
    assert weight(link("?")) == weight(link("NA")) == 0
    assert weight(link("SIO")) == weight(link("HCCS")) == weight(link("MX")) == BEST
    assert weight(link("SIO")) > weight(link("HCCS_SW")) > weight(link("ETH"))
    bonded = [weight(link(f"NV{count}", count)) for count in (1, 2, 4, 6, 12, 18)]
    assert bonded == sorted(bonded)
    assert bonded[0] > weight(link("ETH"))
    assert bonded[-2:] == [BEST, BEST]
    assert weight(Link(LinkKind.NVLINK, "NV")) == bonded[0], "one that nobody counted is one"
    assert {weight(Link(kind, "code")) for kind in LinkKind} <= set(range(BEST + 1))


def pair(one: Link, other: Link) -> LinkMatrix:
    me = link("X")
    return LinkMatrix(("GPU0", "GPU1"), (), ((me, one), (other, me)))


def test_the_weaker_end_counts_where_two_ends_disagree():
    assert pair_weights(pair(link("MX"), link("SYS")), (0, 1)) == ((0, 1), (1, 0))
    node = joined(facts_of(pair(link("MX"), link("SYS")), Gpu(0), Gpu(1)))
    assert node.codes == (("X", "SYS"), ("SYS", "X"))


def test_gpus_are_joined_with_the_matrix_by_name_and_not_by_place():
    swapped = replace(pair(link("MX"), link("MX")), gpus=("GPU7", "GPU3"))
    node = joined(facts_of(swapped, Gpu(7), Gpu(3), Gpu(5)))
    assert node.numbers == (3, 5, 7)
    assert node.rows == (1, None, 0)
    found = node.best_sets()
    two = found.of_size(2)
    assert two is not None
    assert node.named(two.gpus) == (3, 7)
    assert node.why(found, 2) == (
        "GPUs 3, 7 with 1 MX between them: a score of 16, which no other 2 of the 3 free GPUs "
        "exceed, and none that equal it cost the others less than 16"
    )
    assert node.codes[1] == ("?", "X", "?")


def test_devices_that_the_node_does_not_list_are_no_gpus_of_it():
    unlisted = replace(pair(link("MX"), link("MX")), gpus=("GPU0", "unlisted GPU1"))
    assert joined(facts_of(unlisted, Gpu(0), Gpu(1))).rows == (0, None)
    assert joined(facts_of(replace(unlisted, gpus=("NPU0", "Phy-ID8")))).numbers == (0, 8)


def test_the_sentence_fits_every_case():
    matrix = pair(link("MX"), link("MX"))
    node = joined(facts_of(matrix, Gpu(0, healthy=None), Gpu(1, healthy=True)))
    found = node.best_sets()
    assert node.why(found, 1) == (
        "GPU 0: one GPU has no pair to score, and none of the 2 free ones costs the others less "
        "than this one's 16"
    )
    assert node.why(found, 2) == (
        "GPUs 0, 1: all that are free with 1 MX between them: a score of 16"
    )
    ill = joined(facts_of(matrix, Gpu(0, healthy=False), Gpu(1)))
    assert ill.usable(None) == (1,)
    assert ill.usable({0}) == ()
    assert ill.why(ill.best_sets(), 1) == "GPU 1: all that are free"
    assert ill.why(ill.best_sets(), 2) == "2 do not fit: 1 of 2 GPUs are free (1 unhealthy)"
    short = "1 does not fit: 0 of 2 GPUs are free (1 unhealthy, 1 in use)"
    assert ill.why(ill.best_sets([0]), 1) == short


def test_above_sixteen_gpus_the_sentence_claims_no_more_than_was_looked_at():
    me, near = link("X"), link("MX")
    size = 20
    rows = tuple(tuple(me if a == b else near for b in range(size)) for a in range(size))
    matrix = LinkMatrix(tuple(f"GPU{at}" for at in range(size)), (), rows)
    node = joined(facts_of(matrix))
    assert node.why(node.best_sets(), 2) == (
        "GPUs 0, 1 with 1 MX between them: a score of 16, the highest score found when a set grows "
        "from each of the 20 free GPUs, and it costs the others 592"
    )


def test_a_node_without_a_matrix_is_refused_with_the_probes_that_failed():
    probes = (
        ProbeHealth("mx-smi topo", ProbeState.FAILED, "exit 1"),
        ProbeHealth("nvml", ProbeState.ABSENT),
        ProbeHealth("mxsml", ProbeState.TIMED_OUT),
    )
    refused = node_gpus(facts_of(None, Gpu(0), probes=probes))
    assert isinstance(refused, Refusal)
    assert refused.what == (
        "the worker of n1 reports no link matrix (mx-smi topo failed, mxsml timed-out)"
    )

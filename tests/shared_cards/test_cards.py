"""Shared cards: what plugins publish is read, counted as another client counts it, and chosen."""

import json
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.shared_cards.cards import Amount, Card, CardBook, CardShare, CardUsage, NodeCards
from topo.shared_cards.choice import CardPolicy, choose, fits, rank
from topo.shared_cards.families import FAMILIES, GPU_MANAGER, METAX, VOLCANO, families
from topo.shared_cards.formats import (
    manager_cards,
    manager_shares,
    metax_cards,
    metax_shares,
    volcano_cards,
    volcano_shares,
)
from topo.shared_cards.requests import CardRequest, card_request

BY_NAME = {family.name: family for family in families("metax-tech.com")}


def test_volcanos_register_is_read_with_its_modes() -> None:
    text = (
        "GPU-a,10,32768,NVIDIA-Tesla V100-SXM2-32GB,true,hami-core:"
        "GPU-b,7,81920,NVIDIA-A100-SXM4-80GB,false,mig:"
    )
    assert volcano_cards(text) == (
        Card("GPU-a", Amount(10, 100, 32768), True, "NVIDIA-Tesla V100-SXM2-32GB", "hami-core"),
        Card("GPU-b", Amount(7, 100, 81920), False, "NVIDIA-A100-SXM4-80GB", "mig"),
    )


def test_an_instance_of_mig_counts_on_its_card() -> None:
    text = "GPU-a,NVIDIA,3072,20:GPU-b[group2-3],NVIDIA,10240,0:;GPU-a,NVIDIA,1024,5:"
    assert volcano_shares(text) == (
        CardShare("GPU-a", Amount(1, 20, 3072)),
        CardShare("GPU-b", Amount(1, 0, 10240)),
        CardShare("GPU-a", Amount(1, 5, 1024)),
    )


def test_metax_cards_and_shares_are_read() -> None:
    card = {"uuid": "GPU-1", "model": "MXC500", "totalDevCount": 16, "totalCompute": 100}
    card |= {"totalVRam": 65536, "healthy": True, "linkZone": 1}
    assert metax_cards(json.dumps([card])) == (
        Card("GPU-1", Amount(16, 100, 65536), True, "MXC500", "", 1),
    )
    taken = [[{"uuid": "GPU-1", "compute": 60, "vRam": 4096}], []]
    assert metax_shares(json.dumps(taken)) == (CardShare("GPU-1", Amount(1, 60, 4096)),)


def test_gpu_managers_cards_share_the_nodes_memory_alike() -> None:
    cards = manager_cards(200, 120)
    assert [card.total for card in cards] == [Amount(0, 100, 60)] * 2
    keys = {"tencent.com/predicate-gpu-idx-0": "1", "tencent.com/predicate-gpu-idx-1": "0"}
    shares = manager_shares([(50, 8), (100, 0), (0, 0)], keys)
    assert shares == (
        CardShare("1", Amount(0, 50, 8)),
        CardShare("0", Amount(0, 100, 0), is_whole=True),
    )
    assert manager_shares([(20, 4)], {}) == (CardShare("", Amount(0, 20, 4)),)
    counted = CardBook()
    counted.set_node(NodeName("n"), GPU_MANAGER, cards)
    counted.set_pod("p", NodeName("n"), GPU_MANAGER, shares)
    found = counted.node(NodeName("n"))
    assert found is not None
    assert [usage.free for usage in found.cards] == [Amount(0, 0, 0), Amount(0, 50, 52)]


@given(text=st.text(max_size=80))
def test_no_text_breaks_a_reader(text: str) -> None:
    for read in (volcano_cards, volcano_shares, metax_cards, metax_shares):
        found = read(text)
        assert isinstance(found, Refusal | tuple)


@pytest.mark.parametrize(
    ("family", "number", "cores", "memory", "where"),
    [
        (GPU_MANAGER, 1, 250, 0, "tencent.com/vcuda-core"),
        (GPU_MANAGER, 1, 101, 8, "tencent.com/vcuda-core"),
        (GPU_MANAGER, 1, 0, 8, "tencent.com/vcuda-core"),
        (GPU_MANAGER, 1, 30, 0, "tencent.com/vcuda-memory"),
        (VOLCANO, 1, 120, 0, "volcano.sh/vgpu-cores"),
        (VOLCANO, 0, 10, 0, "volcano.sh/vgpu-number"),
        (METAX, 1, -1, 0, "metax-tech.com/vcore"),
    ],
)
def test_what_no_card_can_give_is_refused_with_the_fix(
    family: str, number: int, cores: int, memory: int, where: str
) -> None:
    found = card_request(BY_NAME[family], number, cores, memory)
    assert isinstance(found, Refusal)
    assert found.where == where
    assert found.fix


@given(cores=st.integers(1, 1300), memory=st.integers(0, 100))
def test_gpu_manager_takes_hundreds_or_a_part_with_memory(cores: int, memory: int) -> None:
    found = card_request(BY_NAME[GPU_MANAGER], 0, cores, memory)
    is_allowed = cores % 100 == 0 or (cores < 100 and memory > 0)
    assert isinstance(found, CardRequest) == is_allowed


amounts = st.builds(Amount, st.integers(0, 3), st.integers(0, 60), st.integers(0, 40))
names = st.sampled_from([NodeName(name) for name in ("a", "b", "c")])


@settings(max_examples=60, stateful_step_count=25)
class Worlds(RuleBasedStateMachine):
    """Cards and pods come, change and go; another client keeps the same facts as plain lists."""

    def __init__(self) -> None:
        super().__init__()
        self.counted = CardBook()
        self.nodes: dict[str, tuple[str, list[Card]]] = {}
        self.pods: dict[str, tuple[str, str, list[CardShare]]] = {}

    @rule(node=names, family=st.sampled_from(FAMILIES), totals=st.lists(amounts, max_size=3))
    def cards_are_published(self, node: NodeName, family: str, totals: list[Amount]) -> None:
        cards = [Card(f"{node}{at}", total) for at, total in enumerate(totals)]
        self.nodes[node] = family, cards
        self.counted.set_node(node, family, tuple(cards))

    @rule(
        uid=st.sampled_from("pqrst"),
        node=names,
        family=st.sampled_from(FAMILIES),
        taken=st.lists(st.tuples(st.integers(0, 3), amounts, st.booleans()), max_size=3),
    )
    def a_pod_takes(self, uid: str, node: NodeName, family: str, taken: Any) -> None:
        shares = [CardShare(f"{node}{at}", amount, whole) for at, amount, whole in taken]
        self.pods[uid] = node, family, shares
        self.counted.set_pod(uid, node, family, tuple(shares))

    @rule(uid=st.sampled_from("pqrst"))
    def a_pod_goes(self, uid: str) -> None:
        self.pods.pop(uid, None)
        self.counted.remove_pod(uid)

    @invariant()
    def the_count_is_that_of_another_client(self) -> None:
        self.counted.validate()
        found = self.counted.snapshot().nodes
        assert found == dict(self.counted.nodes())
        assert set(found) == {node for node, (_, cards) in self.nodes.items() if cards}
        for node, seen in found.items():
            family, cards = self.nodes[node]
            taken: dict[str, list[Amount]] = defaultdict(list)
            total = {card.id: card.total for card in cards}
            for where, of, shares in self.pods.values():
                if (where, of) == (node, family):
                    for share in shares:
                        whole = total.get(share.card) if share.is_whole else None
                        taken[share.card].append(whole or share.amount)
            known = {card.id for card in cards}
            for usage in seen.cards:
                for at in range(3):
                    used = sum(amount[at] for amount in taken[usage.card.id])
                    assert usage.used[at] == used
                    over = max(0, used - usage.card.total[at])
                    assert used + usage.free[at] == usage.card.total[at] + over
            for at in range(3):
                lost = sum(
                    a[at] for card, all_of in taken.items() if card not in known for a in all_of
                )
                assert seen.unassigned[at] == lost
                assert seen.used[at] == sum(a[at] for all_of in taken.values() for a in all_of)


TestWorlds = Worlds.TestCase


def node(*free: int, family: str = VOLCANO) -> NodeCards:
    """A node whose cards have so many cores free."""
    cards = (
        CardUsage(Card(f"c{at}", Amount(10, 100, 100)), Amount(left < 100, 100 - left, 100 - left))
        for at, left in enumerate(free)
    )
    return NodeCards(family, tuple(cards))


def test_parts_go_onto_the_fullest_card_that_fits_or_the_emptiest() -> None:
    half = CardRequest(VOLCANO, 1, Amount(1, 50, 50))
    found = node(30, 60, 100)
    assert choose(found, half, CardPolicy.BINPACK) == (("c1",), "binpack")
    assert choose(found, half, CardPolicy.SPREAD) == (("c2",), "spread")
    alone = CardRequest(VOLCANO, 1, Amount(1, 100, 50), is_whole=True)
    assert choose(found, alone, CardPolicy.BINPACK) == (("c2",), "binpack")


def test_a_whole_card_with_less_memory_than_is_asked_for_is_not_chosen() -> None:
    asked = card_request(BY_NAME[VOLCANO], 1, 100, 101)
    assert isinstance(asked, CardRequest)
    assert choose(node(100), asked, CardPolicy.BINPACK) is None


@pytest.mark.parametrize("family", [VOLCANO, METAX])
def test_a_pod_that_names_no_memory_gets_a_card_of_which_no_memory_is_taken(family: str) -> None:
    asked = card_request(BY_NAME[family], 1, 30, 0)
    assert isinstance(asked, CardRequest)
    assert choose(node(40, 100, family=family), asked, CardPolicy.BINPACK) == (("c1",), "binpack")
    assert choose(node(40, 70, family=family), asked, CardPolicy.BINPACK) is None


def test_cards_that_pods_have_without_saying_which_are_not_given_again() -> None:
    idle = node(100, 100, 100, 100, family=GPU_MANAGER)
    found = idle._replace(unassigned=Amount(0, 200, 0))
    two, three = (CardRequest(GPU_MANAGER, each, Amount(1, 100, 0), True) for each in (2, 3))
    assert choose(found, two, CardPolicy.BINPACK) == (("c0", "c1"), "link")
    assert choose(found, three, CardPolicy.BINPACK) is None


def test_the_best_node_comes_first_and_has_the_best_score() -> None:
    nodes = [(NodeName("n10"), node(100)), (NodeName("n2"), node(60)), (NodeName("n1"), node(20))]
    half = CardRequest(VOLCANO, 1, Amount(1, 50, 50))
    packed = rank(nodes, half, CardPolicy.BINPACK)
    assert [(each.node, each.score) for each in packed] == [("n2", 10), ("n10", 1)]
    apart = rank(nodes, half, CardPolicy.SPREAD)
    assert [(each.node, each.score) for each in apart] == [("n10", 10), ("n2", 1)]


@given(
    frees=st.lists(st.integers(0, 100), min_size=1, max_size=6),
    cores=st.integers(1, 99),
    number=st.integers(1, 3),
    policy=st.sampled_from(CardPolicy),
)
def test_a_choice_is_made_just_where_enough_cards_fit(
    frees: list[int], cores: int, number: int, policy: CardPolicy
) -> None:
    request = CardRequest(VOLCANO, number, Amount(1, cores, cores))
    found = node(*frees)
    chosen = choose(found, request, policy)
    able = [f"c{at}" for at, left in enumerate(frees) if left >= cores]
    assert (chosen is not None) == (len(able) >= number)
    assert chosen is None or set(chosen[0]) <= set(able)
    assert all(fits(usage, request) == (usage.card.id in able) for usage in found.cards)

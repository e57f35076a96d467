"""Scores that are kept from question to question: those of `rank`, whatever changes between."""

import random
from itertools import product
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.shared_cards.cards import Amount, Card, CardBook, CardShare
from topo.shared_cards.choice import CardPolicy, rank
from topo.shared_cards.families import FAMILIES, families
from topo.shared_cards.requests import CardRequest, card_request
from topo.shared_cards.scores import KEPT_REQUESTS, NodeScores

NAMES = [NodeName(name) for name in ("a", "b", "c", "d")]
names = st.sampled_from(NAMES)
amounts = st.builds(Amount, st.integers(0, 2), st.integers(0, 100), st.integers(0, 40))
totals = st.builds(Amount, st.integers(0, 3), st.just(100), st.integers(0, 64))


@settings(max_examples=60, stateful_step_count=25)
class Questions(RuleBasedStateMachine):
    """Cards and pods come, change and go; requests are asked again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.book, self.kept = CardBook(), NodeScores()

    @rule(node=names, family=st.sampled_from(FAMILIES), cards=st.lists(totals, max_size=3))
    def cards_are_published(self, node: NodeName, family: str, cards: list[Amount]) -> None:
        found = (Card(f"{node}{at}", total, at != 1) for at, total in enumerate(cards))
        self.book.set_node(node, family, tuple(found))

    @rule(
        uid=st.sampled_from("pqrst"),
        node=names,
        family=st.sampled_from(FAMILIES),
        taken=st.lists(st.tuples(st.sampled_from(["", "0", "1", "2"]), amounts), max_size=2),
    )
    def a_pod_takes(self, uid: str, node: NodeName, family: str, taken: Any) -> None:
        shares = (CardShare(at and f"{node}{at}", amount) for at, amount in taken)
        self.book.set_pod(uid, node, family, tuple(shares))

    @rule(uid=st.sampled_from("pqrst"))
    def a_pod_goes(self, uid: str) -> None:
        self.book.remove_pod(uid)

    @rule()
    def somebody_else_looks(self) -> None:
        self.book.snapshot()

    @rule(
        family=st.sampled_from(families("a.com")),
        number=st.integers(1, 2),
        cores=st.sampled_from([0, 1, 20, 50, 99, 100, 200]),
        memory=st.sampled_from([0, 8, 40]),
        asked=st.lists(names, unique=True),
    )
    def it_is_asked(
        self, family: Any, number: int, cores: int, memory: int, asked: list[NodeName]
    ) -> None:
        request = card_request(family, number, cores, memory)
        if isinstance(request, Refusal):
            return
        cards = self.book.snapshot()
        nodes = [(name, cards.nodes[name]) for name in asked if name in cards.nodes]
        ranked = {each.node: each.score for each in rank(nodes, request, CardPolicy.BINPACK)}
        scores = [*(ranked.get(name, 0) for name in asked), 0]
        assert self.kept.scores(request, [*asked, "unknown"], cards) == scores

    @invariant()
    def few_requests_are_kept(self) -> None:
        assert len(self.kept._kept) <= KEPT_REQUESTS


TestQuestions = Questions.TestCase


def test_only_the_last_requests_are_kept() -> None:
    kept, book = NodeScores(), CardBook()
    book.set_node(NAMES[0], FAMILIES[0], (Card("0", Amount(10, 100, 100)),))
    for cores in range(1, 100):
        request = CardRequest(FAMILIES[0], 1, Amount(1, cores, 1))
        assert kept.scores(request, ["a"], book.snapshot()) == [10]
    assert len(kept._kept) == KEPT_REQUESTS


def test_more_nodes_and_cards_than_at_first_have_the_scores_of_rank() -> None:
    """Nodes of 1 to 20 cards come and go, some with amounts that no column holds."""
    rng = random.Random(1)  # noqa: S311 - examples, no secrets
    book, kept = CardBook(), NodeScores()
    many = [NodeName(f"node-{number}") for number in range(300)]
    memories = (16, 64, 1 << 80)
    for _ in range(6):
        for name in rng.sample(many, 150):
            cards = (
                Card(f"{name}-{at}", Amount(2, rng.choice((50, 100)), rng.choice(memories)))
                for at in range(rng.randrange(21))
            )
            book.set_node(name, rng.choice(FAMILIES), tuple(cards))
        for name in rng.sample(many, 100):
            share = CardShare(f"{name}-0", Amount(1, rng.randrange(100), 8))
            book.set_pod(name, name, FAMILIES[0], (share,))
        snapshot = book.snapshot()
        for family, cores, memory in product(families("a.com"), (10, 60, 100), (1, 20, 1 << 70)):
            request = card_request(family, rng.randrange(1, 4), cores, memory)
            assert not isinstance(request, Refusal)
            nodes = list(snapshot.nodes.items())
            ranked = {each.node: each.score for each in rank(nodes, request, CardPolicy.BINPACK)}
            expected = [ranked.get(name, 0) for name in many]
            assert kept.scores(request, many, snapshot) == expected

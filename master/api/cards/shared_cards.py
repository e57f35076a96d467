"""`GET /v1/shared-cards`: cards that several pods share, and which of them a pod should get."""

import asyncio
from collections.abc import Callable, Iterable, Mapping

import orjson
from aiohttp import web

from master.api.answers import json_response, not_ready, wait_for_loop
from master.api.requests.reading import Parameter, Query
from master.service import SERVICE
from master.tree.topology_document import amount_document
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.rest.gpus import (
    CardChoiceDocument,
    CardFamilyDocument,
    SharedCardsReport,
)
from topo.placement.gpus.gpu_sets import BEST, pair_weights
from topo.placement.gpus.node_gpus import node_gpus
from topo.shared_cards.cards import CardsSnapshot, NodeCards
from topo.shared_cards.choice import CardPolicy, fits, rank
from topo.shared_cards.families import FAMILIES, GPU_MANAGER, by_name, families
from topo.shared_cards.requests import CardRequest, card_request
from topo.shared_cards.summary import FamilySummary, summaries
from topo.shared_cards.tree import Levels

MOST_CHOICES = 64
_MEMORY_UNITS = {
    each.name: "MiB" if each.memory_mib == 1 else f"x {each.memory_mib} MiB"
    for each in families("")
}
PARAMETERS = (
    Parameter("family", "string", "the family of a request", words=FAMILIES),
    Parameter("number", "integer", "how many cards a pod asks for; 1 by default"),
    Parameter("cores", "integer", "percent of each card; of gpu-manager hundredths of a card"),
    Parameter("memory", "integer", "MiB of each card; of gpu-manager units of 256 MiB"),
    Parameter("policy", "string", "binpack (by default) or spread", words=tuple(CardPolicy)),
)
Facts = Callable[[NodeName], NodeFacts | None]


async def get_shared_cards(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with what is left, and with `family` which cards a pod should get."""
    await wait_for_loop(request)
    service = request.app[SERVICE]
    if missing := service.availability.uncounted():
        return not_ready(service, missing)
    asked = _asked(query, service.settings.domain)
    policy = CardPolicy(query.get("policy", CardPolicy.BINPACK.value))
    cards = service.placements.state.cards.snapshot()
    facts = {
        name: service.engine.facts_of(name)
        for name, found in cards.nodes.items()
        if asked is not None and asked.family == GPU_MANAGER == found.family
    }
    return json_response(await asyncio.to_thread(_report, cards, asked, policy, facts))


def _asked(query: Query, domain: str) -> CardRequest | None:
    """Return the request in a query, None without one; raise `BadInputError`."""
    family, fix = query.get("family"), f"family is one of {', '.join(FAMILIES)}"
    if family is None:
        for name in ("number", "cores", "memory", "policy"):
            if name in query:
                raise BadInputError(Refusal("it is of no family", name, fix))
        return None
    if family not in FAMILIES:
        raise BadInputError(Refusal(f"{family[:64]!r} is not a family", "family", fix))
    if query.get("policy", CardPolicy.BINPACK) not in list(CardPolicy):
        what = f"{query['policy'][:64]!r} is not a policy"
        raise BadInputError(Refusal(what, "policy", "policy is binpack or spread"))
    of = by_name(domain)[family]
    cores = query.get("cores", of.cores_by_default)
    found = card_request(of, query.get("number", 1), cores, query.get("memory", 0))
    if isinstance(found, Refusal):
        raise BadInputError(found)
    return found


def levels_of(facts: NodeFacts | None) -> Levels | None:
    """Return how far the cards of a node are from each other; None where its worker says not."""
    gpus = node_gpus(facts) if facts is not None else None
    if gpus is None or isinstance(gpus, Refusal):
        return None
    weights = pair_weights(gpus.matrix, gpus.rows)
    return [
        [0 if a == b else BEST + 1 - weight for b, weight in enumerate(row)]
        for a, row in enumerate(weights)
    ]


def _report(
    cards: CardsSnapshot,
    asked: CardRequest | None,
    policy: CardPolicy,
    facts: Mapping[NodeName, NodeFacts | None],
) -> bytes:
    answer: SharedCardsReport = {
        "families": [family_document(each) for each in summaries(cards.nodes.values())],
        "choices": [],
        "why": "",
    }
    if asked is not None:
        levels = {name: found for name, of in facts.items() if (found := levels_of(of)) is not None}
        ranked = rank(cards.nodes.items(), asked, policy, levels)
        answer["choices"] = [
            CardChoiceDocument(
                node=each.node, cards=list(each.cards), score=each.score, way=each.way
            )
            for each in ranked[:MOST_CHOICES]
        ]
        answer["why"] = "" if ranked else _why(cards.nodes.values(), asked)
    return orjson.dumps(answer)


def _why(nodes: Iterable[NodeCards], asked: CardRequest) -> str:
    """Return why no node can take the pod, with the numbers; O(cards)."""
    of = [found for found in nodes if found.family == asked.family]
    if not of:
        return f"no node publishes cards of {asked.family}"
    most = max(sum(fits(usage, asked) for usage in found.cards) for found in of)
    cards = "1 card" if asked.number == 1 else f"{asked.number} cards"
    here = f"at most {most} on one node"
    if asked.is_whole:
        (all_cards,) = summaries(of)
        return f"no node has {cards} idle: {all_cards.idle} of {all_cards.cards} are, {here}"
    unit = _MEMORY_UNITS[asked.family]
    memory = f"{asked.each.memory} {unit} of memory" if asked.each.memory else "all of its memory"
    (left,) = (each.largest for each in summaries(of))
    return (
        f"no node has {cards} with {asked.each.cores} cores and {memory} free, {here}: "
        f"the most that one has free are {left.cores} cores and {left.memory} {unit}"
    )


def family_document(found: FamilySummary) -> CardFamilyDocument:
    """Return a summary as the API has it."""
    return {
        "family": found.family,
        "nodes": found.nodes,
        "cards": found.cards,
        "idle": found.idle,
        "total": amount_document(found.total),
        "used": amount_document(found.used),
        "free": amount_document(found.free),
        "largest": amount_document(found.largest),
    }

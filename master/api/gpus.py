"""`GET /v1/nodes/{name}/gpus`: which GPUs of one node to take, and what that costs the others."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence

import orjson
from aiohttp import web

from master.api.answers import json_response, unknown_node
from master.api.requests.reading import Parameter, Query
from master.api.topology import uplinks
from master.service import SERVICE
from topo.discovery.node_detail import NodeDetail
from topo.kit.serving.problem import problem, refusal
from topo.model.errors import BadInputError, Refusal
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.model.machine import MAX_GPUS
from topo.model.rest.gpus import ChoiceDocument, GpuDocument, GpusDocument
from topo.placement.gpus.gpu_sets import WORST_LOSS, BestSets
from topo.placement.gpus.node_gpus import NodeGpus, node_gpus

PARAMETERS = (
    Parameter("name", "string", "the node's name", max_chars=253, place="path"),
    Parameter(
        "n", "integer", "how many GPUs to choose, from 1 to as many as the node has", minimum=1
    ),
    Parameter("free", "string", "the GPUs not in use, as 0,1,2; without it all that are healthy"),
    Parameter("rails", "string", "the rails of the job's GPUs on other nodes, as 0,1,2"),
)


async def get_gpus(request: web.Request, query: Query) -> web.StreamResponse:
    """Answer with the document; the search runs in a thread."""
    engine = request.app[SERVICE].engine
    detail, now_s = engine.detail(NodeName(query["name"])), engine.clock()
    return await asyncio.to_thread(_answer, engine.snapshot.forest, detail, query, now_s)


def _answer(forest: Forest, detail: NodeDetail | None, query: Query, now_s: float) -> web.Response:
    if detail is None:
        return unknown_node(query["name"], forest)
    if detail.facts is None:
        what = f"no worker of {detail.name} has spoken to this master yet"
        return problem(409, what, field="node", fix="start a worker there, or see its log")
    node = node_gpus(detail.facts)
    if isinstance(node, Refusal):
        return refusal(409, node)
    rails: defaultdict[int, set[int]] = defaultdict(set)
    for each in detail.uplinks:
        if each.rail is not None:
            for gpu in each.gpus:
                rails[gpu].add(each.rail)
    document = _document(detail.name, node.on_rails(rails), query)
    document["uplinks"] = uplinks(detail, now_s)
    return json_response(orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE))


def _document(name: NodeName, node: NodeGpus, query: Query) -> GpusDocument:
    count = query.get("n")
    if count is not None and count > len(node.gpus):
        what = f"{name} has {len(node.gpus)} GPUs, {count} were asked for"
        raise BadInputError(Refusal(what, "n", f"give a whole number from 1 to {len(node.gpus)}"))
    wanted = _given(query.get("rails"), "rails", range(MAX_GPUS)) or frozenset()
    found = node.best_sets(_given(query.get("free"), "free", node.numbers), wanted)
    return GpusDocument(
        node=name,
        gpus=[
            GpuDocument(
                index=gpu.index, model=gpu.model, healthy=gpu.healthy, free=place in found.free
            )
            for place, gpu in enumerate(node.gpus)
        ],
        links=node.codes,
        scores={str(n): score for n, score in found.scores.items()},
        losses={str(n): loss for n, loss in found.losses.items()},
        uplinks=[],
        exact=found.exact,
        choice=None if count is None else _choice(node, found, count),
    )


def _choice(node: NodeGpus, found: BestSets, count: int) -> ChoiceDocument:
    choice = found.of_size(count)
    return ChoiceDocument(
        n=count,
        fits=choice is not None,
        gpus=() if choice is None else node.named(choice.gpus),
        score=0 if choice is None else choice.score,
        loss=WORST_LOSS if choice is None else choice.loss,
        rails=() if choice is None else node.rails_of(choice.gpus),
        why=node.why(found, count),
    )


def _given(text: str | None, field: str, known: Sequence[int]) -> frozenset[int] | None:
    """Parse numbers such as `0,1,2`; raise `BadInputError` for an unknown one."""
    if text is None:
        return None
    names = {str(number): number for number in known}
    for part in text.split(","):
        if part not in names:
            raise BadInputError(Refusal(*_unknown(field, part[:64], tuple(names))))
    return frozenset(names[part] for part in text.split(","))


def _unknown(field: str, given: str, names: tuple[str, ...]) -> tuple[str, str, str]:
    if field == "rails":
        return (
            f"{given!r} is not a rail",
            field,
            f"give numbers from 0 to {names[-1]}, separated by commas",
        )
    fix = f"give numbers of {', '.join(names) or 'no GPU'}, separated by commas"
    return f"{given!r} is not a GPU of this node", field, fix

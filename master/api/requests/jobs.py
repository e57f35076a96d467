"""Bodies and queries read as the requests, assumptions and holds of the placement package."""

from functools import partial

from aiohttp import web

from master.api.answers import refuse_when_full
from master.api.requests.reading import Parameter, Query, validate_body
from master.booking.placements import Placements
from topo.model.cluster import USAGES
from topo.model.errors import BadInputError, Refusal
from topo.model.ids import Kind, NodeName
from topo.model.limits import MAX_KEY_CHARS, OWN_KEYS
from topo.model.nearest import did_you_mean
from topo.model.rest.jobs import HoldBody, JobBody, PlacementBody
from topo.placement.booking.holds import HoldRequest
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.plan import Pods
from topo.placement.job.request import Eligibility, PlacementMode, Request, Toleration, flaw

KEY = Parameter(
    "Idempotency-Key",
    "string",
    "with hold_s, the body's key by another way: who asks again with it gets the same hold",
    max_chars=MAX_KEY_CHARS,
    place="header",
)
_FLAGS = {"true": True, "false": False}

PARAMETERS = (
    Parameter("pods", "integer", "the number of pods", required=True, minimum=1),
    Parameter("gpus_per_pod", "integer", "GPUs of each pod", required=True, minimum=1),
    Parameter("group_size", "integer", "GPUs of each group, a multiple of gpus_per_pod", minimum=1),
    Parameter("mode", "string", "required or preferred", words=tuple(PlacementMode)),
    Parameter(
        "within", "string", "the kind of group that all of the job must share one of", max_chars=253
    ),
    Parameter("gpu_type", "string", "the model of GPU", max_chars=256),
    Parameter("selector", "string", "labels that the nodes must have: a=b,c=d"),
    Parameter("exclude", "string", "nodes that are not to be used: n1,n2"),
    Parameter(
        "usage", "string", "training or inference: nodes of the other pool are out", words=USAGES
    ),
    Parameter(
        "explain", "string", "true: sentences on why a plan is as it is", words=tuple(_FLAGS)
    ),
)


def body_from_query(query: Query) -> PlacementBody:
    """Return the query of a GET as the body that a POST would have; raise `BadInputError`."""
    values: dict[str, object] = dict(query)
    if "selector" in query:
        values["selector"] = _selector(query["selector"])
    if "exclude" in query:
        values["exclude"] = [n.strip() for n in query["exclude"].split(",") if n.strip()]
    if query.get("explain") in _FLAGS:
        values["explain"] = _FLAGS[query["explain"]]
    return validate_body(PlacementBody, values)


def _selector(text: str) -> dict[str, str]:
    labels: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = part.strip().partition("=")
        if not equals or not key or key in labels:
            what = f"{part[:64]!r} is not a label, or one given twice"
            raise BadInputError(Refusal(what, "selector", "write a=b,c=d"))
        labels[key] = value
    return labels


def placement_request(body: JobBody, usage_key: str) -> Request:
    """Return the placement request of a body; raise `BadInputError` for a flawed one.

    A job with a usage tolerates the taint `usage_key`: its pods have to, and its pools are its own.
    """
    _check_printable("within", body.within)
    _check_printable("gpu_type", body.gpu_type)
    borne = [Toleration(t.key, t.operator, t.value, t.effect) for t in body.tolerations]
    borne += [Toleration(usage_key, "Exists")] if body.usage is not None else []
    request = Request(
        pods=body.pods,
        gpus_per_pod=body.gpus_per_pod,
        group_size=body.group_size,
        mode=PlacementMode(body.mode),
        within=None if body.within is None else Kind(body.within),
        eligible=Eligibility(
            gpu_type=body.gpu_type,
            selector=tuple(sorted(body.selector.items())),
            tolerations=tuple(dict.fromkeys(borne)),
            exclude=frozenset(map(NodeName, body.exclude)),
            usage=body.usage or "",
        ),
    )
    refusal = flaw(request)
    if refusal is not None:
        raise BadInputError(refusal)
    return request


def _check_printable(field: str, text: str | None) -> None:
    """Refuse control characters: the text is repeated in refusals, plans and holds."""
    if text is not None and not text.isprintable():  # no half of a code point either
        what = f"{field} has characters that cannot be shown"
        raise BadInputError(Refusal(what, field, "give letters, digits and punctuation"))


async def check_nodes(request: Request, placements: Placements) -> None:
    """Raise `BadInputError` for an unknown excluded node, with the nearest name.

    Nothing is awaited where all are known.
    """
    capacity = placements.state.capacity
    unknown = [node for node in request.eligible.exclude if capacity.host(node) is None]
    if unknown:
        node = min(unknown)
        with refuse_when_full():
            fix = await placements.planner.executor.run(
                lambda: partial(_nearest, node, capacity.copy())
            )
        raise BadInputError(Refusal(f"there is no node {node!r}", "exclude", fix))


def _nearest(node: NodeName, capacity: CapacityView) -> str:
    names = (str(host.name) for host in capacity.hosts())
    return did_you_mean(node, names, "GET /v1/topology lists the nodes there are")


def read_assumptions(body: PlacementBody) -> Assumptions | None:
    """Return the what-if; raise `BadInputError` where it is to be held, which is impossible."""
    if body.assume is None:
        return None
    if body.hold_s is not None:
        what = "what is only assumed cannot be held"
        raise BadInputError(Refusal(what, "hold_s", "leave out assume or hold_s"))
    nodes = body.assume
    return Assumptions(
        free=tuple(map(NodeName, nodes.free)),
        down=tuple(map(NodeName, nodes.down)),
        drain=tuple(map(NodeName, nodes.drain)),
    )


def read_hold_request(call: web.Request, body: JobBody, request: Request) -> HoldRequest | None:
    """Return what is to be held, None for nothing; raise `BadInputError` for two different keys.

    A key or a namespace without a hold raises it, too, because it would have no effect. The
    header's value may stand in quotes, as draft-ietf-httpapi-idempotency-key-header has it.
    """
    key = _key(call, body.key)
    if body.hold_s is None:
        for field, value in (("key", key), ("namespace", body.namespace)):
            if value is not None:
                what = f"a {field} without a hold has no effect"
                fix = f"give hold_s too, or leave out the {field}"
                raise BadInputError(Refusal(what, field, fix))
        return None
    return HoldRequest(request, body.hold_s, key, body.namespace or "")


def _key(call: web.Request, in_body: str | None) -> str | None:
    header = call.headers.get(KEY.name, "").strip().strip('"') or None
    if header is not None and in_body is not None and header != in_body:
        what = f"the header {KEY.name} and the body's key differ"
        raise BadInputError(Refusal(what, "key", "give one of them"))
    key = in_body or header
    if key is not None and key.startswith(OWN_KEYS):
        what = f"holds with keys like {key[:32]!r} are made and ended by the master itself"
        raise BadInputError(Refusal(what, "key", f"begin it with none of {', '.join(OWN_KEYS)}"))
    return key


def read_given_groups(body: HoldBody) -> tuple[Pods, ...] | None:
    """Return the groups of an earlier answer, None where there are none.

    They are held against what is there now, so the generation that they are from decides nothing;
    alone it would have no effect, which raises `BadInputError`.
    """
    if body.groups is None:
        if body.generation is not None:
            what = "a generation without groups has no effect"
            raise BadInputError(Refusal(what, "generation", "give the groups of that answer too"))
        return None
    return tuple(
        tuple((NodeName(node.name), node.pods) for node in group.nodes) for group in body.groups
    )

"""The one table of calls: routing, query checks, metrics and /openapi.json all come from it."""

from functools import partial

from master.api import (
    findings,
    gangs,
    gpus,
    graph,
    health,
    history,
    holds,
    page,
    placements,
    topology,
)
from master.api.cards import shared_cards
from master.api.events import stream
from master.api.nodes import decisions
from master.api.requests import jobs
from master.api.route import Route
from master.web.files import MEDIA
from topo.model.rest.changes import (
    CapacityEventDocument,
    DiffDocument,
    HoldEventDocument,
    StepDocument,
)
from topo.model.rest.findings import FindingsDocument, WiringDocument
from topo.model.rest.fragmentation import FragmentationDocument
from topo.model.rest.gangs import GangDocument, GangsDocument, GangSummary
from topo.model.rest.gpus import GpusDocument, SharedCardsReport
from topo.model.rest.graph import GRAPH_MEDIA, GraphDocument
from topo.model.rest.history import HistoryDocument
from topo.model.rest.jobs import DecisionBody, HoldBody, PlacementBody
from topo.model.rest.node_group import VendorGroup, VendorNode
from topo.model.rest.placements import EndedDocument, HoldDocument, HoldsDocument, PlacementDocument
from topo.model.rest.service import HealthDocument, IndexDocument, ReadyDocument
from topo.model.rest.topology import NodeSuspicionDocument, TopologyDocument

_NOT_COMPLETE = {503: "the tree is not complete yet"}
_BUSY = {
    503: "the tree is not complete yet, too many ask at once, or the state file cannot be written"
}
_BODY = {
    408: "the body did not come in time",
    413: "the body is beyond 64 KiB, as it came or unpacked",
    415: "the body is packed neither as gzip nor as deflate",
}
_NO_HOLD = {
    409: "the key belongs to another request",
    429: "there are as many holds as there may be",
}
_GONE = {404: "there is no such hold", 410: "the hold expired, or was released"}
_KEPT = {**_GONE, 503: "it is done, but the state file cannot be written"}
_FOLLOWS = {503: "this master follows, and its leader does not answer"}
_NO_GANGS = {404: "there is no such gang, or this master places none", **_FOLLOWS}
_NOT_ACCEPTABLE = "Accept-Encoding rules out both gzip and identity"

_HELD = {"id": "$response.body#/hold/id"}
_TO_HOLD = {"get_hold": _HELD, "commit_hold": _HELD, "delete_hold": _HELD}

_topology = partial(Route, tag="topology")
_placements = partial(Route, tag="placements")
_change = partial(_placements, writes="always")
_decision = partial(
    Route,
    tag="topology",
    method="POST",
    document=NodeSuspicionDocument,
    body=DecisionBody,
    parameters=decisions.NAME,
    writes="always",
    problems={404: "there is no such node", **_BODY},
)
_service = partial(Route, tag="service")

ROUTES = (
    _topology(
        path="/node_group",
        handler=topology.get_node_group,
        summary="The tree in the vendor's document: name, kind, child, status",
        document=list[VendorGroup | VendorNode],
        problems={406: _NOT_ACCEPTABLE, 503: "the tree is not complete yet"},
        conditional=True,
    ),
    _topology(
        path="/v1/topology",
        handler=topology.get_topology,
        summary="The tree with capacity, reasons, sources, unplaced nodes and conflicts",
        document=TopologyDocument,
        parameters=topology.PARAMETERS,
        problems={
            404: "no such group or node",
            406: _NOT_ACCEPTABLE,
            410: "the moment is not kept",
            503: "too many wait for a part",
        },
        conditional=True,
    ),
    _topology(
        path="/v1/findings",
        handler=findings.get_findings,
        summary="What is wrong, causes before what follows from them, each with its next step",
        document=FindingsDocument,
        parameters=findings.PARAMETERS,
        problems={
            406: _NOT_ACCEPTABLE,
            410: "the moment is not kept",
            503: "too many wait for a moment",
        },
        conditional=True,
    ),
    _topology(
        path="/v1/topology/diff",
        handler=history.get_diff,
        summary="What moved between two moments, and why",
        document=DiffDocument,
        parameters=history.DIFF_PARAMETERS,
        problems={410: "the range is not kept", 503: "too many wait for one"},
    ),
    _topology(
        path="/v1/history",
        handler=history.get_history,
        summary="The moments of the tree that are kept, and how much changed at each",
        document=HistoryDocument,
        parameters=history.HISTORY_PARAMETERS,
        problems={410: "the range is not kept"},
    ),
    _topology(
        path="/v1/topology/events",
        handler=stream.get_events,
        summary="Server-sent events: `change` with the generation as its id, `reset` when the "
        "generation asked for is not remembered (fetch the topology again); `hold` and `capacity`, "
        "without an id, as they happen",
        document=StepDocument | HoldEventDocument | CapacityEventDocument,
        media="text/event-stream",
        parameters=stream.EVENT_PARAMETERS,
        problems={503: "too many streams are open"},
    ),
    _topology(
        path="/v1/wiring",
        handler=findings.get_wiring,
        summary="The plan of the cables beside those that are seen, by place, with what each costs",
        document=WiringDocument,
        problems={404: "this master holds no plan", 503: "it was not compared yet"},
    ),
    _topology(
        path="/v1/topology/graph",
        handler=graph.get_graph,
        summary="Groups, nodes, devices and wires as a graph that other tools open",
        document=GraphDocument,
        other_media=tuple(GRAPH_MEDIA.values())[1:],
        parameters=graph.PARAMETERS,
        problems={404: "no such group", 503: "too many wait for a graph"},
    ),
    _topology(
        path="/v1/nodes/{name}",
        handler=topology.get_node,
        summary="One node: its place in the tree, and what its worker said of GPUs and rails",
        document=TopologyDocument,
        parameters=topology.NODE_PARAMETERS,
        problems={
            404: "no such node or fabric",
            406: _NOT_ACCEPTABLE,
            503: "too many wait for a part",
        },
    ),
    _placements(
        path="/v1/nodes/{name}/gpus",
        handler=gpus.get_gpus,
        summary="Which GPUs of a node to take: scores and losses, and the best set of n",
        document=GpusDocument,
        parameters=gpus.PARAMETERS,
        problems={404: "no such node", 409: "its worker has reported no link matrix"},
    ),
    _decision(
        path="/v1/nodes/{name}/quarantine",
        handler=decisions.quarantine,
        summary="Keeps new jobs off a node, with a reason, until it is cleared",
    ),
    _decision(
        path="/v1/nodes/{name}/confirm",
        handler=decisions.confirm,
        summary="Holds links of a node for bad until they are cleared, however long they are quiet",
    ),
    _decision(
        path="/v1/nodes/{name}/clear",
        handler=decisions.clear,
        summary="Forgets what is held against a node, or against one link of it",
    ),
    _placements(
        path="/v1/placements",
        handler=placements.get_placements,
        summary="Which nodes a job should get, in whole groups, with the proof; or why not",
        document=PlacementDocument,
        parameters=jobs.PARAMETERS,
        problems=_BUSY,
    ),
    _placements(
        path="/v1/placements",
        method="POST",
        handler=placements.post_placements,
        summary="The same; a hold with hold_s, which needs a token; a what-if with assume",
        document=PlacementDocument,
        body=PlacementBody,
        parameters=(jobs.KEY,),
        writes="sometimes",
        problems={**_BUSY, **_BODY, **_NO_HOLD},
        links=_TO_HOLD,
    ),
    _placements(
        path="/v1/holds",
        handler=holds.get_holds,
        summary="All holds, the oldest first",
        document=HoldsDocument,
    ),
    _change(
        path="/v1/holds",
        method="POST",
        handler=holds.post_hold,
        summary="Reserves a placement for a time; groups of an earlier answer if they still fit",
        document=PlacementDocument,
        body=HoldBody,
        parameters=(jobs.KEY,),
        problems={**_BUSY, **_BODY, **_NO_HOLD},
        links=_TO_HOLD,
    ),
    _placements(
        path="/v1/holds/{id}",
        handler=holds.get_hold,
        summary="One hold with its groups",
        document=HoldDocument,
        parameters=holds.ID,
        problems=_GONE,
    ),
    _change(
        path="/v1/holds/{id}",
        method="DELETE",
        handler=holds.delete_hold,
        summary="Gives a hold back, committed or not",
        document=EndedDocument,
        parameters=holds.ID,
        problems=_KEPT,
    ),
    _change(
        path="/v1/holds/{id}/commit",
        method="POST",
        handler=holds.commit_hold,
        summary="Keeps a hold until it is released: no time limit any more",
        document=HoldDocument,
        parameters=holds.ID,
        problems=_KEPT,
    ),
    _placements(
        path="/v1/gangs",
        handler=gangs.get_gangs,
        summary="Jobs whose pods go together: where each stands, and why",
        document=GangsDocument,
        parameters=gangs.PARAMETERS,
        problems=_FOLLOWS,
    ),
    _placements(
        path="/v1/gangs/{id}",
        handler=gangs.get_gang,
        summary="One of them with its pods and its groups",
        document=GangDocument,
        parameters=gangs.ID,
        problems=_NO_GANGS,
    ),
    _change(
        path="/v1/gangs/{id}/open",
        method="POST",
        handler=gangs.open_gates,
        summary="Opens the gates of its pods without a plan: its scheduler goes on alone",
        document=GangSummary,
        parameters=gangs.ID,
        problems=_NO_GANGS,
    ),
    _placements(
        path="/v1/fragmentation",
        handler=placements.get_fragmentation,
        summary="Whole free groups by kind, group integrity, the largest job that fits now",
        document=FragmentationDocument,
        problems=_NOT_COMPLETE,
    ),
    _placements(
        path="/v1/shared-cards",
        handler=shared_cards.get_shared_cards,
        summary="Cards that several pods share: what is left, and which of them a pod should get",
        document=SharedCardsReport,
        parameters=shared_cards.PARAMETERS,
        problems=_BUSY,
    ),
    _service(
        path="/health",
        also=("/healthz", "/livez"),
        handler=health.get_health,
        summary="Liveness: the engine loop advances",
        document=HealthDocument,
        problems={503: "it does not"},
    ),
    _service(
        path="/ready",
        also=("/readyz",),
        handler=health.get_ready,
        summary="Readiness: every source that the mode needs has spoken",
        document=ReadyDocument,
        problems={503: "what is missing"},
    ),
    _service(
        path="/metrics",
        handler=health.get_metrics,
        summary="Prometheus metrics",
        media="text/plain",
        document=str,
    ),
    _service(
        path="/",
        handler=page.get_root,
        summary="What this is; the page that people look at where `Accept` names text/html",
        document=IndexDocument,
        parameters=page.SHOWN,
        other_media=("text/html",),
        problems={406: _NOT_ACCEPTABLE},
        conditional=True,
    ),
    _service(
        path="/plain",
        handler=page.get_plain,
        summary="The forest and its findings as a nested list of HTML, without scripts",
        media="text/html",
        document=str,
        problems={406: _NOT_ACCEPTABLE},
        conditional=True,
    ),
    _service(
        path="/web/{release}/{file}",
        handler=page.get_file,
        summary="A file of the page",
        media="text/html",
        other_media=MEDIA[1:],
        document=str,
        parameters=page.FILE,
        problems={404: "the page has no such file", 406: _NOT_ACCEPTABLE},
    ),
)

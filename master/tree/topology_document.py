"""The document of `GET /v1/topology`: its content, its bytes, and when it differs.

Its types are in `topo.model.rest.topology`. 10,000 nodes are too many for models to be made of
them: plain dictionaries are given to orjson, which writes dataclasses and names as they are; the
tests hold every answer against the models.
"""

import hashlib
import secrets
from collections.abc import Iterator
from typing import Any

import orjson

from master.tree.selection import Selected
from topo.model.forest import ROOT, Group, Node, Snapshot, SourceState, Status
from topo.model.ids import NODE, GroupPath

Json = dict[str, Any]
FRESH_S = 1.0
"""Ages in it move without a generation; a document that is served again is at most this old."""
_PROCESS = secrets.token_hex(4)
"""Generations of two processes are not comparable, so their tags must differ."""


def version(snapshot: Snapshot) -> object:
    """What tells two documents apart but for the ages in them."""
    states = tuple(
        (s.source, s.last_good_at_s is None, s.failing_since_s is None, s.trouble)
        for s in snapshot.sources
    )
    return snapshot.generation, snapshot.restored_age_s is not None, states


def tag(snapshot: Snapshot, query: str = "") -> str:
    """The opaque part of an entity tag: one for each version and each query."""
    text = repr((_PROCESS, version(snapshot), query))
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


def body(snapshot: Snapshot, mode: str, now_s: float, run: str) -> bytes:
    """All of it. `now_s` is on the clock of the snapshot's sources (monotonic seconds)."""
    return dumped(document(snapshot, mode, now_s), run)


def dumped(answer: Json, run: str) -> bytes:
    """A document's bytes; `run` is the one that counts its generation, and stands beside it."""
    complete = {"generation": answer["generation"], "run": run, **answer}
    return orjson.dumps(complete, option=orjson.OPT_APPEND_NEWLINE)


def document(
    snapshot: Snapshot,
    mode: str,
    now_s: float,
    *,
    groups: tuple[Selected, ...] | None = None,
    depth: int | None = None,
) -> Json:
    """The document without `run`; `groups` instead of all roots, cut below `depth` levels.

    `now_s` is on the clock of the snapshot's sources (monotonic seconds); ages are in seconds.
    """
    forest = snapshot.forest
    shown = tuple((ROOT, root) for root in forest.roots) if groups is None else groups
    return {
        "generation": snapshot.generation,
        "mode": mode,
        "restored_age_s": snapshot.restored_age_s,
        "groups": [_group(group, above, depth) for above, group in shown],
        "unplaced": [{**_node(entry.node), "reason": entry.reason} for entry in forest.unplaced],
        "conflicts": forest.conflicts,
        "unjoined": [
            {
                "id": machine.id,
                "names": dict(machine.names),
                "group": machine.group,
                "text": machine.text,
            }
            for machine in forest.unjoined
        ],
        "sources": [_source(state, now_s) for state in snapshot.sources],
    }


def _group(group: Group, above: GroupPath, depth: int | None) -> Json:
    """A group with its children down to `depth` levels (None: all); its capacity counts all."""
    path = GroupPath((*above, group.name))
    below = None if depth is None else depth - 1
    children = group.children if below is None or below >= 0 else ()
    return {
        "name": group.name,
        "kind": group.kind,
        "tier": group.tier,
        "path": path,
        "key": group.key,
        "status": group.status,
        "reasons": group.reasons,
        "expected": group.expected,
        "source": group.source,
        "capacity": _capacity(group),
        "child": [
            _group(child, path, below) if isinstance(child, Group) else _node(child)
            for child in children
        ],
    }


def _node(node: Node) -> Json:
    return {
        "name": node.name,
        "kind": NODE,
        "status": node.status,
        "reasons": node.reasons,
        "gpus": node.gpus,
        "gpu_type": node.gpu_type,
    }


def _capacity(group: Group) -> Json:
    nodes = list(_leaves(group))
    ready = [node for node in nodes if node.status is Status.READY]
    return {
        "nodes": len(nodes),
        "ready": len(ready),
        "gpus": sum(node.gpus for node in nodes),
        "ready_gpus": sum(node.gpus for node in ready),
    }


def _leaves(group: Group) -> Iterator[Node]:
    for child in group.children:
        if isinstance(child, Group):
            yield from _leaves(child)
        else:
            yield child


def _source(state: SourceState, now_s: float) -> Json:
    failing = state.failing_since_s
    good = state.last_good_at_s
    word = "failing" if failing is not None else "waiting" if good is None else "ok"
    return {
        "source": state.source,
        "state": word,
        "age_s": None if good is None else round(now_s - good, 1),
        "failing_s": None if failing is None else round(now_s - failing, 1),
        "trouble": state.trouble,
    }

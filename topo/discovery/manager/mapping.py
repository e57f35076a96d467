"""The mapping file: how a cluster manager of another shape is read as one of ours.

A mapping names the paths to ask, the kind of authentication, and JMESPath expressions that find our
fields in the manager's answers. It is proven before it is used: it carries a sample of every answer
it reads, and its expressions must yield sound facts from that. Our own contract is a mapping too,
the one that translates nothing.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial

from pydantic import ValidationError

from topo.discovery.manager.contract import ManagerAnswer, read_topology, refusal_of
from topo.discovery.manager.events import EventPage, read_events
from topo.discovery.manager.rules import (
    EventsRule,
    FabricRule,
    LoginAuth,
    ManagerMapping,
    TopologyRule,
    expressions,
)
from topo.discovery.manager.translation import map_events, map_health, map_login, map_topology
from topo.facts.infiniband.dumps import read_dump
from topo.model.errors import BrokenInvariantError, Refusal
from topo.model.fabric import FabricDump

MANUAL = "docs/cluster-manager.md"


def read_mapping(document: object) -> ManagerMapping | Refusal:
    """Return the mapping, compiled and proven on its own sample; else what is wrong with it, and
    where.
    """
    try:
        mapping = ManagerMapping.model_validate(document)
    except ValidationError as error:
        return refusal_of(error, MANUAL)
    for section, found in _try_samples(mapping):
        if isinstance(found, Refusal):
            what = f"tried on sample.{section}: {found.what}"
            return Refusal(what, found.where, found.fix)
    return mapping


def contract() -> ManagerMapping:
    """Return the mapping of docs/cluster-manager.openapi.yaml."""
    mapping = read_mapping(_CONTRACT)
    if isinstance(mapping, Refusal):
        raise BrokenInvariantError(str(mapping))
    return mapping


def understand_topology(
    rule: TopologyRule, document: object, tried: set[str] | None = None
) -> ManagerAnswer | Refusal:
    """Return a full answer of the manager, sound and in canonical order, or what is wrong with it.

    `tried` collects the places of the expressions that found something.
    """
    mapped = map_topology(rule, document, tried)
    return mapped if isinstance(mapped, Refusal) else read_topology(mapped)


def understand_events(rule: EventsRule, document: object, asked: str) -> EventPage | Refusal:
    """Return a page of the manager's events, or the gap or mistake in it."""
    mapped = map_events(rule, document)
    return mapped if isinstance(mapped, Refusal) else read_events(mapped, asked)


def understand_fabric(rule: FabricRule, answer: bytes) -> FabricDump | Refusal:
    """Return the fabric that an answer describes, or what is wrong with it."""
    return read_dump(answer.decode("utf-8", errors="replace"), rule.format)


def _try_samples(mapping: ManagerMapping) -> Iterator[tuple[str, object]]:
    """Return each section that reads an answer, with what it makes of its sample."""
    sample, auth, events, health = mapping.sample, mapping.auth, mapping.events, mapping.health
    if mapping.topology is not None:
        try_topology = partial(_try_topology, mapping, mapping.topology)
        yield "topology", _try_sample(sample.topology, try_topology)
    if mapping.fabric is not None:
        try_fabric = partial(_try_fabric, mapping.fabric)
        yield "fabric", _try_sample(sample.fabric, try_fabric)
    if events is not None:
        read_page = partial(understand_events, events, asked=sample.events_asked)
        yield "events", _try_sample(sample.events, read_page)
    if isinstance(auth, LoginAuth):
        yield "login", _try_sample(sample.login, partial(map_login, auth))
    if health is not None:
        yield "health", _try_sample(sample.health, partial(map_health, health))


def _try_sample(document: object, read: Callable[[object], object]) -> object:
    return _NO_SAMPLE if document is None else read(document)


def _try_fabric(rule: FabricRule, sample: object) -> FabricDump | Refusal:
    text = sample if isinstance(sample, str) else json.dumps(sample)
    return understand_fabric(rule, text.encode())


def _try_topology(
    mapping: ManagerMapping, rule: TopologyRule, sample: object
) -> ManagerAnswer | Refusal:
    tried: set[str] = set()
    answer = understand_topology(rule, sample, tried)
    if isinstance(answer, Refusal):
        return answer
    for where, expression in expressions(rule, "topology"):
        if where not in tried and not rule.is_ours:
            return Refusal(
                f"`{expression.text}` finds nothing anywhere",
                where,
                "correct the expression, or paste a sample that has what it looks for",
            )
    if mapping.events is None or answer.cursor is not None:
        return answer
    return Refusal(
        "events are read from the cursor of a topology answer, and this one has none",
        "topology.cursor",
        "give the expression that finds the cursor, or leave the section events out",
    )


_NO_SAMPLE = Refusal(
    "there is no such answer to try it on",
    "sample",
    "paste one real answer of the manager there, its secrets replaced",
)
_CONTRACT = {
    "version": 1,
    "auth": {
        "kind": "login",
        "path": "/v1/login",
        "token": "token",
        "expires_in_s": "expires_in_s",
    },
    "topology": {"path": "/v1/topology"},
    "events": {
        "path": "/v1/events",
        "limit_parameter": "limit",
        "cursor": "cursor",
        "each": "events",
    },
    "health": {"path": "/v1/health", "ok": "status == 'ok'", "detail": "detail"},
    "sample": {
        "login": {"token": "t", "expires_in_s": 3600},
        "topology": {"cursor": "c-0", "groups": [], "machines": [{"id": "m"}]},
        "events_asked": "c-0",
        "events": {
            "cursor": "c-1",
            "events": [
                {"cursor": "c-1", "after": "c-0", "type": "machine-removed", "machine_id": "m"}
            ],
        },
        "health": {"status": "ok", "detail": ""},
    },
}

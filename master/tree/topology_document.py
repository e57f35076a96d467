"""The whole document of `GET /v1/topology`: when it differs, and its bytes."""

import hashlib
import secrets

import orjson

from topo.model.forest import Snapshot
from topo.publish.topology import Json, document

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
    told = {"generation": answer["generation"], "run": run, **answer}
    return orjson.dumps(told, option=orjson.OPT_APPEND_NEWLINE)

# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""Names for the shell's completion, from the master if it answers at once.

The standard library asks, for our own client takes longer to import than a person waits. No token
is sent, since reading needs none.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any

import typer

from topo.model.ids import NODE

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from pathlib import Path
    from urllib.parse import SplitResult

TIMEOUT_S = 1.0
MAX_ANSWER_BYTES = 32 << 20
_PART_BYTES = 1 << 16
_SAFE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""Other names are not offered: zsh evaluates what a completion prints."""


def node_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the node names that begin so; none where no master answers in a second."""
    return _beginning(incomplete, (name for kind, name in _known(context) if kind == NODE))


def group_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return the group names that begin so; none where no master answers in a second."""
    return _beginning(incomplete, (name for kind, name in _known(context) if kind != NODE))


def _beginning(incomplete: str, names: Iterable[str]) -> list[str]:
    return sorted({n for n in names if n.startswith(incomplete) and _SAFE.fullmatch(n)})


def _known(context: typer.Context) -> list[tuple[str, str]]:
    """Return kind and name of every group and node of the master."""
    try:
        document = _topology(context.params)
        vertices = _vertices([*document["groups"], *document["unplaced"]])
        return [(str(vertex["kind"]), str(vertex["name"])) for vertex in vertices]
    except Exception:  # noqa: BLE001 - whatever it is, a half-typed line is no place for it
        return []


def _vertices(children: Iterable[Any]) -> Iterator[Any]:
    for child in children:
        yield child
        yield from _vertices(child.get("child", ()))


def _topology(options: Mapping[str, Any]) -> Any:
    """Return `/v1/topology` of the master that the line names, of a demo, or of the default."""
    import json
    import time
    from urllib.parse import urlsplit

    from topo.cli.demo_directory import master_url
    from topo.cli.value_count import has_too_many_values

    named = master_url(options.get("master"))
    url = urlsplit(named if "://" in named else f"http://{named}")
    ends_s = time.monotonic() + TIMEOUT_S
    with closing(_connection(url, options.get("ca_file"))) as connection:
        connection.request("GET", url.path.rstrip("/") + "/v1/topology")
        answer, body = connection.getresponse(), bytearray()
        while part := answer.read1(_PART_BYTES):
            body += part
            if time.monotonic() > ends_s or len(body) > MAX_ANSWER_BYTES:
                raise TimeoutError
        if has_too_many_values(body):
            raise ValueError
        return json.loads(body)


def _connection(url: "SplitResult", ca_file: "Path | None") -> "HTTPConnection":
    import http.client

    from topo.kit.tls import client_context

    host = url.hostname or ""
    if url.scheme != "https":
        return http.client.HTTPConnection(host, url.port, timeout=TIMEOUT_S)
    context = client_context(ca_file)
    return http.client.HTTPSConnection(host, url.port, timeout=TIMEOUT_S, context=context)

"""Whatever answers `topo`, byte for byte: a picture or a refusal in words, never a traceback."""

import asyncio
import io
import sys
import threading
from collections.abc import Iterator
from dataclasses import fields
from importlib.metadata import version
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from tests.cli import gang_samples, samples
from tests.support.answers import answers
from tests.support.peers import http, peer
from topo.cli.commands import export
from topo.cli.exit_codes import Exit
from topo.cli.main import app
from topo.cli.render.safe import is_safe

VERSION = version("supernode-topology")
HOLD = samples.hold()
GANG = gang_samples.gang()
PROBLEM = {"title": "Conflict", "status": 409, "detail": "taken", "fix": "ask again", "field": "n"}
SHARES = {"node": "node-3", "gpus": [0, 1], "n": 2, "why": []}
DIFF = {"from": 12, "to": 13, "changes": samples.changes()}
CALLS: dict[bytes, tuple[Any, ...]] = {
    b"GET /v1/topology/diff": (DIFF,),
    b"GET /v1/history": (samples.history(),),
    b"GET /v1/topology/graph": ({"directed": False, "nodes": [], "edges": []},),
    b"GET /v1/topology": (samples.troubled(), samples.inside()),
    b"GET /v1/fragmentation": (samples.fragmentation(),),
    b"GET /v1/gangs/": (GANG,),
    b"POST /v1/gangs/": (GANG,),
    b"GET /v1/gangs": ({"gangs": [GANG]},),
    b"GET /v1/holds/": (HOLD,),
    b"POST /v1/holds/": (HOLD,),
    b"DELETE /v1/holds/": (None,),
    b"GET /v1/holds": ({"holds": [HOLD]},),
    b"GET /v1/nodes/": (SHARES,),
    b"POST /v1/placements": (samples.placement(), samples.refusal()),
    b"GET /health": ({"status": "ok"},),
    b"GET /ready": ({"status": "ok"},),
    b"GET /openapi.json": (
        {"openapi": "3.1.0", "info": {"version": version("supernode-topology")}},
    ),
}
"""What the calls are answered where nothing is bent: the longest start that fits decides."""
COMMANDS: dict[bytes, tuple[str, ...]] = {
    b"GET /v1/topology/diff": ("diff 12 13", "diff 12 13 -o json"),
    b"GET /v1/history": ("history", "history -o json"),
    b"GET /v1/topology/graph": ("export", "export --format dot"),
    b"GET /v1/topology": (
        "tree", "tree -o json", "tree -o yaml", "tree --problems", "tree --depth 1", "nodes",
        "nodes -o csv", "nodes -o json", "nodes -o name", "node node-3", "node node-3 -o yaml",
        "doctor", "doctor -o json", "place --pods 2 --gpus 8", "export -f slurm-yaml",
        "export -f slurm-block", "export -f nfd",
    ),
    b"GET /v1/fragmentation": ("fragmentation", "fragmentation -o yaml"),
    b"GET /v1/gangs/": ("why pytorch-demo", "why pytorch-demo -o json"),
    b"POST /v1/gangs/": ("gates open pytorch-demo",),
    b"GET /v1/gangs": ("gangs", "gangs -o yaml", "why pytorch-demo-worker-1"),
    b"GET /v1/holds/": ("holds show h-1", "holds show h-1 -o json"),
    b"POST /v1/holds/": ("holds commit h-1",),
    b"DELETE /v1/holds/": ("holds release h-1",),
    b"GET /v1/holds": ("holds", "holds -o yaml"),
    b"GET /v1/nodes/": ("gpus node-3", "gpus node-3 -n 2 -o json"),
    b"POST /v1/placements": (
        "place --pods 2 --gpus 8", "place --pods 2 --gpus 8 --explain",
        "place --pods 2 --gpus 8 -o json", "place --pods 2 --gpus 8 -o hostfile",
    ),
    b"GET /health": ("doctor",),
    b"GET /ready": ("doctor",),
    b"GET /openapi.json": ("doctor",),
}  # fmt: skip
"""The commands that make each call."""


class Bending:
    """A master of which one call is answered in another way than the rest."""

    def __init__(self) -> None:
        self.port = 0
        self.call = b""
        self.answer = b""

    def __call__(self, head: bytes) -> bytes:
        call = next((call for call in CALLS if head.startswith(call)), b"")
        if call == self.call:
            return self.answer
        return http(orjson.dumps(CALLS[call][0])) if call else http(status=b"404 Not Found")


@pytest.fixture(scope="module")
def master() -> Iterator[Bending]:
    """Such a master, from a thread of its own."""
    bending, ready, done = Bending(), threading.Event(), asyncio.Event()
    loop = asyncio.new_event_loop()

    async def serve() -> None:
        async with peer(bending) as bending.port:
            ready.set()
            await done.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    ready.wait()
    yield bending
    loop.call_soon_threadsafe(done.set)
    thread.join()
    loop.close()


def test_a_version_that_is_no_text_is_none(master: Bending) -> None:
    """Nor is it shown: a thousand lists in each other have no text in Python."""
    deep = b'{"info": {"version": ' + b"[" * 1000 + b"]" * 1000 + b"}}"
    meets(master, "doctor", b"GET /openapi.json", http(deep))


def vars_of(options: export.GraphOptions | export.TreeOptions) -> dict[str, Any]:
    return {field.name: getattr(options, field.name) for field in fields(options)}


def test_a_graph_that_is_no_text_is_shown_on_a_terminal(
    master: Bending, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is shown, and not written to a file."""
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", terminal)
    master.call, master.answer = b"GET /v1/topology/graph", http(b"\xff\x1b[2J")
    url = f"http://127.0.0.1:{master.port}"
    export.export(
        export_format=export.ExportFormat.DOT,
        **vars_of(export.GraphOptions()),
        **vars_of(export.TreeOptions()),
        master=url,
        token_file=None,
        ca_file=None,
    )
    assert terminal.getvalue() == "\ufffd\ufffd[2J\n"


@st.composite
def asked(draw: st.DrawFn) -> tuple[str, bytes, bytes]:
    """A command line, one of its calls, and what that is answered."""
    call = draw(st.sampled_from([*COMMANDS]))
    good = draw(st.sampled_from((*CALLS[call], PROBLEM)))
    return draw(st.sampled_from(COMMANDS[call])), call, draw(answers(good))


def meets(master: Bending, command: str, call: bytes, answer: bytes) -> None:
    """The command ends with a code of its own, and in words where it failed."""
    master.call, master.answer = call, answer
    url = f"http://127.0.0.1:{master.port}"
    ended = CliRunner().invoke(app, command.split(), env={"TOPO_MASTER": url, "NO_COLOR": "1"})
    assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
    assert ended.exit_code in [*Exit]
    assert is_safe(ended.stderr)
    if ended.exit_code in (Exit.UNREACHABLE, Exit.REFUSED, Exit.USAGE):
        assert ended.stderr.startswith("topo: ")
        assert "next: " in ended.stderr
    if not command.startswith("export"):  # whose file is the graph as it came
        assert is_safe(ended.stdout)


@given(asked())
@settings(max_examples=8)
def test_any_answer_is_shown_or_refused_in_words(
    master: Bending, drawn: tuple[str, bytes, bytes]
) -> None:
    """Of every command, to any of its calls."""
    meets(master, *drawn)


@pytest.mark.deep
@given(asked())
@settings(max_examples=150)
def test_many_answers_are_shown_or_refused_in_words(
    master: Bending, drawn: tuple[str, bytes, bytes]
) -> None:
    """The same, for long."""
    meets(master, *drawn)

"""A signal ends a service at once and without a traceback, whatever it is doing."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.support.processes import gone
from tests.support.waiting import CEILING_S, eventually
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world

ENDING = pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])

# Python runs a handler between two of its steps: a wait without an end that begins just after the
# signal was noted would never come to the next one.
_IMPORTING = """
import sys, threading
class Hangs:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            print("now", flush=True)
            while not threading.Event().wait(0.05): pass
sys.meta_path.insert(0, Hangs())
sys.argv[1:] = {flags!r}
from {package}.__main__ import main
sys.exit(main())
"""
_READING = """
import os, sys, threading
from pathlib import Path
opened = os.open
def open_or_hang(path, *rest, **more):
    if Path(os.fsdecode(path)).name == "hangs":
        print("now", flush=True)
        while not threading.Event().wait(0.05): pass
    return opened(path, *rest, **more)
from {package}.__main__ import main
os.open = open_or_hang
sys.argv[1:] = {flags!r}
sys.exit(main())
"""
_SERVING = """
import asyncio, sys
from aiohttp import web
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, run, serve
async def forever(_):
    {context}
app = web.Application()
async def before(_):
    yield
    print("cleaned up", flush=True)
app.cleanup_ctx.append(before)
app.{hook}.append(forever)
connections = Connections("api", 100, 1_000_000)
sys.exit(run(serve(Site(app=app, port=0, connections=connections, host="127.0.0.1"))))
"""
_HANGS = 'print("now", flush=True); await asyncio.Event().wait()'
_SIGNALLED_WHILE_SAVING = """
import os, signal, sys
import worker.record
from worker.__main__ import main
save = worker.record.save
def signalled(*bundle):
    os.kill(os.getpid(), signal.SIGTERM)
    return save(*bundle)
worker.record.save = signalled
sys.exit(main())
"""


class Process:
    """A process and what it printed."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def said(self, word: str) -> None:
        """Reads lines until this word has come."""
        assert self.process.stdout is not None
        async with asyncio.timeout(CEILING_S):
            while word not in (line := (await self.process.stdout.readline()).decode()):
                assert line, (await self.ended())[2]

    async def ended(self, number: signal.Signals | None = None) -> tuple[int | None, str, str]:
        """The exit code and the rest of both outputs, after a signal."""
        if number is not None:
            self.process.send_signal(number)
        async with asyncio.timeout(CEILING_S):
            out, err = await self.process.communicate()
        return self.process.returncode, out.decode(), err.decode()


@asynccontextmanager
async def running(*command: str, **environment: str) -> AsyncIterator[Process]:
    """A Python process with these arguments."""
    pipe, env = asyncio.subprocess.PIPE, {**os.environ, **environment}
    process = await asyncio.create_subprocess_exec(
        sys.executable, *command, stdout=pipe, stderr=pipe, env=env
    )
    try:
        yield Process(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """A bundle to replay."""
    write_bundle(tmp_path / "node", demo_world().nodes[2])
    return tmp_path / "node"


MASTER = ["--server-port=0", "--rpc-server-port=0", "--bind-address=127.0.0.1"]
MANAGED = ["--mode=switchbox", "--cluster-manager-address=https://127.0.0.1:9"]
WORKER = ["--metrics-address=127.0.0.1:0", "--server-address=127.0.0.1:9"]


@ENDING
@pytest.mark.parametrize(
    ("package", "module", "flags"),
    [("master", "master.app", MASTER), ("worker", "worker.app", WORKER)],
)
async def test_while_it_is_imported(
    number: signal.Signals, package: str, module: str, flags: list[str]
) -> None:
    script = _IMPORTING.format(package=package, module=module, flags=flags)
    async with running("-c", script) as process:
        await process.said("now")
        assert await process.ended(number) == (0, "", "")


def _deep(package: str, *flags: str) -> object:
    return pytest.param(package, list(flags), marks=pytest.mark.deep)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "flags"),
    [
        ("master", ["--worker-token-file={}"]),
        ("master", ["--tls-cert={}", "--tls-key={}"]),
        ("master", ["--mode=dragonfly", "--state-file={}"]),
        ("worker", ["--token-file={}", "--replay={recording}"]),
        _deep("master", "--api-token-file={}"),
        _deep("master", "--config-file={}"),
        _deep("master", *MANAGED, "--cluster-manager-mapping-file={}"),
        _deep("master", *MANAGED, "--cluster-manager-ca-file={}"),
        _deep("worker", "--server-tls", "--tls-ca={}", "--replay={recording}"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1].partition("=")[0],
)
async def test_while_a_file_that_it_needs_does_not_answer(
    package: str, flags: list[str], tmp_path: Path, recording: Path
) -> None:
    """As on a mount whose server is gone, for each option that names a file."""
    file = tmp_path / "hangs"
    file.write_text("something")
    given = [flag.format(file, recording=recording) for flag in flags]
    base = MASTER if package == "master" else [*WORKER, "--probe-interval=0.1"]
    script = _READING.format(package=package, flags=[*base, *given])
    async with running("-c", script) as process:
        await process.said("now")
        code, _, complaint = await process.ended(signal.SIGTERM)
        assert (code, complaint) == (0, "")


@ENDING
async def test_while_it_starts_and_what_was_begun_is_cleaned_up(number: signal.Signals) -> None:
    script = _SERVING.format(context=_HANGS, hook="on_startup")
    async with running("-c", script) as process:
        await process.said("now")
        code, said, complaint = await process.ended(number)
        assert (code, complaint) == (0, "")
        assert "cleaned up" in said


@pytest.mark.slow
async def test_while_it_records_and_no_command_is_left_behind(tmp_path: Path) -> None:
    """A vendor's command hangs; there is no bundle, so the exit code is not 0."""
    tool = tmp_path / "bin" / "mx-smi"
    tool.parent.mkdir()
    tool.write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nsleep 600\n")
    tool.chmod(0o755)
    flags = (f"--record={tmp_path / 'bundle'}", f"--sysfs-root={tmp_path}", *WORKER)
    path = f"{tool.parent}:/usr/bin:/bin"
    async with running("-m", "worker", *flags, PATH=path) as process:
        await eventually((tmp_path / "pids").exists)
        code, _, complaint = await process.ended(signal.SIGTERM)
        assert (code, complaint) == (1, "error: a signal came before the end; there is no bundle\n")
    for pid in (tmp_path / "pids").read_text().split():
        await gone(int(pid))


@pytest.mark.slow
async def test_while_it_saves_and_the_bundle_is_whole(tmp_path: Path) -> None:
    """Half a bundle and exit code 0 would look like a good one."""
    flags = (f"--record={tmp_path / 'bundle'}", f"--sysfs-root={tmp_path}", *WORKER)
    async with running("-c", _SIGNALLED_WHILE_SAVING, *flags, PATH="") as process:
        code, said, complaint = await process.ended()
    assert (code, complaint) == (0, "")
    assert "support bundle of" in said
    assert list((tmp_path / "bundle").iterdir())


async def test_a_second_signal_ends_a_service_that_hangs_in_its_end() -> None:
    script = _SERVING.format(context=_HANGS, hook="on_shutdown")
    async with running("-c", script) as process:
        await process.said("listening")
        process.process.send_signal(signal.SIGTERM)
        await process.said("now")
        code, _, complaint = await process.ended(signal.SIGTERM)
        assert (code, complaint) == (128 + signal.SIGTERM, "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "flags"),
    [
        ("master", ["--worker-token-file={}"]),
        ("master", ["--tls-cert={}", "--tls-key={}"]),
        ("worker", ["--log-file={}"]),
        _deep("master", "--api-token-file={}"),
        _deep("master", *MANAGED, "--cluster-manager-mapping-file={}"),
        _deep("master", *MANAGED, "--cluster-manager-ca-file={}"),
        _deep("master", "--log-file={}"),
    ],
    ids=lambda value: value if isinstance(value, str) else value[-1].partition("=")[0],
)
async def test_a_fifo_in_the_place_of_a_file_is_refused_by_name(
    package: str, flags: list[str], tmp_path: Path
) -> None:
    os.mkfifo(path := tmp_path / "fifo")
    base = MASTER if package == "master" else WORKER
    async with running("-m", package, *base, *(flag.format(path) for flag in flags)) as process:
        code, _, complaint = await process.ended()
        assert code == 2
        assert "FIFO" in complaint
        assert str(path) in complaint

"""The worker as people run it: a real process, a real master over sockets, signals, faults."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest

from tests.support import tuned
from tests.support.processes import gone
from tests.support.waiting import CEILING_S, eventually
from tests.worker.masters import TestMaster, listening
from topo.kit.tls import server_context
from topo.model.wire import Report
from topo.sim.bundles import write_bundle
from topo.sim.certificates import Authority
from topo.sim.worlds.presets import demo_world

pytestmark = pytest.mark.slow
WORKER = (sys.executable, "-m", "worker")
READING_TIMEOUT = "worker.probes.probe:READING_TIMEOUT_S"
COMMAND_INTERVAL = "worker.probes.sources:COMMAND_INTERVAL_S"
HOST = demo_world().nodes[2]


class Worker:
    """A running worker and what it logged so far."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, object]] = []
        self._reading = asyncio.ensure_future(self._read())

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.lines.append(orjson.loads(line))

    async def logged(self, event: str) -> dict[str, object]:
        """The first line of that event."""
        await eventually(lambda: bool(self.events(event)))
        return self.events(event)[0]

    def events(self, event: str) -> list[dict[str, object]]:
        """All lines of that event."""
        return [line for line in self.lines if line["event"] == event]

    async def stop(self) -> int:
        """The exit code after SIGTERM."""
        if self.process.returncode is None:
            self.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(CEILING_S):
            code = await self.process.wait()
            await self._reading
        return code


@asynccontextmanager
async def worker(
    *argv: str, program: Sequence[str] = WORKER, **environment: str
) -> AsyncIterator[Worker]:
    """`topo-worker` with these flags; stopped at the end."""
    process = await asyncio.create_subprocess_exec(
        *program,
        "--metrics-address=127.0.0.1:0",
        *argv,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, **environment},
    )
    running = Worker(process)
    try:
        yield running
    finally:
        await running.stop()


def replaying(master: TestMaster, recording: Path) -> tuple[str, ...]:
    """Flags of a quick replay."""
    return (
        f"--server-address={master.address}",
        f"--replay={recording}",
        "--probe-interval=0.1",
    )


async def test_reports_travel_by_tls_with_a_token(recording: Path, tmp_path: Path) -> None:
    """The authority verified, the token sent, the secret in no log line."""
    authority = Authority.at(tmp_path / "ca")
    context = server_context(*authority.leaf("master", "127.0.0.1"))
    token = tmp_path / "token"
    token.write_text("hush-hush-token\n")
    async with (
        listening(TestMaster(), context) as master,
        worker(
            *replaying(master, recording),
            "--server-tls",
            f"--tls-ca={authority.certificate_file}",
            f"--token-file={token}",
            "--log-level=debug",
        ) as running,
    ):
        await master.hear(1)
        assert master.tokens == ["Bearer hush-hush-token"]
        await running.stop()
        assert b"hush-hush" not in orjson.dumps(running.lines)


async def test_sigterm_ends_it_whatever_hangs(mxsml: Path, tmp_path: Path) -> None:
    """A library and a command hang for longer than we wait: exit code 0, no process left behind."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "mx-smi").write_text(f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nsleep 600\n")
    (folder / "mx-smi").chmod(0o755)
    async with (
        listening(TestMaster()) as master,
        worker(
            f"--server-address={master.address}",
            f"--mxsml-library={mxsml}",
            f"--sysfs-root={tmp_path}",
            "--exporter-address=127.0.0.1:9",
            program=tuned.command("worker", {READING_TIMEOUT: 0.3}),
            FAKE_MXSML="hang",
            PATH=f"{folder}:/usr/bin:/bin",
        ) as running,
    ):
        await eventually((tmp_path / "pids").exists)
        assert await running.stop() == 0
    for pid in (tmp_path / "pids").read_text().split():
        await gone(int(pid))


async def test_a_hanging_library_does_not_hide_what_the_command_sees(
    mxsml: Path, tmp_path: Path
) -> None:
    """The library times out, mx-smi stands in, and the report says both."""
    folder = tmp_path / "bin"
    folder.mkdir()
    bundle = tmp_path / "bundle"
    write_bundle(bundle, HOST)
    (folder / "mx-smi").write_text(
        '#!/bin/sh\ncase "$1" in\n'
        f"  -L) cat {bundle}/mx-smi-list.txt;;\n"
        f"  topo) cat {bundle}/mx-smi-topo.txt;;\n"
        f"  *) cat {bundle}/mx-smi-table.txt;;\nesac\n"
    )
    (folder / "mx-smi").chmod(0o755)
    async with (
        listening(TestMaster(beat_s=1, want="full")) as master,
        worker(
            f"--server-address={master.address}",
            f"--mxsml-library={mxsml}",
            f"--sysfs-root={tmp_path}",
            "--node-name=node-7",
            "--exporter-address=127.0.0.1:9",
            program=tuned.command("worker", {READING_TIMEOUT: 1, COMMAND_INTERVAL: 1}),
            FAKE_MXSML="hang",
            PATH=f"{folder}:/usr/bin:/bin",
        ),
    ):
        await eventually(lambda: any(map(says_both, master.reports)))


def says_both(report: Report) -> bool:
    """Whether it tells of a library that hangs, and of all that the command says."""
    facts = report.facts
    if facts is None:
        return False
    assert facts.identity.name == "node-7"
    states = {health.probe: health.state.value for health in facts.probes}
    assert states["mxsml"] == "timed-out"
    return states["mx-smi-list"] == "ok" and len(facts.gpus) == 8 and facts.matrix is not None


async def test_a_recording_that_starts_silent_is_heard_when_its_silence_ends(
    recording: Path,
) -> None:
    """Its timeline begins with the process."""
    script = f"at 0s: {HOST.name} falls silent\nat 2s: {HOST.name} speaks\n"
    (recording / "timeline.txt").write_text(script)
    async with listening(TestMaster()) as master, worker(*replaying(master, recording)):
        assert (await master.hear(1))[0].kind == "full"


async def test_training_is_refused_in_words(recording: Path) -> None:
    """Accepted, does nothing, and says so once."""
    async with (
        listening(TestMaster()) as master,
        worker(*replaying(master, recording), "--enable-training=true") as running,
    ):
        await master.hear(1)
        told = [line for line in running.lines if "--enable-training" in str(line["event"])]
        assert [line["level"] for line in told] == ["warning"]


async def run(*argv: str) -> tuple[int, str, str]:
    """Exit code and outputs of a worker that ends by itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "worker",
        *argv,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    async with asyncio.timeout(CEILING_S):
        stdout, stderr = await process.communicate()
    return process.returncode or 0, stdout.decode(), stderr.decode()


async def test_a_bundle_is_recorded_and_plays(tmp_path: Path, mxsml: Path) -> None:
    """`--record` on a host with a library, then `--replay` of what it wrote."""
    flags = (f"--mxsml-library={mxsml}", f"--sysfs-root={tmp_path}", "--node-name=node-7")
    folder = tmp_path / "bundle"
    code, told, _ = await run(f"--record={folder}", "--record-anonymous", *flags)
    assert code == 0
    assert "support bundle of node-anonymous" in told
    async with (
        listening(TestMaster()) as master,
        worker(f"--server-address={master.address}", f"--replay={folder}"),
    ):
        facts = (await master.hear(1))[0].facts
        assert facts is not None
        assert (facts.identity.name, len(facts.gpus)) == ("node-anonymous", 4)


@pytest.mark.parametrize(
    ("argv", "code", "words"),
    [
        (("--replay=/nowhere",), 2, "bundle.json"),
        (("--record=/proc/nowhere",), 1, "give --record a folder"),
        (("--record=/usr",), 2, "give --record a new folder"),
        (("--metrics-address=x",), 2, "0 to 65535"),
    ],
)
async def test_what_cannot_work_ends_at_once_and_says_why(
    argv: tuple[str, ...], code: int, words: str
) -> None:
    """Exit 2 for settings, 1 for the world."""
    ended, _, complaint = await run(*argv)
    assert (ended, words in complaint) == (code, True), complaint


async def test_a_taken_metrics_port_ends_it_with_the_reason(recording: Path) -> None:
    """Two workers on one host."""
    async with listening(TestMaster()) as master:
        code, log, _ = await run(
            f"--metrics-address=127.0.0.1:{master.port}", f"--replay={recording}"
        )
    assert code == 1
    assert "cannot be had" in log

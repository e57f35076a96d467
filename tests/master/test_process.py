"""The master as a process: signals, exit codes, kill -9, TLS, its own log."""

import asyncio
import gc
import json
import logging
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
import structlog
from aiohttp import ClientSession

from master.__main__ import main
from tests.master.placing import WRITER, config
from tests.master.process import FREE_PORTS, MASTER, MasterProcess, master_process
from tests.master.world import TOKEN, Worker, facts
from tests.support.waiting import CEILING_S, eventually
from topo.kit.process import collector
from topo.kit.tls import client_context


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_ends_it_with_0_and_with_its_streams(
    token_flag: str, number: signal.Signals
) -> None:
    async with master_process("--mode=dragonfly", token_flag) as master:
        stream = await master.session.get(master.url + "/v1/topology/events")
        await stream.content.readline()
        assert await master.end(number) == 0
        await stream.read()
        stream.close()
    assert [e["event"] for e in master.log][-2:] == ["stopping", "stopped"]


async def test_a_crash_in_native_code_leaves_the_stack_of_each_thread(token_flag: str) -> None:
    async with master_process("--mode=dragonfly", token_flag) as master:
        master.process.send_signal(signal.SIGSEGV)
        _, said = await master.process.communicate()
    assert b"Fatal Python error: Segmentation fault" in said
    assert b"topo/kit/tasks.py" in said


async def test_a_master_that_ends_before_its_tree_settled_leaves_the_older_state(
    tmp_path: Path, token_flag: str
) -> None:
    """Its workers spoke, its cluster manager never does."""
    flags = ("--mode=switchbox", token_flag, f"--state-file={tmp_path / 'state'}")
    silent = "--cluster-manager-address=https://127.0.0.1:9"
    async with master_process(*flags, silent, "--state-save-interval=50ms") as master:
        assert (await master.worker("n1").full(facts("n1", "n2"))).status == 200

        async def is_known() -> bool:
            async with master.session.get(master.url + "/v1/topology") as answer:
                return bool((await answer.json())["generation"] > 0)

        await eventually(is_known)
        assert await master.end(signal.SIGTERM) == 0
    assert not (tmp_path / "state").exists()


async def test_a_killed_master_comes_back_with_the_tree(tmp_path: Path, token_flag: str) -> None:
    flags = ("--mode=dragonfly", token_flag, f"--state-file={tmp_path / 'state'}")
    async with master_process(*flags, "--state-save-interval=50ms") as master:
        for one, two in (("n1", "n2"), ("n2", "n1")):
            assert (await master.worker(one).full(facts(one, two))).status == 200
        await eventually((tmp_path / "state").exists)  # not before the tree has settled
        assert await master.end(signal.SIGKILL) == -signal.SIGKILL
    async with master_process(*flags) as master:
        async with master.session.get(master.url + "/node_group") as answer:
            (group,) = await answer.json()
        assert [c["name"] for c in group["child"]] == ["n1", "n2"]
        assert (await master.worker("n1").beat()).json["want"] == "full"


async def test_a_hold_that_was_given_outlives_a_kill(tmp_path: Path) -> None:
    """It is on disk before it is given, not only when the judgement is written again."""
    state = tmp_path / "state"
    (tmp_path / "nodegroup.yaml").write_text(config())
    (tmp_path / "writers").write_text(WRITER)
    flags = (
        f"--config-file={tmp_path / 'nodegroup.yaml'}",
        f"--api-token-file={tmp_path / 'writers'}",
        f"--state-file={state}",
        "--gpus-per-node=8",
        "--state-save-interval=1h",
    )
    job = {"pods": 4, "gpus_per_pod": 8, "hold_s": 600}
    given: list[str] = []
    for _ in range(2):  # the first judgement, then beside the one that was found
        async with master_process(*flags) as master:

            async def is_ready(now: MasterProcess = master) -> bool:
                return await now.status("/ready") == 200

            await eventually(is_ready)
            bearer = {"Authorization": f"Bearer {WRITER}"}
            url = master.url + "/v1/holds"
            async with master.session.post(url, json=job, headers=bearer) as answer:
                given.append((await answer.json())["hold"]["id"])
            assert given[-1] in state.read_text()
            assert await master.end(signal.SIGKILL) == -signal.SIGKILL
    async with (
        master_process(*flags) as master,
        master.session.get(master.url + "/v1/holds") as answer,
    ):
        assert [hold["id"] for hold in (await answer.json())["holds"]] == given
    assert WRITER not in json.dumps(master.log)


async def test_a_dead_background_task_ends_it_with_1_and_its_reason(token_flag: str) -> None:
    script = (
        "import asyncio, sys, master.tree.engine, master.__main__ as m\n"
        "async def dies(*_):\n"
        "    await asyncio.sleep(0.1)\n"
        "    raise OSError('the wire is cut')\n"
        "master.tree.engine.Engine.run = dies\n"
        "sys.exit(m.main(sys.argv[1:]))\n"
    )
    command = (sys.executable, "-c", script)
    async with master_process("--mode=dragonfly", token_flag, command=command) as master:
        assert await master.wait() == 1
    died = next(e for e in master.log if e["event"] == "background task died")
    assert (died["task"], died["reason"]) == ("engine", "the wire is cut")
    assert master.log[-1]["failures"] == ["OSError: the wire is cut"]


async def test_a_taken_port_ends_it_with_1_and_names_the_port(token_flag: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        async with master_process("--mode=auto", token_flag, f"--rpc-server-port={port}") as master:
            assert await master.wait() == 1
    assert str(port) in master.log[-1]["what"]


def test_settings_that_cannot_be_used_end_it_with_2_and_the_fix() -> None:
    flags = ("--mode=switchbox", "--cluster-manager-address=http://h")
    result = subprocess.run(
        [*MASTER, *flags], capture_output=True, text=True, timeout=CEILING_S, check=False
    )
    assert result.returncode == 2
    assert "--cluster-manager-insecure" in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.parametrize(
    ("flags", "part"),
    [
        (["--tls-cert=/nothere", "--tls-key=/nothere"], "/nothere"),
        (["--worker-token-file=/nothere"], "/nothere"),
        (["--api-token-file=/nothere"], "/nothere"),
        (["--log-file=/proc/nothere/log"], "--log-file"),
        (
            [
                "--mode=switchbox",
                "--cluster-manager-address=https://h",
                "--cluster-manager-mapping-file=/nothere",
            ],
            "/nothere",
        ),
    ],
)
def test_files_that_cannot_be_used_end_it_with_2_before_it_listens(
    flags: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        assert main([*FREE_PORTS, *flags]) == 2
    finally:
        logging.getLogger().handlers.clear()
        structlog.reset_defaults()
    assert part in capsys.readouterr().err


def _pair(directory: Path) -> tuple[Path, Path]:
    cert, key = directory / "cert.pem", directory / "key.pem"
    command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=m"
    subprocess.run(
        [
            *command.split(),
            *("-keyout", str(key), "-out", str(cert), "-addext", "subjectAltName=IP:127.0.0.1"),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key


async def _serial(port: int, cert: Path) -> str:
    """The certificate that a port shows to a client that verifies it."""
    context = client_context(cert)
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
    shown = writer.get_extra_info("ssl_object").getpeercert()
    writer.close()
    return str(shown["serialNumber"])


async def test_tls_serves_both_ports_or_the_workers_alone(tmp_path: Path, token_flag: str) -> None:
    cert, key = _pair(tmp_path)
    flags = ("--mode=dragonfly", token_flag, f"--tls-cert={cert}", f"--tls-key={key}")
    async with master_process(*flags) as master:
        for port in master.ports.values():
            assert await _serial(port, cert)
        with pytest.raises(ssl.SSLError):
            await asyncio.open_connection(
                "127.0.0.1", master.ports["api"], ssl=client_context(None)
            )
        assert await master.end() == 0
    async with master_process(*flags, "--tls-scope=reports") as master:
        assert await master.status("/health") == 200
        assert await _serial(master.ports["reports"], cert)


async def test_a_renewed_certificate_is_shown_without_a_restart(
    tmp_path: Path, token_flag: str
) -> None:
    cert, key = _pair(tmp_path)
    flags = (f"--tls-cert={cert}", f"--tls-key={key}")
    async with master_process("--mode=dragonfly", token_flag, *flags) as master:
        port = master.ports["api"]
        before = await _serial(port, cert)
        key.write_text("broken")
        await master.logged("a file is in trouble")
        assert "the old one stays" in master.log[-1]["what"]
        assert await _serial(port, cert) == before, "a broken pair is not taken up"
        _pair(tmp_path)

        async def renewed() -> bool:
            try:
                return await _serial(port, cert) != before
            except ssl.SSLError:
                return False  # the old one is still shown, the new file does not verify it

        await eventually(renewed)
        assert await master.end() == 0


async def test_the_log_holds_no_token_and_no_line_per_request(token_flag: str) -> None:
    async with master_process("--mode=dragonfly", token_flag, "--log-level=debug") as master:
        worker = master.worker("n1")
        await worker.full(facts("n1"))
        for _ in range(20):
            await worker.beat()
            await master.status("/node_group")
        worker.token = "another-secret"
        assert (await worker.beat()).status == 401
        assert await master.end() == 0
    text = json.dumps(master.log)
    assert "another-secret" not in text
    assert TOKEN not in text
    assert len(master.log) < 10


def test_the_collector_leaves_alone_what_stays() -> None:
    threshold = gc.get_threshold()
    try:
        collector.freeze_startup()
        assert gc.get_freeze_count() > 10_000
        assert gc.get_threshold() == collector.THRESHOLDS
    finally:
        gc.unfreeze()
        gc.set_threshold(*threshold)


async def _resident_mb(master: MasterProcess) -> float:
    async with master.session.get(master.url + "/metrics") as answer:
        text = await answer.text()
    (line,) = [li for li in text.splitlines() if li.startswith("process_resident_memory_bytes ")]
    return float(line.split()[1]) / 1e6


@pytest.mark.slow
async def test_connections_that_come_and_go_leave_no_memory_behind(token_flag: str) -> None:
    """The collector runs rarely in this process, and often enough."""
    resident_mb = []
    async with master_process("--mode=dragonfly", token_flag) as master:
        for _ in range(3):
            for _ in range(500):
                async with ClientSession() as fresh:
                    worker = Worker(f"http://127.0.0.1:{master.ports['reports']}", fresh, "n1")
                    assert (await worker.full(facts("n1"))).status in (200, 429)
                    async with fresh.get(master.url + "/v1/topology/events") as stream:
                        await stream.content.readline()
            resident_mb.append(await _resident_mb(master))
        assert await master.end() == 0
    assert resident_mb[-1] - resident_mb[0] < 15, resident_mb

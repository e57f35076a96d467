"""The simulator as those who run it meet it: a process, a directory, a control port."""

import asyncio
import json
import signal
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from tests.clustermanager.control import command
from tests.support.waiting import CEILING_S
from topo.kit.tls import client_context
from topo.model.errors import BadInputError
from topo.model.observation import ManagedTopology
from topo.sim.certificates import Authority
from topo.sim.clustermanager.api import MAX_TOKENS, LoginSessions
from topo.sim.clustermanager.server import Simulator, SimulatorSettings, simulator

Control = Callable[..., Awaitable[dict[str, Any]]]

PROGRAM = """
import asyncio, sys
from pathlib import Path
from topo.sim.clustermanager.server import SimulatorSettings, serve
from topo.sim.worlds.presets import demo_world, managed_topology
asyncio.run(serve(SimulatorSettings(
    directory=Path(sys.argv[1]), topology=managed_topology(demo_world()), port=int(sys.argv[2]))))
"""


class Process:
    """A simulator in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, ready: dict[str, Any]) -> None:
        self.process = process
        self.ready = ready

    @classmethod
    async def start(cls, directory: Path, port: int = 0) -> "Process":
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(directory), str(port), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), CEILING_S)
        return cls(process, json.loads(line))

    async def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return await asyncio.wait_for(self.process.wait(), CEILING_S)


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Callable[..., Awaitable[Process]]]:
    """Starts simulators in one directory; none survives the test."""
    started: list[Process] = []

    async def start_one(port: int = 0) -> Process:
        started.append(await Process.start(tmp_path / "sim", port))
        return started[-1]

    yield start_one
    for one in started:
        if one.process.returncode is None:
            one.process.kill()
            await one.process.wait()


async def log_in(ready: dict[str, Any]) -> int:
    """The status of a login with what lies in the simulator's directory."""
    folder = Path(ready["credentials_dir"])
    body = {name: (folder / name).read_text().strip() for name in ("username", "password")}
    connector = aiohttp.TCPConnector(ssl=client_context(Path(ready["ca_file"])))
    async with (
        aiohttp.ClientSession(connector=connector) as http,
        http.post(ready["url"] + "/v1/login", json=body) as response,
    ):
        return response.status


async def test_a_killed_simulator_comes_back_with_the_same_authority_and_account(
    start: Callable[..., Awaitable[Process]],
) -> None:
    first = await start()
    assert first.ready["ready"] is True
    folder = Path(first.ready["credentials_dir"]).parent
    kept = [(folder / name).read_bytes() for name in ("ca.pem", "secret/password")]
    assert await log_in(first.ready) == 200
    await first.end(signal.SIGKILL)
    assert (folder / "ready.json").exists()
    again = await start(int(first.ready["url"].rpartition(":")[2]))
    assert [(folder / name).read_bytes() for name in ("ca.pem", "secret/password")] == kept
    assert again.ready["url"] == first.ready["url"]
    assert await log_in(again.ready) == 200


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stopped_simulator_ends_well_and_is_no_longer_ready(
    number: signal.Signals, start: Callable[..., Awaitable[Process]], tmp_path: Path
) -> None:
    running = await start()
    assert json.loads((tmp_path / "sim" / "ready.json").read_text())["pid"] == running.process.pid
    assert await running.end(number) == 0
    assert not (tmp_path / "sim" / "ready.json").exists()


async def test_secrets_are_readable_by_their_owner_only(manager: Simulator) -> None:
    for name in ("ca.key", "server.key", "secret/username", "secret/password", "control.token"):
        assert (manager.directory / name).stat().st_mode & 0o077 == 0


async def test_a_topology_that_is_not_sound_is_not_served(tmp_path: Path) -> None:
    settings = SimulatorSettings(directory=tmp_path, topology=ManagedTopology())
    with pytest.raises(BadInputError, match="no machine at all"):
        async with simulator(settings):
            pass


async def test_the_control_port_wants_its_token(manager: Simulator) -> None:
    (manager.directory / "control.token").write_text("wrong")
    with pytest.raises(aiohttp.ClientError, match="control token is wrong"):
        await command(manager.directory, "GET", "/state")


@pytest.mark.parametrize(
    ("method", "path", "body", "words"),
    [
        ("PUT", "/faults", {"kind": "explode"}, "'stall'"),
        ("PUT", "/faults", {"kind": "stall", "second": 3}, "Extra inputs"),
        ("DELETE", "/faults/explode", None, "no fault is called"),
        ("PATCH", "/machines/nobody", {"group_id": "box-1"}, "there are machine-1"),
        ("PATCH", "/machines/machine-1", {"group_id": "box-9"}, "the id of no group"),
        ("DELETE", "/groups/box-1", None, "the id of no group"),
        ("PUT", "/groups/box-9", {"name": "x"}, "Field required"),
        ("PUT", "/groups/box-9", None, "not what this call takes"),
    ],
)
async def test_a_wrong_control_call_is_refused_with_the_reason(
    *, method: str, path: str, body: dict[str, Any] | None, words: str, manager: Simulator
) -> None:
    with pytest.raises(aiohttp.ClientError, match=words):
        await command(manager.directory, method, path, body)


async def test_a_fault_strikes_as_often_as_it_was_asked_to(
    manager: Simulator, control: Control
) -> None:
    await control("PUT", "/faults", kind="error", path="/v1/login", times=2)
    await control("PUT", "/faults", kind="stall", path="/v1/topology")
    ready = manager.document()
    assert [await log_in(ready) for _ in range(3)] == [500, 500, 200]
    state = await control("DELETE", "/faults/stall")
    assert state["faults"] == []
    assert state["logins"] == 1
    assert state["requests"] == {"/v1/login": 3}


async def test_a_group_of_another_kind_ends_the_log(control: Control) -> None:
    before = (await control("GET", "/state"))["cursor"]
    after = (await control("PATCH", "/groups/box-1", kind="rack"))["cursor"]
    assert before.partition("-")[0] != after.partition("-")[0]


def test_the_oldest_token_goes_when_there_are_too_many() -> None:
    sessions = LoginSessions("u", "p", ttl_s=60)
    tokens = [sessions.login("u", "p") or "" for _ in range(MAX_TOKENS + 1)]
    assert not sessions.valid(tokens[0])
    assert sessions.valid(tokens[1])
    assert sessions.login("u", "q") is None


def test_a_key_of_another_kind_is_not_taken_for_the_authoritys(tmp_path: Path) -> None:
    authority = Authority.at(tmp_path)
    authority.key_file.write_bytes(
        ed25519.Ed25519PrivateKey.generate().private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    with pytest.raises(TypeError, match="was not written by this program"):
        authority.leaf("server", "localhost")


def test_a_leaf_is_good_for_strict_verification(tmp_path: Path) -> None:
    """Python 3.13 verifies strictly by default (RFC 5280: key identifiers, key usage)."""
    authority = Authority.at(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(*authority.leaf("server", "localhost"))
    client = ssl.create_default_context(cafile=authority.certificate_file)
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = client.wrap_bio(incoming, outgoing, server_hostname="localhost")
    theirs = server.wrap_bio(outgoing, incoming, server_side=True)
    for _ in range(3):
        for side in (ours, theirs):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    assert ours.version() is not None

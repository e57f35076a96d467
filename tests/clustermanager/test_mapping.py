"""Mapping files: the manual's example on a real server, and managers of other shapes."""

import asyncio
import re
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer

from master.settings.cluster_manager import ClusterManagerSettings
from tests.clustermanager.conftest import Bench
from tests.clustermanager.control import command
from tests.clustermanager.mappings import INVENTORY, LOGIN_MAPPING, MANUAL, MAPPING, block
from topo.discovery.manager.mapping import (
    read_mapping,
    understand_topology,
)
from topo.discovery.manager.rules import Closed, LoginAuth, ManagerMapping
from topo.discovery.manager.translation import Grant, map_login
from topo.kit.tls import server_context
from topo.model.errors import Refusal
from topo.model.observation import ManagedTopology, ManagerReported, SourceFailed, SourceRecovered
from topo.sim.certificates import Authority
from topo.sim.clustermanager.server import Simulator


class Foreign:
    """A manager of another shape: the manual's inventory behind an `Authorization` of its own."""

    def __init__(self, authorization: str) -> None:
        self.authorization = authorization
        self.broken = False
        self.app = web.Application()
        self.app.router.add_get("/prefix/api/v2/inventory", self._inventory)
        self.app.router.add_get("/prefix/api/v2/status", self._status)

    async def _inventory(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != self.authorization:
            return web.Response(status=401)
        return web.Response(status=500) if self.broken else web.json_response(INVENTORY)

    async def _status(self, request: web.Request) -> web.Response:
        assert "Authorization" not in request.headers
        return web.json_response({"state": "red", "text": "the disk is\nfull, token=abc"})


@pytest.fixture
async def serve(tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """Serves an application over TLS; gives the settings that find it."""
    servers: list[TestServer] = []

    async def start(app: web.Application, mapping: Any, **secrets: str) -> ClusterManagerSettings:
        authority = Authority.at(tmp_path / "ca")
        server = TestServer(app, host="localhost")
        await server.start_server(ssl=server_context(*authority.leaf("foreign", "localhost")))
        servers.append(server)
        folder = tmp_path / "secret"
        folder.mkdir()
        for name, value in secrets.items():
            (folder / name).write_text(value + "\n")
        mapping_file = tmp_path / "mapping.yaml"
        mapping_file.write_text(yaml.safe_dump(mapping))
        return ClusterManagerSettings(
            address=f"https://localhost:{server.port}/prefix/",
            credentials_dir=folder,
            ca_file=authority.certificate_file,
            mapping_file=mapping_file,
            poll_topology_s=0.1,
            poll_events_s=0.03,
            backoff_base_s=0.01,
            backoff_ceiling_s=0.05,
            refused_login_wait_s=0.05,
        )

    yield start
    for server in servers:
        await server.close()


def stated(topology: ManagedTopology) -> tuple[dict[str, str], dict[str, tuple[str | None, ...]]]:
    """Group names by kind, and group and status of the machines."""
    return (
        {group.name: group.kind for group in topology.groups},
        {machine.id: (machine.group_id, machine.status) for machine in topology.machines},
    )


EXPECTED = (
    {"switchbox-R07": "switchbox", "switchbox-R08": "switchbox"},
    {
        "70001": ("switchbox-R07", "Ready"),
        "70002": ("switchbox-R07", "NotReady"),
        "80001": ("switchbox-R08", "NotReady"),
        "90001": (None, None),
    },
)


async def test_the_manuals_example_is_read_from_a_real_server(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    foreign = Foreign(aiohttp.encode_basic_auth("häuptling", "pass:wörd", "utf-8"))
    settings = await serve(foreign.app, MAPPING, username="häuptling", password="pass:wörd")
    running = bench.run(settings)
    reported = await running.ear.hear(ManagerReported)
    assert stated(reported.topology) == EXPECTED
    await running.counted("polls_total", 2, asked="topology", result="unchanged")
    assert running.count("polls_total", asked="events", result="unchanged") == 0


UFM: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[2] / "examples/managers/ufm.yaml").read_text(encoding="utf-8")
)


def ufm_ports(leaf_of: Mapping[str, str], rails: int = 4) -> list[dict[str, str]]:
    """Ports as UFM lists them: a row for each adapter of a host, and rows of switches between."""
    hosts = [
        {
            "description": "Computer IB Port",
            "system_name": host,
            "node_description": f"{host} mlx5_{rail}",
            "peer_node_name": f"{leaf}-r{rail}",
        }
        for host, leaf in leaf_of.items()
        for rail in range(rails)
    ]
    switch = {"description": "Switch IB Port", "system_name": "spine", "peer_node_name": "su1-r0"}
    return [switch, *hosts, switch]


async def test_the_example_for_ufm_groups_hosts_by_the_leaf_of_one_rail(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    """Each leaf is named by each of its cables; from a real server, as docs/fabric.md says."""
    ports = ufm_ports({"gpu-01": "su1", "gpu-02": "su1", "gpu-03": "su2", "gpu-04": "su2"})

    async def answer(request: web.Request) -> web.Response:
        wanted = aiohttp.encode_basic_auth("reader", "secret", "utf-8")
        assert request.headers["Authorization"] == wanted
        return web.json_response(ports)

    app = web.Application()
    app.router.add_get("/prefix/ufmRest/resources/ports", answer)
    running = bench.run(await serve(app, UFM, username="reader", password="secret"))
    reported = await running.ear.hear(ManagerReported)
    assert stated(reported.topology) == (
        {"su1-r0": "leaf", "su2-r0": "leaf"},
        {
            **dict.fromkeys(("gpu-01", "gpu-02"), ("su1-r0", None)),
            **dict.fromkeys(("gpu-03", "gpu-04"), ("su2-r0", None)),
        },
    )


def test_rows_that_repeat_are_one_and_rows_that_differ_are_refused_with_their_id() -> None:
    mapping = read_mapping(UFM)
    assert isinstance(mapping, ManagerMapping)
    assert mapping.topology is not None
    twice = ufm_ports({"gpu-01": "su1"}) * 2
    found = understand_topology(mapping.topology, twice)
    assert not isinstance(found, Refusal)
    refused = understand_topology(mapping.topology, twice + ufm_ports({"gpu-01": "su2"}))
    assert isinstance(refused, Refusal)
    assert "the id 'gpu-01' occurs 2 times" in refused.what


async def test_a_failing_manager_is_quoted_on_its_health_without_secrets(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    foreign = Foreign("Key abc-123")
    auth = {"kind": "token", "file": "api-key", "prefix": "Key "}
    settings = await serve(foreign.app, {**MAPPING, "auth": auth}, **{"api-key": "abc-123"})
    running = bench.run(settings)
    await running.ear.hear(ManagerReported)
    foreign.broken = True
    failed = await running.ear.hear(SourceFailed)
    assert "answers 500, and says of itself: the disk is full, token=***" in failed.refusal
    foreign.broken = False
    await running.ear.hear(SourceRecovered)


async def test_a_fixed_token_that_is_refused_is_found_when_its_file_changes(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    foreign = Foreign("Bearer good")
    settings = await serve(foreign.app, {**MAPPING, "auth": {"kind": "token"}}, token="with space")
    running = bench.run(settings)
    assert "something else than one token" in (await running.ear.hear(SourceFailed)).refusal
    (settings.credentials_dir / "token").write_text("bad")
    refused = await running.ear.hear(SourceFailed, after=1)
    assert "refuses us (401)" in refused.refusal
    (settings.credentials_dir / "token").write_text("good")
    await running.ear.hear(ManagerReported)


async def test_a_user_name_that_basic_authentication_cannot_carry_is_named_by_its_file(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    """It is a trouble like another: the file is read again, and the right name is found."""
    foreign = Foreign(aiohttp.encode_basic_auth("ab", "p", "utf-8"))
    settings = await serve(foreign.app, MAPPING, username="a:b", password="p")
    running = bench.run(settings)
    failed = await running.ear.hear(SourceFailed)
    assert "a colon" in failed.refusal
    assert str(settings.credentials_dir / "username") in failed.refusal
    (settings.credentials_dir / "username").write_text("ab")
    await running.ear.hear(ManagerReported)


async def test_a_login_and_events_of_another_shape_are_followed(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    logins: list[Any] = []

    async def login(request: web.Request) -> web.Response:
        logins.append(await request.json())
        return web.json_response({"session": {"key": "k1"}})

    async def everything(request: web.Request) -> web.Response:
        assert request.headers["X-Session"] == "k1"
        hosts = [{"sn": name, "uuid": f"u-{name}"} for name in "ab"]
        return web.json_response({"at": 4, "hosts": hosts})

    async def changes(request: web.Request) -> web.Response:
        entries = [{"gone": "a", "from": 4, "to": 5}] if request.query["since"] == "4" else []
        return web.json_response({"at": 5, "log": entries})

    app = web.Application()
    app.router.add_post("/prefix/api/session", login)
    app.router.add_get("/prefix/api/all", everything)
    app.router.add_get("/prefix/api/changes", changes)
    settings = await serve(app, LOGIN_MAPPING, username="u", password="p")
    running = bench.run(settings)
    await running.ear.hear(ManagerReported, lambda e: [m.id for m in e.topology.machines] == ["b"])
    assert logins == [{"user": "u", "pass": "p"}]


async def test_a_manager_without_tls_is_asked_only_when_that_was_said(
    bench: Bench, tmp_path: Path
) -> None:
    foreign = Foreign(aiohttp.encode_basic_auth("u", "p", "utf-8"))
    (tmp_path / "username").write_text("u")
    (tmp_path / "password").write_text("p")
    (tmp_path / "mapping.yaml").write_text(block("yaml"))
    server = TestServer(foreign.app)
    await server.start_server()
    running = bench.run(
        ClusterManagerSettings(
            address=str(server.make_url("/prefix")),
            credentials_dir=tmp_path,
            insecure=True,
            mapping_file=tmp_path / "mapping.yaml",
        )
    )
    await running.ear.hear(ManagerReported)
    await server.close()


@pytest.mark.parametrize("answer", [{}, {"session": {"key": 5}}, {"session": {"key": "a b"}}])
async def test_a_login_without_a_token_is_a_failure_that_shows_nothing(
    answer: Any, bench: Bench, serve: Callable[..., Any]
) -> None:
    async def login(_request: web.Request) -> web.Response:
        return web.json_response({**answer, "hint": "secret-hint"})

    app = web.Application()
    app.router.add_post("/prefix/api/session", login)
    running = bench.run(await serve(app, LOGIN_MAPPING, username="u", password="p"))
    failed = await running.ear.hear(SourceFailed)
    assert "`session.key` yielded no token" in failed.refusal
    assert "secret-hint" not in failed.refusal


def test_a_manager_whose_login_says_no_life_is_asked_until_it_refuses() -> None:
    mapping = read_mapping(LOGIN_MAPPING)
    assert isinstance(mapping, ManagerMapping)
    assert isinstance(mapping.auth, LoginAuth)
    assert map_login(mapping.auth, {"session": {"key": "k"}}) == Grant("k", None)


async def test_the_commands_of_the_manual_work(manager: Simulator, tmp_path: Path) -> None:
    """They are run by a shell where `sim` is the simulator's directory."""
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    (tmp_path / "sim").symlink_to(manager.directory)
    shell = await asyncio.create_subprocess_exec(
        *("sh", "-eu", "-c", block("sh", 0) + block("sh", 1)),
        cwd=tmp_path,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await shell.communicate()
    assert err == b""
    assert shell.returncode == 0
    assert b'"switchbox-sample1"' in out
    assert b'"kind":"empty"' in out
    state = await command(manager.directory, "GET", "/state")
    assert state["faults"] == []
    assert state["cursor"].endswith("-2")


async def test_a_manager_that_answers_very_deep_json_is_one_that_fails(
    bench: Bench, serve: Callable[..., Any]
) -> None:
    """Neither its events nor what it says of its health ends the source."""
    deep = "[" * 1000 + "]" * 1000
    broken = False

    async def login(_request: web.Request) -> web.Response:
        return web.json_response({"token": "t"})

    async def everything(_request: web.Request) -> web.Response:
        whole = {"cursor": "c-0", "groups": [], "machines": [{"id": "m"}]}
        return web.Response(status=500) if broken else web.json_response(whole)

    async def nested(request: web.Request) -> web.Response:
        key = "cursor" if request.path.endswith("events") else "detail"
        return web.Response(body=f'{{"{key}":{deep},"events":[],"status":"bad"}}'.encode())

    app = web.Application()
    app.router.add_post("/prefix/v1/login", login)
    app.router.add_get("/prefix/v1/topology", everything)
    app.router.add_get("/prefix/v1/events", nested)
    app.router.add_get("/prefix/v1/health", nested)
    settings = await serve(app, None, username="u", password="p")
    running = bench.run(replace(settings, mapping_file=None))
    await running.counted("polls_total", 2, asked="events", result="gap")
    broken = True
    failed = await running.ear.hear(SourceFailed)
    assert "answers 500" in failed.refusal
    broken = False
    await running.ear.hear(SourceRecovered)


def test_the_manual_has_every_key_of_a_mapping_and_its_table_no_other() -> None:
    section = MANUAL.partition("### The keys\n")[2].partition("\n## ")[0]
    rows = [line.split(" | ")[0] for line in section.splitlines() if line.startswith("| `")]
    keys = {name for rule in Closed.__subclasses__() for name in rule.model_fields}
    assert set(re.findall(r"\w+", " ".join(rows))) <= keys
    assert keys <= set(re.findall(r"\w+", " ".join(re.findall(r"`[^`]+`", section))))

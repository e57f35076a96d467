"""Mapping files: the manual's example on a real server, and every way to get one wrong."""

import asyncio
import copy
import json
import re
import shutil
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import yaml
from aiohttp import web
from aiohttp.test_utils import TestServer
from hypothesis import given
from hypothesis import strategies as st

from master.settings.cluster_manager import ClusterManagerSettings
from master.sources.cluster_manager.mapping import load_mapping, parse_yaml
from tests.clustermanager.conftest import Bench
from tests.clustermanager.control import command
from tests.support.answers import bent
from topo.discovery.manager.contract import ManagerAnswer
from topo.discovery.manager.expressions import AnswerValue, Expression
from topo.discovery.manager.mapping import (
    contract,
    read_mapping,
    understand_events,
    understand_topology,
)
from topo.discovery.manager.rules import LoginAuth, ManagerMapping
from topo.discovery.manager.translation import Grant, map_health, map_login
from topo.kit.tls import server_context
from topo.model.errors import BadInputError, Refusal
from topo.model.observation import ManagedTopology, ManagerReported, SourceFailed, SourceRecovered
from topo.sim.clustermanager.certificates import Authority
from topo.sim.clustermanager.server import Simulator

MANUAL = (Path(__file__).parents[2] / "docs" / "cluster-manager.md").read_text()


def block(language: str, number: int = 0) -> str:
    """A fenced block of the manual."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```", MANUAL, re.DOTALL | re.MULTILINE)
    return str(blocks[number])


INVENTORY: dict[str, Any] = json.loads(block("json"))
MAPPING: dict[str, Any] = yaml.safe_load(block("yaml"))
LOGIN_MAPPING: dict[str, Any] = {
    "version": 1,
    "auth": {
        "kind": "login",
        "path": "/api/session",
        "username_field": "user",
        "password_field": "pass",
        "token": "session.key",
        "header": "X-Session",
        "prefix": "",
    },
    "topology": {
        "path": "/api/all",
        "cursor": "to_string(at)",
        "machines": [{"each": "hosts", "id": "sn", "names": {"server_uuid": "uuid"}}],
    },
    "events": {
        "path": "/api/changes",
        "cursor_parameter": "since",
        "cursor": "to_string(at)",
        "each": "log[].{type: 'machine-removed', machine_id: gone,"
        " after: to_string(from), cursor: to_string(to)}",
    },
    "sample": {
        "login": {"session": {"key": "example"}},
        "topology": {"at": 4, "hosts": [{"sn": "a", "uuid": "u-a"}]},
        "events": {"at": 5, "log": [{"gone": "a", "from": 4, "to": 5}]},
        "events_asked": "4",
    },
}


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
            allow_http=True,
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


def changed(change: Callable[[dict[str, Any]], object], base: dict[str, Any] = MAPPING) -> Any:
    """A copy of a mapping with one thing changed."""
    document = copy.deepcopy(base)
    change(document)
    return document


def rack(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = document["topology"]["groups"][0]
    return found


def host(document: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = rack(document)["machines"][0]
    return found


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "at the document"),
        (changed(lambda d: d.update(version=2)), "at version"),
        (changed(lambda d: d.update(topologie={})), "did you mean 'topology'?"),
        (changed(lambda d: d.update(zzz={})), "the keys here are version, auth"),
        (changed(lambda d: d.pop("sample")), "at sample"),
        (changed(lambda d: d["auth"].update(kind="basik")), "did you mean 'basic'?"),
        (changed(lambda d: d["auth"].update(user="x")), "at auth.basic"),
        (changed(lambda d: d["topology"].update(path="api")), "at topology.path"),
        (changed(lambda d: d["topology"].update(path="//other.host/x")), "not a plain path"),
        (changed(lambda d: d["topology"].update(path="/a/../b")), "not a plain path"),
        (changed(lambda d: d["topology"].update(path="/a?b=c")), "not a plain path"),
        (changed(lambda d: rack(d).update(each="data.racks[")), "is not JMESPath"),
        (changed(lambda d: rack(d).update(each="data.rack[]")), "the nearest is 'data'"),
        (changed(lambda d: rack(d).update(each="data")), "where a list is expected"),
        (changed(lambda d: rack(d).update(name=3)), "is a text"),
        (changed(lambda d: rack(d).update(name="lable")), "the nearest is 'label'"),
        (changed(lambda d: rack(d).update(kind="switchbox")), "\"'switchbox'\""),
        (changed(lambda d: rack(d).update(kind="'Switch Box'")), "groups[0].kind"),
        (changed(lambda d: rack(d).update(name="length(nothing)")), "failed: length() does not"),
        (changed(lambda d: rack(d).update(name="label && hosts[::0]")), "failed: "),
        (changed(lambda d: rack(d).update(name="(" * 500 + "label" + ")" * 500)), "too deeply"),
        (changed(lambda d: rack(d).update(name="hosts")), "yielded a list of 1 where a text"),
        (changed(lambda d: host(d).update(id="smbios")), "where a text is expected"),
        (changed(lambda d: host(d).update(status="power")), "'Ready', 'NotReady' or nothing"),
        (changed(lambda d: host(d)["names"].update(hostname="fqdn")), "finds nothing anywhere"),
        (changed(lambda d: host(d)["names"].update(host_name="name")), "did you mean 'hostname'?"),
        (changed(lambda d: host(d).update(each="servers[]")), "finds nothing anywhere"),
        (changed(lambda d: d["health"].update(ok="state")), "where true or false is expected"),
        (changed(lambda d: d["health"].update(detail="@")), "health.detail"),
        (changed(lambda d: d["sample"].pop("health")), "tried on sample.health"),
        (changed(lambda d: d["sample"].update(topology=[])), "it is asked of"),
        (
            changed(lambda d: d["sample"].update(topology={"data": {"racks": [], "spares": []}})),
            "no m",
        ),
    ],
)
def test_a_wrong_mapping_is_refused_with_the_expression_and_what_it_yielded(
    document: object, words: str
) -> None:
    refusal = read_mapping(document)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (changed(lambda d: d["sample"].pop("login"), LOGIN_MAPPING), "tried on sample.login"),
        (changed(lambda d: d["sample"].pop("events"), LOGIN_MAPPING), "tried on sample.events"),
        (changed(lambda d: d["topology"].pop("cursor"), LOGIN_MAPPING), "this one has none"),
        (changed(lambda d: d["auth"].update(token="session"), LOGIN_MAPPING), "yielded no token"),
        (changed(lambda d: d["auth"].update(token="sum(session)"), LOGIN_MAPPING), "failed on"),
        (
            changed(lambda d: d["auth"].update(expires_in_s="session.key"), LOGIN_MAPPING),
            "yielded no seconds",
        ),
        (changed(lambda d: d["events"].update(cursor="nothing"), LOGIN_MAPPING), "events.cursor"),
        (changed(lambda d: d["sample"].update(events_asked="3"), LOGIN_MAPPING), "a gap"),
    ],
)
def test_a_wrong_mapping_of_login_or_events_is_refused(document: object, words: str) -> None:
    refusal = read_mapping(document)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)
    assert "example" not in str(refusal)


def test_groups_in_groups_are_known_by_their_path_where_they_have_no_id() -> None:
    """Equal rack names in two rows stay two racks."""
    rows = [{"n": row, "racks": [{"n": "r1", "hosts": [{"s": f"{row}1"}]}]} for row in "AB"]
    mapping = read_mapping(
        {
            "version": 1,
            "auth": {"kind": "basic"},
            "topology": {
                "path": "/x",
                "groups": [
                    {
                        "each": "rows",
                        "name": "n",
                        "kind": "'row'",
                        "groups": [
                            {
                                "each": "racks",
                                "name": "n",
                                "kind": "'switchbox'",
                                "machines": [
                                    {"each": "hosts", "id": "s", "names": {"hostname": "s"}}
                                ],
                            }
                        ],
                    }
                ],
            },
            "sample": {"topology": {"rows": rows}},
        }
    )
    assert isinstance(mapping, ManagerMapping)
    answer = understand_topology(mapping.topology, {"rows": [*rows, {"n": "C", "racks": None}]})
    assert isinstance(answer, ManagerAnswer)
    assert [g.id for g in answer.topology.groups] == ["A", "A/r1", "B", "B/r1", "C"]
    assert {m.id: m.group_id for m in answer.topology.machines} == {"A1": "A/r1", "B1": "B/r1"}


def test_a_live_answer_that_no_longer_fits_is_refused_by_its_expression() -> None:
    mapping = read_mapping(MAPPING)
    assert isinstance(mapping, ManagerMapping)
    renamed = json.loads(json.dumps(INVENTORY).replace('"serial"', '"serial_number"'))
    refusal = understand_topology(mapping.topology, renamed)
    assert isinstance(refusal, Refusal)
    assert "`serial` yielded nothing" in refusal.what
    assert "(element 0)" in refusal.where
    assert "the nearest is 'serial_number'" in refusal.fix


DEEP: Any = orjson.loads("[" * 1000 + "]" * 1000)


@pytest.mark.parametrize(
    ("understand", "words"),
    [
        (lambda m: understand_topology(m.topology, {"machines": DEEP}), "groups"),
        (
            lambda m: understand_topology(
                m.topology, {"groups": [], "machines": [{"id": "m", "status": DEEP}]}
            ),
            "machines[0].status",
        ),
        (lambda m: understand_events(m.events, {"cursor": DEEP, "events": []}, "c"), "a list of 1"),
        (lambda m: map_health(m.health, {"status": "bad", "detail": DEEP}), "a list of 1"),
    ],
)
def test_an_answer_nested_a_thousand_deep_is_refused(
    understand: Callable[[ManagerMapping], object], words: str
) -> None:
    refusal = understand(contract())
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    "call", ["abs(@)", "contains('text', @)", "@ == @ && abs(@)", "to_array(@)"]
)
def test_an_expression_that_fails_on_a_deep_value_shows_none_of_it(call: str) -> None:
    with pytest.raises(BadInputError) as error:
        AnswerValue(DEEP, "topology").text(Expression(call), "cursor")
    assert "[[[" not in str(error.value)
    assert len(str(error.value)) < 300


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


@pytest.mark.parametrize(
    ("expression", "value", "found"),
    [("a", {"a": 1}, 1), ("a", [1], None), ("a.b", {"a": {"b": 2}}, 2), ("'x'", None, "x")],
)
def test_a_plain_key_and_an_expression_are_looked_up_alike(
    expression: str, value: object, found: object
) -> None:
    assert Expression(expression).of(value) == found


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a: [", "line 2"),
        (b"a: 1\na: 2", "line 2"),
        (b"a: &x [1]\nb: [*x, *x]", "the anchor &x"),
        (b"a: \xff", "byte 3"),
        (b"a: !!python/object:os.system {}", "line 1"),
        (b"a: \x00", "no YAML"),
        (b"{[1]: 2}", "line 1"),
        (b"[" * 20000, "nesting"),
    ],
)
def test_yaml_with_surprises_is_refused_with_its_line(content: bytes, words: str) -> None:
    refusal = parse_yaml(content)
    assert isinstance(refusal, Refusal)
    assert words in str(refusal)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2024-02-30", "2024-02-30"),
        ("2024-02-28", "2024-02-28"),
        ("2024-01-01T99:99:99Z", "2024-01-01T99:99:99Z"),
        ("=", "="),
        ("<<", "<<"),
        ("-1.5e+3", -1500.0),
        ("0", 0),
        ("On", True),
        ("no", False),
        ("~", None),
        ("", None),
    ],
)
def test_a_sample_is_read_as_the_answer_that_it_is_a_copy_of(text: str, value: object) -> None:
    """JSON has no dates, and no calendar either."""
    assert parse_yaml(f"a: [{{b: {text}}}]".encode()) == {"a": [{"b": value}]}


@pytest.mark.parametrize("text", ["0x_", "9" * 5000, "0x1f", "012", "1_000", ".inf", "-.inf"])
def test_a_number_that_json_does_not_have_is_refused_with_its_line(text: str) -> None:
    """YAML 1.1 has more, which are texts or slips; some end its own reader."""
    refusal = parse_yaml(f"a: 1\nb:\n- {text}".encode())
    assert isinstance(refusal, Refusal)
    assert "that JSON does not have" in refusal.what
    assert refusal.where == "line 3"


SCRAPS = (
    "a", ": ", "- ", "\n", "\n  ", "[", "]", "{", "}", ",", "&x ", "*x", "!!binary ", "!!set ",
    "<<", "=", "2024-02-30", "2024-01-01T99:99:99Z", "0x_", "1:99", ".inf", "9" * 5000, "~", "On",
    "'", '"', "# ", "\t", "|\n", ">\n", "---\n", "%YAML 1.1\n", "? ", "\\", "\x85", "version",
)  # fmt: skip


@given(st.lists(st.sampled_from(SCRAPS), max_size=30).map("".join))
def test_any_scraps_of_yaml_are_a_document_of_json_or_a_refusal(text: str) -> None:
    found = parse_yaml(text.encode())
    assert isinstance(found, Refusal) or orjson.loads(orjson.dumps(found)) == found


@given(bent(MAPPING) | bent(LOGIN_MAPPING))
def test_any_mapping_is_one_or_is_refused_in_words(text: bytes) -> None:
    found = parse_yaml(text)
    mapping = found if isinstance(found, Refusal) else read_mapping(found)
    assert isinstance(mapping, ManagerMapping | Refusal)
    if isinstance(mapping, Refusal):
        assert mapping.where
        assert mapping.fix
        assert len(mapping.what) < 1000
        assert f"{mapping.what}{mapping.where}{mapping.fix}".isprintable()


def test_a_refused_file_is_named_with_the_place_in_it(tmp_path: Path) -> None:
    file = tmp_path / "mapping.yaml"
    file.write_text("version: 7\n")
    with pytest.raises(BadInputError, match=re.escape(f"{file}: ")):
        load_mapping(file)
    file.write_text("version: [\n")
    with pytest.raises(BadInputError, match="line 2"):
        load_mapping(file)

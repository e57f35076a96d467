"""The published contract, the simulator that serves it and the reader that understands it agree."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from master.sources.cluster_manager.http import TroubleKind
from tests.clustermanager.schema import findings, resolve
from topo.discovery.manager.contract import ManagerAnswer, doubts, read_topology
from topo.discovery.manager.events import EventPage, ManagerEvent, read_events
from topo.discovery.manager.mapping import contract
from topo.facts.reading.text import MAX_WARNINGS
from topo.kit.tls import client_context
from topo.model.ids import GroupName, Kind
from topo.model.observation import ManagedGroup, ManagedTopology
from topo.sim.clustermanager.faults import ManagerFaultKind
from topo.sim.clustermanager.server import Simulator

Control = Callable[..., Awaitable[dict[str, Any]]]

OPENAPI = Path(__file__).parents[2] / "docs" / "cluster-manager.openapi.yaml"


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(OPENAPI.read_text())
    return document


def operations(openapi: dict[str, Any]) -> dict[str, tuple[str, str, dict[str, Any]]]:
    """Method, path and description of every operation by its id."""
    return {
        operation["operationId"]: (method, path, operation)
        for path, methods in openapi["paths"].items()
        for method, operation in methods.items()
    }


def answer_schema(openapi: dict[str, Any], operation: str, status: int) -> dict[str, Any]:
    """The schema of an operation's answer of that status, whatever its content type."""
    response = operations(openapi)[operation][2]["responses"][str(status)]
    if "$ref" in response:
        response = resolve(openapi, response["$ref"])
    (content,) = response["content"].values()
    schema: dict[str, Any] = content["schema"]
    return schema


def examples(openapi: dict[str, Any]) -> dict[str, Any]:
    """The example of every operation's good answer."""
    return {
        name: operation["responses"]["200"]["content"]["application/json"]["example"]
        for name, (_, _, operation) in operations(openapi).items()
    }


def test_every_example_is_of_its_schemas_form(openapi: dict[str, Any]) -> None:
    for name, example in examples(openapi).items():
        assert findings(openapi, answer_schema(openapi, name, 200), example) == []


def test_the_example_topology_is_understood(openapi: dict[str, Any]) -> None:
    answer = read_topology(examples(openapi)["topology"])
    assert isinstance(answer, ManagerAnswer)
    assert [machine.id for machine in answer.topology.machines] == ["machine-1", "machine-2"]


def test_the_example_events_follow_on_the_example_topology(openapi: dict[str, Any]) -> None:
    asked = examples(openapi)["topology"]["cursor"]
    assert isinstance(read_events(examples(openapi)["events"], asked), EventPage)


def test_the_default_mapping_asks_the_paths_of_the_contract(openapi: dict[str, Any]) -> None:
    mapping = contract()
    paths = {name: path for name, (_, path, _) in operations(openapi).items()}
    assert mapping.auth.kind == "login"
    assert mapping.topology is not None
    assert mapping.events is not None
    assert mapping.health is not None
    assert paths == {
        "login": mapping.auth.path,
        "topology": mapping.topology.path,
        "events": mapping.events.path,
        "health": mapping.health.path,
    }


def test_the_contract_lists_the_event_types_that_are_understood(openapi: dict[str, Any]) -> None:
    listed = set(openapi["components"]["schemas"]["Event"]["discriminator"]["mapping"])
    understood = {
        word
        for kind in ManagerEvent.__args__
        for word in kind.model_fields["type"].annotation.__args__
    }
    assert listed == understood


class Caller:
    """Calls operations of the contract by id and holds each answer against its schema."""

    def __init__(
        self, openapi: dict[str, Any], manager: Simulator, http: aiohttp.ClientSession
    ) -> None:
        self._openapi = openapi
        self._manager = manager
        self._http = http
        self.token = ""

    async def call(
        self, operation: str, status: int = 200, query: str = "", body: Any = None
    ) -> Any:
        method, path, _ = operations(self._openapi)[operation]
        async with self._http.request(
            method,
            self._manager.url + path + query,
            json=body,
            headers={"Authorization": f"Bearer {self.token}"},
        ) as response:
            assert response.status == status
            answer = await response.json(content_type=None)
            schema = answer_schema(self._openapi, operation, status)
            assert findings(self._openapi, schema, answer) == []
            return answer

    async def login(self) -> None:
        folder = self._manager.credentials_dir
        body = {name: (folder / name).read_text().strip() for name in ("username", "password")}
        self.token = (await self.call("login", body=body))["token"]


@pytest.fixture
async def caller(openapi: dict[str, Any], manager: Simulator) -> Any:
    connector = aiohttp.TCPConnector(ssl=client_context(manager.ca_file))
    async with aiohttp.ClientSession(connector=connector) as http:
        yield Caller(openapi, manager, http)


async def test_the_simulators_answers_are_of_the_contracts_form(
    caller: Caller, control: Control
) -> None:
    await caller.login()
    cursor = (await caller.call("topology"))["cursor"]
    await caller.call("events", query=f"?cursor={cursor}")
    await control("PUT", "/groups/box-3", name="switchbox-new", kind="switchbox")
    await control("PUT", "/machines/new", names={"hostname": "new"}, group_id="box-3")
    await control("PATCH", "/machines/new", group_id="box-1")
    await control("PATCH", "/machines/new", status="NotReady")
    await control("PATCH", "/groups/box-3", name="switchbox-renamed")
    await control("DELETE", "/machines/new")
    await control("DELETE", "/groups/box-3")
    events = (await caller.call("events", query=f"?cursor={cursor}"))["events"]
    assert [event["type"] for event in events] == [
        "group-added",
        "machine-added",
        "machine-moved",
        "machine-updated",
        "group-renamed",
        "machine-removed",
        "group-removed",
    ]
    assert (await caller.call("health"))["status"] == "ok"


async def test_the_simulators_refusals_are_of_the_contracts_form(
    caller: Caller, control: Control
) -> None:
    wrong = {"username": "metax", "password": "not this"}
    await caller.call("login", 401, body=wrong)
    await caller.call("login", 400, body={"user": "metax"})
    await caller.call("topology", 401)
    await caller.login()
    await caller.call("events", 400)
    await caller.call("events", 400, query="?cursor=x&limit=0")
    await caller.call("events", 400, query=f"?cursor=x&limit={'9' * 5000}")
    await caller.call("events", 410, query="?cursor=gone-1")
    await control("PUT", "/faults", kind="busy", seconds=7)
    await caller.call("topology", 503)


def test_every_fault_of_the_simulator_is_in_the_manual() -> None:
    manual = (OPENAPI.parent / "cluster-manager.md").read_text()
    assert [kind for kind in ManagerFaultKind if f"`{kind}`" not in manual] == []


def test_every_kind_of_trouble_that_the_metrics_have_is_in_the_manual() -> None:
    section = (OPENAPI.parent / "cluster-manager.md").read_text().partition("## Metrics\n")[2]
    assert [kind for kind in TroubleKind if f"`{kind}`" not in section] == []


def test_of_many_doubtful_kinds_the_first_are_told_and_the_rest_counted() -> None:
    """A manager may send as many as it likes: they are in every document."""
    groups = tuple(
        ManagedGroup(f"g{n}", GroupName(f"g{n}"), Kind(f"dragonfl{n}"), None) for n in range(500)
    )
    told = doubts(ManagedTopology(groups, ()))
    assert len(told) == MAX_WARNINGS
    assert told[0].startswith("kind 'dragonfl0' is taken as a kind of its own")
    assert told[-1] == f"{500 - MAX_WARNINGS + 1} more warnings of this kind"

"""An object for which this program raises an error costs that object alone."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from master.kube.objects import NODES, NodeObject, parsed
from master.kube.reflector import Changed, Listed, Scope, StoreEvent
from master.object_errors import ObjectKind
from tests.kube.fake_server import FakeServer, fake_server
from tests.kube.plain import kubeconfig
from tests.kube.reflector.reflecting import Reflecting, reflecting
from topo.model.errors import SharedStateError

pytestmark = pytest.mark.virtual_time
BROKEN = "broken"


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with fake_server() as running:
        for name in ("node-1", BROKEN):
            await running.put("nodes", name)
        yield running


def raises_for_one(node: NodeObject) -> NodeObject:
    """Raises what is no sign of a wrong shape."""
    if node.metadata.name == BROKEN and not node.spec.unschedulable:
        raise KeyError(node.metadata.name)
    return node


def set_aside(found: Reflecting) -> set[str]:
    return set(found.reflector.errors.of(ObjectKind.OBJECT))


async def until_known(found: Reflecting, *names: str) -> None:
    await found.ear.until(lambda: set(names) <= found.names)


@pytest.mark.parametrize("where", ["parser", "scope"])
async def test_an_object_that_cannot_be_parsed_is_set_aside_until_it_changes(
    server: FakeServer, tmp_path: Path, where: str
) -> None:
    resource = parsed(NODES, raises_for_one) if where == "parser" else NODES
    scope = Scope[NodeObject](keep=lambda node: raises_for_one(node) is node)
    async with reflecting(
        kubeconfig(tmp_path, server.url), resource, scope if where == "scope" else None
    ) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert found.names == {"node-1"}
        assert set_aside(found) == {f"nodes {BROKEN}"}
        await server.put("nodes", BROKEN, metadata={"labels": {"a": "b"}})
        await server.put("nodes", "node-2")
        await until_known(found, "node-2")
        assert BROKEN not in found.names
        await server.put("nodes", BROKEN, spec={"unschedulable": True})
        await until_known(found, BROKEN)
        assert set_aside(found) == set()
        await server.put("nodes", BROKEN)
        await server.put("nodes", "node-3")
        await until_known(found, "node-3")
        assert BROKEN in found.names, "what was known of it stays"
        assert found.measured("unreadable_objects", resource="nodes") == 1
        await server.delete("nodes", BROKEN)
        await found.ear.until(lambda: BROKEN not in found.names)
        assert set_aside(found) == set()


async def test_a_listener_that_raises_for_one_object_hears_of_the_others(
    server: FakeServer, tmp_path: Path
) -> None:
    """Also of those in a list that it cannot take as a whole; other listeners hear of all."""
    heard: set[str] = set()

    def listener(event: StoreEvent[NodeObject]) -> None:
        for node in event.objects.values() if isinstance(event, Listed) else (event.object,):
            raises_for_one(node)
        if isinstance(event, Changed):
            heard.add(event.object.metadata.name)

    async with reflecting(kubeconfig(tmp_path, server.url)) as found:
        found.reflector.subscribe(listener)
        await until_known(found, "node-1", BROKEN)
        assert heard == {"node-1"}
        assert set_aside(found) == {f"nodes {BROKEN}"}
        await server.put("nodes", BROKEN, metadata={"labels": {"a": "b"}})
        await server.put("nodes", "node-2")
        await until_known(found, "node-2")
        assert heard == {"node-1", "node-2"}
        await server.put("nodes", BROKEN, spec={"unschedulable": True})
        await server.put("nodes", "node-3")
        await until_known(found, "node-3")
        assert heard == {"node-1", "node-2", "node-3", BROKEN}
        assert set_aside(found) == set()


async def test_an_error_of_what_all_share_ends_the_reflector(
    server: FakeServer, tmp_path: Path
) -> None:
    def listener(_: StoreEvent[NodeObject]) -> None:
        raise SharedStateError("the bookings contradict themselves")

    async def reflect() -> None:
        async with reflecting(kubeconfig(tmp_path, server.url)) as found:
            found.reflector.subscribe(listener)
            await found.ear.until(found.task.done)

    with pytest.raises(AssertionError, match="the reflector ended"):
        await reflect()

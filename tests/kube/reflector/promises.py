"""What a reflector promises with any API server: the same on a fake one and on the real one."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from master.kube.objects import CONFIG_MAPS, ConfigMapObject
from master.kube.reading import PAGE
from master.kube.reflector import Scope
from tests.kube.reflector.reflecting import Reflecting, reflecting


class ApiServer(Protocol):
    """An API server with a namespace of ConfigMaps, and what can be done to it."""

    kubeconfig: Path
    namespace: str

    async def put(self, name: str, value: str) -> None:
        """Writes a ConfigMap with that value."""
        ...

    async def delete(self, name: str) -> None:
        """Takes it away."""
        ...

    async def cut(self) -> None:
        """Ends the connections of all watches, in the middle of what they say."""
        ...

    async def forget(self, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Does the rest while no watch can see it, and forgets what happened: answers 410 then."""
        ...


def scope(server: ApiServer) -> Scope[ConfigMapObject]:
    """The ConfigMaps that this file writes: a real namespace has others."""
    return Scope(namespace=server.namespace, keep=lambda each: "value" in each.data)


async def follows_what_comes_changes_and_goes(server: ApiServer) -> None:
    await server.put("a", "1")
    async with reflecting(server.kubeconfig, CONFIG_MAPS, scope(server)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        await server.put("b", "1")
        await server.put("b", "2")
        await server.put("a", "1")
        await server.delete("a")
        await found.ear.until(lambda: len(found.ear.told) == 4)
        assert found.ear.told == [
            ("listed", {"a"}),
            ("changed", "b"),
            ("changed", "b"),
            ("removed", "a"),
        ]
        assert found.reflector.objects[server.namespace, "b"].data == {"value": "2"}


async def lists_in_pages(server: ApiServer) -> None:
    names = {f"page-{number}" for number in range(PAGE + 1)}
    for name in sorted(names):
        await server.put(name, "1")
    async with reflecting(server.kubeconfig, CONFIG_MAPS, scope(server)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        assert found.names == names
        assert found.measured("requests_total", method="GET", code="200") >= 2


async def misses_nothing_that_is_forgotten(server: ApiServer) -> None:
    for name in ("a", "b", "c"):
        await server.put(name, "1")

    async def meanwhile() -> None:
        await server.delete("a")
        await server.put("b", "2")
        await server.put("d", "1")

    async with reflecting(server.kubeconfig, CONFIG_MAPS, scope(server)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        await server.forget(meanwhile)
        await found.ear.until(lambda: found.names == {"b", "c", "d"})
        assert found.reflector.objects[server.namespace, "b"].data == {"value": "2"}
        assert _lists(found) >= 2
        assert found.measured("reconnects_total", resource="configmaps", reason="gone") >= 1
        await server.put("e", "1")
        await found.ear.until(lambda: "e" in found.names)
        assert found.reflector.trouble is None


async def follows_through_any_number_of_cuts(server: ApiServer) -> None:
    async with reflecting(server.kubeconfig, CONFIG_MAPS, scope(server)) as found:
        await found.ear.until(lambda: found.reflector.synced)
        for number in range(20):
            await server.put(f"cut-{number}", "1")
            await server.cut()
            if number % 2:
                await server.delete(f"cut-{number - 1}")
        expected = {f"cut-{number}" for number in range(1, 20, 2)}
        await found.ear.until(lambda: found.names == expected)
        assert _lists(found) == 1, "a cut is no reason to list again"


def _lists(found: Reflecting) -> float:
    return found.measured("relists_total", resource="configmaps")


PROMISES = (
    follows_what_comes_changes_and_goes,
    lists_in_pages,
    misses_nothing_that_is_forgotten,
    follows_through_any_number_of_cuts,
)

"""A second client of the API server that knows what labels and HyperNodes should say, and follows.

It holds one watch of each kind, so that looking costs the API server next to nothing.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Self

from aiohttp import ClientError

from bench.scale import CannotRunError
from tests.e2e.controlplane.client import METADATA_ONLY, Api
from tests.e2e.controlplane.nodes import NODES
from topo.sim.worlds.presets import World

FLY, BOX = "metax-tech.com/dragonfly", "metax-tech.com/switchbox"
HYPERNODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
_LIMIT_S = 900.0
_AGAIN_S = 0.1


class Progressing:
    """Of the objects of a kind, which say what they should; times are of `time.monotonic`."""

    def __init__(self, wanted: Mapping[str, Any], said: Callable[[Any], Any]) -> None:
        self._wanted, self._said = wanted, said
        self.right: set[str] = set()
        self.wrong: list[str] = []
        """Names of objects that said something else than nothing or what they should."""
        self.whole_s: float | None = None
        """When all said what they should."""

    def see(self, each: Any, *, is_there: bool = True) -> None:
        """An object as it is now, or was until it was deleted."""
        name, said = each["metadata"]["name"], self._said(each) if is_there else None
        if said == self._wanted.get(name):
            self.right.add(name)
        else:
            self.right.discard(name)
            if said:
                self.wrong.append(name)
        if self.whole_s is None and len(self.right) == len(self._wanted):
            self.whole_s = time.monotonic()


class Witness:
    """Follows nodes and HyperNodes inside `async with`."""

    def __init__(self, api: Api, world: World) -> None:
        self._api = api
        places = {
            str(host.name): (str(host.dragonfly), str(host.switchbox)) for host in world.nodes
        }
        members: dict[str, set[str]] = {}
        for name, (fly, box) in places.items():
            members.setdefault(fly, set()).add(name)
            members.setdefault(box, set()).add(fly)
        self.nodes = Progressing({n: {FLY: f, BOX: b} for n, (f, b) in places.items()}, _labels)
        self.hypernodes = Progressing(members, _members)
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        listed = asyncio.Event(), asyncio.Event()
        kinds = (
            (NODES, METADATA_ONLY, self.nodes),
            (HYPERNODES, "application/json", self.hypernodes),
        )
        self._tasks = [
            asyncio.create_task(self._follow(path, accept, seen, ready))
            for (path, accept, seen), ready in zip(kinds, listed, strict=True)
        ]
        for each in listed:
            await each.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def until(
        self, holds: Callable[[], bool], what: str, must_live: Callable[[], None] = lambda: None
    ) -> None:
        """Return when `holds()`. Raise `CannotRunError` after a quarter hour.

        `must_live` raises if a master that should bring it about has ended.
        """
        end_s = time.monotonic() + _LIMIT_S
        while not holds():
            for task in self._tasks:
                if task.done():
                    task.result()
            must_live()
            if time.monotonic() > end_s:
                told = f"{len(self.nodes.right)} nodes, {len(self.hypernodes.right)} HyperNodes"
                raise CannotRunError(f"{what}: not after {_LIMIT_S:g} s; right are {told}")
            await asyncio.sleep(0.02)

    @property
    def wrong(self) -> int:
        """How often an object said something wrong."""
        return len(self.nodes.wrong) + len(self.hypernodes.wrong)

    async def until_whole(self, must_live: Callable[[], None] = lambda: None) -> float:
        """Return when all objects were right, of `time.monotonic`."""
        await self.until(
            lambda: None not in (self.nodes.whole_s, self.hypernodes.whole_s), "right", must_live
        )
        return max(self.nodes.whole_s or 0.0, self.hypernodes.whole_s or 0.0)

    async def _follow(
        self, path: str, accept: str, seen: Progressing, ready: asyncio.Event
    ) -> None:
        while True:
            with suppress(ClientError, OSError):
                found = await self._api.call("GET", path, accept=accept)
                for each in found["items"] or ():
                    seen.see(each)
                ready.set()
                version = found["metadata"]["resourceVersion"]
                async with self._api.watch(path, resourceVersion=version) as events:
                    async for event in events:
                        if event["type"] == "ERROR":
                            break
                        seen.see(event["object"], is_there=event["type"] != "DELETED")
            await asyncio.sleep(_AGAIN_S)


def _labels(node: Any) -> dict[str, str]:
    labels = node["metadata"].get("labels", {})
    return {key: labels[key] for key in (FLY, BOX) if key in labels}


def _members(hypernode: Any) -> set[str]:
    return {each["selector"]["exactMatch"]["name"] for each in hypernode["spec"]["members"]}

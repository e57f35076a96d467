"""A reflector at work, and an ear for what it tells."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import prometheus_client as prom

from master.kube.client import KubeClient
from master.kube.credentials.config import KubeConfig
from master.kube.metrics import KubeMetrics
from master.kube.objects import NODES, Resource
from master.kube.reflector import Changed, Listed, Reflector, Scope, StoreEvent
from tests.support.waiting import CEILING_S


@dataclass(slots=True)
class Ear:
    """What a listener was told, in order: `(kind, names)`."""

    told: list[tuple[str, Any]] = field(default_factory=list)
    _came: asyncio.Event = field(default_factory=asyncio.Event)

    def __call__(self, what: StoreEvent[Any]) -> None:
        if isinstance(what, Listed):
            self.told.append(("listed", {name for _, name in what.objects}))
        else:
            kind = "changed" if isinstance(what, Changed) else "removed"
            self.told.append((kind, what.object.metadata.name))
        self._came.set()

    async def until(self, holds: Callable[[], bool]) -> None:
        """Returns when it holds, asked again after each thing that is told."""
        async with asyncio.timeout(CEILING_S * 10):
            while not holds():
                self._came.clear()
                await self._came.wait()


@dataclass(slots=True)
class Reflecting:
    """A reflector that runs."""

    reflector: Reflector[Any]
    ear: Ear
    registry: prom.CollectorRegistry
    task: asyncio.Task[None]

    @property
    def names(self) -> set[str]:
        """The names of what is known."""
        return {name for _, name in self.reflector.objects}

    def measured(self, name: str, **labels: str) -> float:
        """The value of a metric."""
        value = self.registry.get_sample_value(f"topo_master_kube_{name}", labels)
        assert value is not None, name
        return value


@asynccontextmanager
async def reflecting(
    path: Path, resource: Resource[Any] = NODES, scope: Scope[Any] | None = None
) -> AsyncIterator[Reflecting]:
    """A reflector by that kubeconfig file, which must still run at the end."""
    registry, loop = prom.CollectorRegistry(), asyncio.get_running_loop()
    metrics = KubeMetrics(registry)
    client = KubeClient(KubeConfig(kubeconfig=path), observe=metrics.count_request, clock=loop.time)
    await client.open()
    reflector = Reflector(
        client,
        resource,
        metrics=metrics,
        scope=scope or Scope(),
        clock=loop.time,
        rng=random.Random(7),  # noqa: S311 - the same waits each time
    )
    ear = Ear()
    reflector.subscribe(ear)
    task = asyncio.create_task(reflector.run())
    try:
        yield Reflecting(reflector, ear, registry, task)
        assert not task.done(), "the reflector ended"
    finally:
        task.cancel()
        await asyncio.wait([task])
        await client.close()

"""A simulated cluster: its API, its controllers, and the loop that lets them act.

Nothing is polled: a change of any object wakes the controllers, which act in a fixed order until
nothing changes any more. Only a webhook that does not answer is asked again after `RETRY_S`.
"""

import asyncio
import datetime as dt
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from topo.sim.kubernetes.apiserver.admission import Services, Webhooks
from topo.sim.kubernetes.apiserver.api import Api, Document
from topo.sim.kubernetes.apiserver.pod_rules import bind
from topo.sim.kubernetes.apiserver.resources import ServedKinds
from topo.sim.kubernetes.apiserver.store import ObjectChange, ObjectStore
from topo.sim.kubernetes.jobs import JobController, Kubelets, Retention
from topo.sim.kubernetes.scheduler import Bound, SchedulerCache, Unschedulable

RETRY_S = 1.0
BOOKMARK_S = 50.0
"""kube-apiserver sends bookmarks about once a minute."""


def rfc3339_now() -> str:
    """Return the time as objects of Kubernetes have it."""
    return f"{dt.datetime.now(dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def random_uid() -> str:
    """Return a uid that no object has had."""
    return str(uuid.uuid4())


@dataclass(slots=True)
class SimulatedCluster:
    """All of it; `run` lets it act."""

    services: Services
    store: ObjectStore = field(default_factory=lambda: ObjectStore(rfc3339_now, random_uid))
    api: Api = field(init=False)
    webhooks: Webhooks = field(init=False)
    kubelets: Kubelets = field(init=False)
    _jobs: JobController = field(init=False)
    _retention: Retention = field(init=False)
    _cache: SchedulerCache = field(default_factory=SchedulerCache)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def __post_init__(self) -> None:
        self.webhooks = Webhooks(self.store, self.services)
        self.api = Api(self.store, ServedKinds(), self.webhooks.admit)
        self._jobs, self._retention = JobController(self.api), Retention(self.store)
        self.kubelets = Kubelets(self.store, _call_later)

    def begin(self) -> None:
        """Take in the objects there are, and follow their changes from now on."""
        for (collection, name), stored in list(self.store.objects.items()):
            self._observe(
                ObjectChange(self.store.version, "ADDED", collection, name, stored.document)
            )
            if stored.document.get("status", {}).get("phase") == "Running":
                self.kubelets.watch_end((collection, name), stored.document)
        self.store.listeners.append(self._observe)

    def add_missing(self, collection: str, document: Document, name: str) -> None:
        """Create an object unless an earlier run kept one of its name."""
        if (collection, name) not in self.store.objects:
            self.store.create(collection, document, "simulator")

    def _observe(self, change: ObjectChange) -> None:
        for each in (self._cache, self._jobs, self.kubelets, self._retention):
            each.observe(change)
        self._changed.set()

    async def run(self) -> None:
        """Act until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            is_behind = await self._jobs.step()
            self._schedule()
            self.kubelets.step()
            self._retention.step()
            if is_behind:
                asyncio.get_running_loop().call_later(RETRY_S, self._changed.set)

    async def send_bookmarks(self) -> None:
        """Tell every watch from time to time how far it is, until cancelled."""
        while True:
            await asyncio.sleep(BOOKMARK_S)
            self.store.bookmark()

    def _schedule(self) -> None:
        for decision in self._cache.decide():
            stored = self.store.find(*decision.pod)
            if isinstance(decision, Bound):
                bind(stored.document, {"target": {"name": decision.node}}, self.store.now())
            else:
                _refuse(stored.document, decision, self.store.now())
            self.store.record(*decision.pod)


def _call_later(seconds: float, act: Callable[[], None]) -> object:
    return asyncio.get_running_loop().call_later(seconds, act)


def _refuse(pod: Document, decision: Unschedulable, now: str) -> None:
    """Write why a pod is not bound; its nomination ends, as it does with kube-scheduler."""
    status: dict[str, Any] = pod["status"]
    status.pop("nominatedNodeName", None)
    others = [each for each in status.get("conditions", ()) if each["type"] != "PodScheduled"]
    refused = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": decision.why,
        "lastTransitionTime": now,
    }
    status["conditions"] = [*others, refused]

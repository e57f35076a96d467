"""Audit of gangs without room: counts the capacity again, independently of the engine.

If the audit finds room, the engine is wrong, unless the room became free just then. So only room
that is found twice in a row, a minute apart, counts.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice

import prometheus_client as prom
import structlog

from master.booking.state import BookingState
from master.kube.gang_pod import ClusterPod
from master.kube.store import Store
from topo.gangs.decisions.capacity_recount import Seen, certainly_fits
from topo.gangs.machine.gang import Gang, GangId
from topo.kit.metrics import gauge
from topo.kit.threads import off_loop
from topo.model.ids import NodeName
from topo.placement.job.request import Request

RECOUNT_S = 60.0
MOST = 10
"""Different requests that are counted in one look, a fraction of a second each on 10,000 nodes."""

_log = structlog.get_logger(__name__)


class NoFitAudit:
    """Runs every minute; `waiting` returns the gangs that are reported to have no room."""

    def __init__(
        self,
        waiting: Callable[[], Mapping[GangId, Gang]],
        pods: Store[ClusterPod],
        state: BookingState,
        registry: prom.CollectorRegistry,
    ) -> None:
        self._waiting, self._pods, self._state = waiting, pods, state
        self._found: frozenset[GangId] = frozenset()
        self.denied: frozenset[GangId] = frozenset()
        """The gangs for which both of the last two looks found room."""
        gauge(registry, "topo_master_gangs_denied_room", lambda: len(self.denied))

    async def run(self) -> None:
        """Run the audit every minute until cancelled."""
        while True:
            await asyncio.sleep(RECOUNT_S)
            await self.look()

    async def look(self) -> None:
        """Run the audit once, in a thread, on copies."""
        waiting = self._waiting()
        found = await off_loop(self._prepare_search(waiting)) if waiting else frozenset[GangId]()
        denied = found & self._found & self._waiting().keys()
        for gang_id in denied - self.denied:
            fix = "report it with `topo why` of it and /v1/topology; a restart of the master helps"
            _log.error("a gang waits although there is room", gang=gang_id, fix=fix)
        self._found, self.denied = found, denied

    def _prepare_search(self, waiting: Mapping[GangId, Gang]) -> Callable[[], frozenset[GangId]]:
        """Return a function that finds the gangs with room, from data that does not change."""
        forest, cluster, policy = self._state.forest, dict(self._state.cluster), self._state.policy
        held = [hold.gpus for hold in self._state.holds()]
        pods = tuple(self._pods.objects.values())
        requests = {gang_id: self._on_nodes_with_room(gang) for gang_id, gang in waiting.items()}

        def find_gangs_with_room() -> frozenset[GangId]:
            used = Counter[NodeName]()
            for pod in pods:
                if (node := pod.node or pod.nominated) is not None:
                    used[node] += pod.gpus
            for each in held:
                used.update(each)
            seen = Seen(forest=forest, cluster=cluster, used=used, policy=policy)
            asked = islice(dict.fromkeys(requests.values()), MOST)
            fit = {request for request in asked if certainly_fits(request, seen)}
            return frozenset(gang_id for gang_id, each in requests.items() if each in fit)

        return find_gangs_with_room

    def _on_nodes_with_room(self, gang: Gang) -> Request:
        """Return the request without the nodes that other resources than GPUs make uncertain."""
        tight = self._state.room.tight(gang.takes, gang.request.gpus_per_pod)
        eligible = gang.request.eligible
        exclude = eligible.exclude.union(tight)
        return replace(gang.request, eligible=replace(eligible, exclude=exclude))

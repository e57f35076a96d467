"""Requests whose leading master is killed at a write: `make e2e-provisioning ROUNDS=3`.

A life is a request of three pairs and a job of six, of which the cluster has eight: only one of
both fits at a time. The leader is killed at one write, which arrives or does not; then the job
comes, and the other master brings both to their end. Read again and again meanwhile: no node is
booked and taken at once, and what is Provisioned is whole.
"""

import argparse
import asyncio
import re
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.provisioning.write_door import Write, WriteDoor, write_door
from tests.e2e.scheduling.admission_master import WITH_POD_GROUPS
from tests.e2e.scheduling.asking import batch_job, nodes_of
from tests.e2e.scheduling.elected_masters import ElectedMasters, elected_admission
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import BATCH_JOBS, GPU, PODS, WORDS, are_whole, is_reviewed
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

CONTROLLERS = "--controllers=labels,nomination,provisioning"
GROUP = "autoscaling.x-k8s.io"
REQUESTS = f"/apis/{GROUP}/v1/namespaces/default/provisioningrequests"
TEMPLATES = "/api/v1/namespaces/default/podtemplates"
PODS_OF_REQUEST, PODS_OF_RIVAL = 6, 12
LONG_S, SHORT_S = 600, 6
_LOOK_S = 0.05


def true(request: Any) -> dict[str, float]:
    """The conditions of a request that hold, and since when, in Unix time."""
    found = request.get("status", {}).get("conditions", ())
    return {
        each["type"]: datetime.fromisoformat(each["lastTransitionTime"]).timestamp()
        for each in found
        if each["status"] == "True"
    }


def booked(request: Any) -> list[str]:
    """The nodes that a request says are its own, in the order of ranks."""
    details = request.get("status", {}).get("provisioningClassDetails", {})
    return [node for node in re.split("[,;]", details.get("nodes", "")) if node]


def _status(condition: str) -> Callable[[Write], bool]:
    """Whether a write is the first that says this of a request."""

    def is_it(write: Write) -> bool:
        is_status = write["resource"]["resource"] == "provisioningrequests"
        new, old = (true(write.get(name) or {}) for name in ("object", "oldObject"))
        return is_status and condition in new and condition not in old

    return is_it


def _after(first: Callable[[Write], bool], name: str) -> Callable[[Write], bool]:
    """Whether a write is the first of ConfigMaps with this prefix after another write."""
    has_come = False

    def is_it(write: Write) -> bool:
        nonlocal has_come
        has_come = has_come or first(write)
        return has_come and write["name"].startswith(name)

    return is_it


MOMENTS: Mapping[str, Callable[[], Callable[[Write], bool]]] = {
    "Accepted": lambda: _status("Accepted"),
    "booking": lambda: _after(_status("Accepted"), "topo-master-state-about"),
    "Provisioned": lambda: _status("Provisioned"),
    "BookingExpired": lambda: _status("BookingExpired"),
}
"""The writes of a request's life, in their order; bookings are kept with the state."""


@dataclass
class Lives:
    """Two masters on a cluster, and a judge who looks all the time."""

    api: Api
    world: World
    masters: ElectedMasters
    door: WriteDoor
    looks: int = 0
    unreviewed: int = 0
    """Jobs whose review went to the dead master: they would get no groups, and are made again."""
    violations: list[str] = field(default_factory=list)
    _count: int = 0

    async def live(self, moment: str, *, arrives: bool) -> float:
        """Live through one kill; return the seconds that it took."""
        began_s = time.monotonic()
        await eventually(self._are_both_up)
        self._count += 1
        request, rival = f"request-{self._count}", f"rival-{self._count}"
        is_short = moment == "BookingExpired"
        self.door.await_write(MOMENTS[moment](), self.masters.kill_leader, passes=arrives)
        await self._ask(request, SHORT_S if is_short else LONG_S)
        await eventually(lambda: self.door.has_acted)
        await self._submit(rival)
        if is_short:
            await eventually(lambda: self._is(request, "BookingExpired"))
            since = true(await self.api.get(f"{REQUESTS}/{request}"))
            if since["BookingExpired"] < since["Provisioned"] + SHORT_S:
                self.violations.append(f"{request} ended too early: {since}")
        else:
            await eventually(lambda: self._has_either(request, rival))
            if not await self._is(request, "Provisioned"):
                await self._end(rival)
                await eventually(lambda: self._is(request, "Provisioned"))
                rival = f"{rival}-again"
                await self._submit(rival)
        await self.api.delete(f"{REQUESTS}/{request}")
        await eventually(lambda: self._is_bound(rival))
        if not are_whole(self.world, "dragonfly", await nodes_of(self.api, rival), 2):
            self.violations.append(f"{rival} is split: {await nodes_of(self.api, rival)}")
        await self._end(rival)
        self.masters.start()
        return time.monotonic() - began_s

    async def judge(self) -> None:
        """Look until cancelled. A pod counts that was bound before and after a request was read."""
        while True:
            before = await self._taken()
            requests = await self.api.items(REQUESTS)
            after = await self._taken()
            owners = {node: pod for node, pod in before.items() if after.get(node) == pod}
            for each in requests:
                owners = self._judged(each, owners)
            self.looks += 1
            await asyncio.sleep(_LOOK_S)

    def _judged(self, request: Any, owners: dict[str, str]) -> dict[str, str]:
        """Return the owners of nodes with this request as one of them."""
        name, since, nodes = request["metadata"]["name"], true(request), booked(request)
        is_over = {"BookingExpired", "CapacityRevoked", "Failed"} & since.keys()
        seconds = int(request["spec"]["parameters"]["BookingSeconds"])
        if "Provisioned" not in since or is_over or time.time() >= since["Provisioned"] + seconds:
            return owners
        twice = [f"{node} of {owners[node]}" for node in nodes if node in owners]
        if twice:
            self.violations.append(f"{name} has booked {', '.join(twice)}, too")
        if len({*nodes}) != PODS_OF_REQUEST or not are_whole(self.world, "dragonfly", nodes, 2):
            self.violations.append(f"{name} is Provisioned with {nodes}")
        return owners | dict.fromkeys(nodes, name)

    async def _taken(self) -> dict[str, str]:
        """The pod on each node."""
        pods = await self.api.items(PODS)
        return {
            each["spec"]["nodeName"]: each["metadata"]["name"]
            for each in pods
            if "nodeName" in each["spec"]
        }

    async def _ask(self, name: str, booking_s: int) -> None:
        container = {"name": "main", "image": "a", "resources": {"limits": {GPU: 8}}}
        template = {
            "metadata": {"annotations": {WORDS.size: "16"}},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        await self.api.create(TEMPLATES, {"metadata": {"name": name}, "template": template})
        spec = {
            "provisioningClassName": "whole-group.metax-tech.com",
            "parameters": {"BookingSeconds": str(booking_s)},
            "podSets": [{"podTemplateRef": {"name": name}, "count": PODS_OF_REQUEST}],
        }
        kind = {"apiVersion": f"{GROUP}/v1", "kind": "ProvisioningRequest"}
        await self.api.create(REQUESTS, {**kind, "metadata": {"name": name}, "spec": spec})

    async def _submit(self, job: str) -> None:
        """Create a job that a master reviewed; it has no pods before that is sure."""
        document = batch_job(job, PODS_OF_RIVAL, 16)
        document["spec"]["suspend"] = True
        while not is_reviewed(await self.api.create(BATCH_JOBS, document)):
            self.unreviewed += 1
            await self.api.delete(f"{BATCH_JOBS}/{job}")
            await asyncio.sleep(_LOOK_S)
        await self.api.merge(f"{BATCH_JOBS}/{job}", {"spec": {"suspend": False}})

    async def _end(self, job: str) -> None:
        await self.api.delete(f"{BATCH_JOBS}/{job}")

        async def is_gone() -> bool:
            return not await nodes_of(self.api, job)

        await eventually(is_gone)

    async def _is(self, request: str, condition: str) -> bool:
        return condition in true(await self.api.get(f"{REQUESTS}/{request}"))

    async def _is_bound(self, job: str) -> bool:
        nodes = await nodes_of(self.api, job)
        return len(nodes) == PODS_OF_RIVAL and all(nodes)

    async def _has_either(self, request: str, rival: str) -> bool:
        return await self._is(request, "Provisioned") or await self._is_bound(rival)

    async def _are_both_up(self) -> bool:
        return self.masters.are_up and await self.masters.has_leader()


@asynccontextmanager
async def lives(cluster: Cluster, api: Api, world: World, home: Path) -> AsyncIterator[Lives]:
    """Two masters that lead in turn, judged until the block ends."""
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with elected_admission(
        cluster, api, home, CONTROLLERS, rendering=WITH_POD_GROUPS
    ) as masters:
        account = f"system:serviceaccount:{masters.namespace}:topo-master"
        async with write_door(cluster, api, account) as door:
            found = Lives(api, world, masters, door)
            judge = asyncio.create_task(found.judge())
            try:
                yield found
            finally:
                judge.cancel()
                await asyncio.gather(judge, return_exceptions=True)


async def _run(cluster: Cluster, home: Path, rounds: int) -> list[str]:
    world = made(2, 4, 2, 8, stem="sample")
    await cluster.start(world)
    async with cluster.api() as api, lives(cluster, api, world, home) as found:
        for number in range(rounds):
            for moment in MOMENTS:
                for arrives in (False, True):
                    took_s = await found.live(moment, arrives=arrives)
                    said = "arrives" if arrives else "is lost"
                    sys.stdout.write(f"{number + 1}: {moment} {said}: {took_s:.0f} s\n")
                    sys.stdout.flush()
        sys.stdout.write(
            f"{found.masters}; jobs were made again {found.unreviewed} times, as no master had"
            f" reviewed them; looked {found.looks} times\n"
        )
        return found.violations


def main() -> int:
    """Run on a cluster of its own; 1 where anything was violated."""
    parser = argparse.ArgumentParser("python -m tests.e2e.provisioning.lives")
    parser.add_argument("--rounds", type=int, default=1)
    rounds = parser.parse_args().rounds
    home = Path(tempfile.mkdtemp(prefix="topo-provisioning-"))
    with own_cluster(home, kueue={}) as cluster:
        violations = asyncio.run(_run(cluster, home, rounds))
    sys.stdout.write("".join(f"violated: {each}\n" for each in violations))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

"""Random lives of several namespaces: late jobs, requests, quotas, leaders that die."""

import asyncio
import random
from collections import Counter
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from master.controllers.nomination.gangs.members import AHEAD_S
from master.kube.objects import PODS, QUOTAS
from master.kube.schedulers.provisioning import POD_TEMPLATES, PROVISIONING_REQUESTS
from tests.controllers.nomination.objects import GPU, WORDS, gated_pod
from tests.controllers.provisioning.request_world import (
    RequestCluster,
    RequestMaster,
    server_now,
    stamp,
)
from topo.gangs.machine.gang import GangId
from topo.gangs.stamp import Stamp
from topo.model.conditions.gang_states import GangState
from topo.placement.booking.holds import HoldsMemory

pytestmark = pytest.mark.virtual_time
SHARE, SHARED = 0.25, 16
"""A quarter of 64 GPUs: one dragonfly of two nodes."""
QUOTAS_OF = {"lean": 24, "rich": 64}
"""GPUs that the ResourceQuota of a namespace allows; the others have none."""
SEEN_S = 1.0
"""So long after a write the master has seen it, and done what follows."""
NAMESPACES = ("evil", "good", *QUOTAS_OF)
Job = tuple[str, str]


@dataclass
class Tenants:
    """What the users of all namespaces do, and what nobody may ever see."""

    rng: random.Random
    cluster: RequestCluster = field(default_factory=RequestCluster)
    jobs: dict[Job, int] = field(default_factory=dict)
    """Late jobs with their numbers of pods."""
    pods: dict[tuple[str, str, int], Any] = field(default_factory=dict)
    requests: set[Job] = field(default_factory=set)
    made: int = 0
    kept_before: Counter[str] = field(default_factory=Counter)
    seen: dict[str, list[tuple[float, int, int]]] = field(default_factory=dict)
    """When what a namespace may keep was how much, and how many pods it had lost by then."""
    lost: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        for namespace in NAMESPACES:
            body = {"metadata": {"annotations": {}}, "spec": {"containers": [container]}}
            at = {"namespace": namespace}
            self.cluster.api.add(POD_TEMPLATES, "worker", metadata=at, template=body)
        for namespace, hard in QUOTAS_OF.items():
            amounts = {f"requests.{GPU}": str(hard)}
            used = dict.fromkeys(amounts, "0")
            self.cluster.api.add(
                QUOTAS,
                "gpus",
                metadata={"namespace": namespace},
                spec={"hard": amounts},
                status={"hard": amounts, "used": used},
            )

    def master(self, kept: HoldsMemory | None) -> AbstractAsyncContextManager[RequestMaster]:
        return self.cluster.master(kept=kept, ahead_share=SHARE, awaits_promises=True)

    # What they do

    def act(self) -> None:
        """One of their acts."""
        act = self.rng.choice(
            ["job", "job", "pod", "pod", "bind", "bind", "end", "ask", "take back", "lose", "rest"]
        )
        namespace = self.rng.choice(NAMESPACES)
        if act == "job":
            self.made += 1
            job = namespace, f"j{self.made}"
            self.jobs[job] = self.rng.randint(1, 8)
            self.add_pod(job, 0)
        elif act == "pod" and self.jobs:
            job = self.rng.choice(sorted(self.jobs))
            there = {rank for *of, rank in self.pods if tuple(of) == job}
            missing = [rank for rank in range(self.jobs[job]) if rank not in there]
            if missing and there and self._runs(job):
                self.add_pod(job, missing[0])
        elif act == "bind":
            self.bind()
        elif act == "end" and self.jobs:
            self.end(self.rng.choice(sorted(self.jobs)))
        elif act == "ask":
            self.made += 1
            self.ask((namespace, f"r{self.made}"), self.rng.randint(1, 6))
        elif act == "take back" and self.requests:
            self.take_back(self.rng.choice(sorted(self.requests)))
        elif act == "lose" and self.pods:
            key = self.rng.choice(sorted(self.pods))
            self.remove_pod(key)
            self.lost[key[0]] += 1

    def add_pod(self, job: Job, rank: int) -> None:
        namespace, name = job
        if namespace in QUOTAS_OF and (self._used(namespace) + 1) * 8 > QUOTAS_OF[namespace]:
            return  # the API server refuses it
        asked = {WORDS.is_late: "true"}
        made = gated_pod(rank, Stamp(self.jobs[job], 0, 2), uid=f"{namespace}-{name}", **asked)
        owner = made["metadata"]["ownerReferences"][0]
        made["metadata"] |= {
            "namespace": namespace,
            "ownerReferences": [{**owner, "name": name}],
            "creationTimestamp": stamp(server_now()),
        }
        self.pods[namespace, name, rank] = self.cluster.api.add(
            PODS, f"{name}-{rank}", **made, status={"phase": "Pending"}
        )
        self._count(namespace)

    def remove_pod(self, key: tuple[str, str, int]) -> None:
        namespace, name, rank = key
        del self.pods[key]
        self.cluster.api.remove(PODS, f"{name}-{rank}", namespace)
        self._count(namespace)

    def bind(self) -> None:
        for (namespace, name, rank), pod in self.pods.items():
            spec, status = pod.document["spec"], pod.document["status"]
            node = status.get("nominatedNodeName")
            if not spec["schedulingGates"] and "nodeName" not in spec and node:
                spec["nodeName"] = node
                status["phase"] = "Running"
                self.cluster.api.touch(f"/api/v1/namespaces/{namespace}/pods", f"{name}-{rank}")

    def end(self, job: Job) -> None:
        del self.jobs[job]
        for key in [each for each in self.pods if each[:2] == job]:
            self.remove_pod(key)

    def ask(self, request: Job, pods: int) -> None:
        self.requests.add(request)
        self.cluster.api.add(
            PROVISIONING_REQUESTS,
            request[1],
            metadata={"namespace": request[0], "creationTimestamp": stamp(server_now())},
            spec={
                "provisioningClassName": WORDS.provisioning_class,
                "podSets": [{"podTemplateRef": {"name": "worker"}, "count": pods}],
                "parameters": {"gpu-group-size": "16"},
            },
        )

    def take_back(self, request: Job) -> None:
        self.requests.remove(request)
        self.cluster.api.remove(PROVISIONING_REQUESTS, request[1], request[0])

    def _runs(self, job: Job) -> bool:
        """Whether its controller makes further pods: all that it made run."""
        made = [pod for key, pod in self.pods.items() if key[:2] == job]
        return all("nodeName" in pod.document["spec"] for pod in made)

    def _used(self, namespace: str) -> int:
        return sum(key[0] == namespace for key in self.pods)

    def _count(self, namespace: str) -> None:
        """Kubernetes counts what pods have of the quota."""
        if namespace not in QUOTAS_OF:
            return
        at = f"/api/v1/namespaces/{namespace}/resourcequotas"
        used = self.cluster.api.objects[at, "gpus"].document["status"]["used"]
        used[f"requests.{GPU}"] = str(8 * self._used(namespace))
        self.cluster.api.touch(at, "gpus")

    # What must hold

    def judge(self, master: RequestMaster) -> None:
        """What a namespace keeps grows only within its limit, and all GPUs add up.

        The place of a pod that is lost is kept for the next one: it was the pod's own before.
        """
        if not master.leader.nomination.is_placing:
            return  # it has not read the gangs yet
        kept, now_s = held_ahead(master), server_now()
        for namespace in NAMESPACES:
            quota = QUOTAS_OF.get(namespace)
            most = SHARED if quota is None else quota - 8 * self._used(namespace)
            seen = self.seen.setdefault(namespace, [])
            seen.append((now_s, most, self.lost[namespace]))
            lately = [each for each in seen if now_s - each[0] <= SEEN_S] or seen[-1:]
            limit = max(most for _, most, _ in lately)
            of_lost = 8 * (self.lost[namespace] - lately[0][2])
            grew = kept[namespace] - self.kept_before[namespace]
            is_within = kept[namespace] <= limit or grew <= of_lost
            assert grew <= 0 or is_within, f"{namespace} keeps {kept[namespace]} GPUs of {limit}"
        self.kept_before = kept
        for counts in master.leader.placements.state.usage().by_type().values():
            assert counts.used + counts.held + counts.free + counts.closed == counts.gpus


def held_ahead(master: RequestMaster) -> Counter[str]:
    """What holds of each namespace await, less what is for pods that wait: counted apart."""
    state, found = master.leader.placements.state, Counter[str]()
    known = master.leader.nomination.reader.known
    of_gang: Counter[str] = Counter()
    for hold in state.holds():
        awaited = sum(state.bookings.awaited(hold.id).values())
        kind, whose, *more = (hold.wish.key or "").split("/")
        if kind == "gang":
            of_gang[whose] += awaited
        else:
            found[more[0]] += awaited
    for gang_id, awaited in of_gang.items():
        gang = known.get(GangId(gang_id))
        if gang is None:
            continue
        pods = [each.uid for each in gang.members if each.live and not each.is_expected]
        booked = {pod.uid for pod in state.bookings.pods(pods)}
        found[gang.namespace] += max(0, awaited - 8 * (len(pods) - len(booked)))
    return found


async def live(seed: int, acts: int) -> None:
    """One life; then all end, and one late job in each namespace gets what it may have."""
    rng = random.Random(seed)  # noqa: S311
    tenants, memory, done = Tenants(rng), None, 0
    while done < acts:
        async with tenants.master(memory) as master:
            for _ in range(rng.randint(10, 40)):
                done += 1
                tenants.act()
                for _ in range(rng.choice([1, 1, 4, 20])):
                    await asyncio.sleep(rng.choice([0.01, 0.05, 0.3]))
                    tenants.judge(master)
                if rng.random() < 0.02:
                    await asyncio.sleep(AHEAD_S / 2)
            memory = kept_by(master, rng)
    for job in tuple(tenants.jobs):
        tenants.end(job)
    for request in tuple(tenants.requests):
        tenants.take_back(request)
    async with AsyncExitStack() as stack:
        master = await stack.enter_async_context(tenants.master(memory))
        for namespace in NAMESPACES:
            tenants.jobs[namespace, "last"] = 2
            tenants.add_pod((namespace, "last"), 0)
        for _ in range(60):
            await asyncio.sleep(0.5)
            tenants.bind()
            tenants.judge(master)
        states = {gang.namespace: s.state for gang, s in master.leader.nomination.view.all()}
        assert states == dict.fromkeys(NAMESPACES, GangState.PODS_MISSING), "it has its places"
        assert all("nodeName" in pod.document["spec"] for pod in tenants.pods.values())


def kept_by(master: RequestMaster, rng: random.Random) -> HoldsMemory | None:
    """What the next leader has of the holds: mostly all of them, sometimes nothing."""
    state = master.leader.placements.state
    return state.persistent_state() if rng.random() < 0.7 else None


@pytest.mark.parametrize("seed", range(6))
async def test_in_any_life_nobody_is_beyond_the_budget_and_nobody_waits_for_ever(seed: int):
    await live(seed, acts=60)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
async def test_in_many_longer_lives_nobody_is_beyond_the_budget(seed: int):
    await live(seed, acts=200)

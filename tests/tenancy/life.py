"""A random life of a shared cluster: victims, a hostile tenant, masters that die, a judge."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any

from master.extender.plans import ExtenderPlans, PodPlan
from master.kube.gang_pod import GangPod
from tests.controllers.nomination.masters import Following, InFlight, Leader, Way, leading
from tests.controllers.nomination.objects import parse
from tests.tenancy.cluster import (
    EVIL,
    GPUS,
    SHAPES,
    VICTIM_PRIORITY,
    SharedCluster,
    gpus_of,
    is_gated,
    is_live,
    node_of,
    takes,
)
from tests.tenancy.jobs import KINDS, Document, Wish, unstamped_job
from tests.tenancy.judge import (
    JobKey,
    Ledger,
    Standing,
    first_delayed,
    flaws,
    lost_places,
    standing,
)
from tests.tenancy.tenant import Tenant
from topo.placement.booking.holds import HoldsMemory

NAMESPACES = ("jobs", "lab")
ALL_KINDS = {**KINDS, "unstamped": unstamped_job}
AHEAD_SHARE = 0.25
"""What a namespace may keep for pods that it has not: the default of the product."""
STEPS = 20
"""Things that happen in a life before the tenant rests."""


COUNTED_S = 2.0
"""So long after it has begun a master has counted all pods."""


class BrokenPromiseError(AssertionError):
    """A promise was broken: what, and what was done before."""


class SharedLife:
    """One life; every choice is drawn from the seed."""

    kept: HoldsMemory | None
    master: Leader
    way: Way

    def __init__(self, seed: int, *, is_tame: bool = False) -> None:
        self.seed, self.random = seed, random.Random(seed)  # noqa: S311 - a seed for a test
        self.cluster = SharedCluster(SHAPES[seed % len(SHAPES)](), self.random)
        self.is_equal = self.random.random() < 0.3
        """Whether the tenant's pods have the priority of the others."""
        self.tenant = Tenant(self.cluster, self.random, self._holds, self._gangs, is_tame=is_tame)
        self.tenant.priority = VICTIM_PRIORITY if self.is_equal else 0
        self.log: list[str] = []
        self.faults: list[Mapping[str, Any]] = []
        self.kept = None
        self.names = 0
        self.deaths = 0
        self.ledger = Ledger()
        self.before: dict[JobKey, Standing] = {}
        self._stack = AsyncExitStack()
        self._watches = len(self.cluster.api.watches)

    def _holds(self) -> list[str]:
        return [hold.id for hold in self.master.placements.state.holds()]

    def booked(self) -> Mapping[str, Mapping[str, int]]:
        """The GPUs of each node by who has them."""
        booked: Any = self.master.placements.state.capacity.bookings()
        found: Mapping[str, Mapping[str, int]] = booked
        return found

    def _gangs(self) -> list[str]:
        return [*self.master.nomination.reader.known]

    # The masters

    async def begin(self) -> None:
        """A master leads, with the holds that were kept."""
        self.cluster.clock = asyncio.get_running_loop().time
        asyncio.get_running_loop().set_exception_handler(lambda _, fault: self.faults.append(fault))
        del self.cluster.api.watches[self._watches :]  # those of a dead master's stores
        lives = self.random.choice((0, 0, self.random.randint(1, 40)))
        in_flight: InFlight = self.random.choice(("lost", "landed"))
        self.way = Way(self.cluster.api, lives, in_flight)
        self.began_s = asyncio.get_running_loop().time()
        api, tree = self.cluster.api, self.cluster.shape.tree
        self.master = await self._stack.enter_async_context(
            leading(
                *(api, self.way, tree, self.kept),
                ahead_share=AHEAD_SHARE,
                server_now=self.cluster.server_now,
                reservations=self.follow,
            )
        )

    def follow(self, _following: Following) -> Any:
        """Return what was booked for pods before they were there: nothing."""
        return None

    async def die(self) -> None:
        """The leader is gone; its state file is there or not. Another one takes over."""
        self.deaths += 1
        state = self.master.placements.state
        self.kept = state.persistent_state() if self.random.random() < 0.7 else None
        if self.kept is None:  # all places are planned anew
            now_s = asyncio.get_running_loop().time()
            self.cluster.disturbed_s = dict.fromkeys(self.cluster.disturbed_s, now_s)
        await self.end()
        self._stack = AsyncExitStack()
        await self.begin()

    async def end(self) -> None:
        """The leader stops."""
        self.require_alive()
        await self._stack.aclose()

    def works(self) -> list["asyncio.Future[None]"]:
        """The loops of the leader."""
        return [*self.master.works]

    def require_alive(self) -> None:
        """Fail where a loop of the leader has ended, with the reason."""
        for work in self.works():
            if work.done():
                error = work.exception() if not work.cancelled() else None
                raise BrokenPromiseError(f"the leader ended: {error!r}\n{self.story()}") from error
        if warnings := self.master.nomination.errors.warnings():
            raise BrokenPromiseError(f"objects are set aside: {warnings}\n{self.story()}")
        if self.faults:
            fault = self.faults[0]
            raise BrokenPromiseError(
                f"an error in the loop: {fault}\n{self.story()}"
            ) from fault.get("exception")

    def story(self) -> str:
        """What was done, the last acts."""
        return f"seed {self.seed}\n" + "\n".join(self.log[-30:])

    def states(self) -> str:
        """What the leader says of each gang, and what is used and held."""
        nomination = self.master.nomination
        told = [
            f"{gang.namespace}/{gang.name}: {nomination.machine.status(gang_id)}"
            for gang_id, gang in nomination.reader.known.items()
        ]
        counts = f"used {dict(self.cluster.used())} of tenant {dict(self.held_by_tenant())}"
        booked = self.booked()
        keys: dict[str, str | None] = {
            hold.id: hold.wish.key for hold in self.master.placements.state.bookings
        }
        held = [f"{keys.get(owner, owner)}: {dict(nodes)}" for owner, nodes in booked.items()]
        return "\n".join(["", *told, counts, *held])

    # What happens

    async def live(self, steps: int) -> None:
        """The life, and its end with and without the tenant's pods."""
        await self.begin()
        for _ in range(steps):
            await self.step()
        self.note("the tenant rests")
        self.calm()
        await self.rest(90.0)
        self.judge_delays(beside_tenant=True)
        self.note("the tenant leaves")
        self.tenant.leave()
        await self.rest(30.0)
        self.judge_delays(beside_tenant=False)
        for key in [*self.cluster.jobs]:
            self.cluster.end(key)
        await self.rest(40.0)
        if self._holds():
            raise BrokenPromiseError(f"holds remain: {self._holds()}\n{self.story()}")
        marks = [name for name, labels in self.cluster.api.labels().items() if _is_marked(labels)]
        if marks:
            raise BrokenPromiseError(f"nodes stay labelled: {marks}\n{self.story()}")
        await self.end()

    def calm(self) -> None:
        """Nothing is closed any more."""
        for node in self.cluster.shape.homes:
            if not self.cluster.is_open(node):
                self.cluster.cordon(node, cordoned=False)

    async def step(self) -> None:
        """One thing happens; then the cluster comes to rest, or does not yet."""
        acts: tuple[Callable[[], None], ...] = (
            *(self._hostile,) * 8,
            *(self.submit,) * 3,
            self.finish,
            self.lose_pod,
            self.cordon,
        )
        self.random.choice(acts)()
        if self.random.random() < 0.06:
            self.note("the leader dies")
            await self.die()
        quiet_s = self.random.choice((0.03, 0.2, 1.0, 5.0))
        await self.rest(quiet_s)
        if quiet_s == 5.0:
            self.judge_counts()

    def _hostile(self) -> None:
        for _ in range(self.random.choice((1, 1, 3))):
            began = len(self.tenant.log)
            self.tenant.act()
            for text in self.tenant.log[began:]:
                self.note(f"tenant: {text}")

    def submit(self) -> None:
        """A victim's job."""
        if len(self.cluster.jobs) >= 5:
            return
        self.names += 1
        kind = self.drawn_kind()
        size = self.random.choice(self.cluster.shape.group_pods)
        pods = size * self.random.choice((1, 1, 2))
        wish = Wish(
            namespace=self.random.choice(NAMESPACES),
            name=f"train-{self.names}",
            pods=pods,
            group_pods=size if self.random.random() < 0.9 or kind == "unlike" else 0,
        )
        if kind == "unlike" and (pods % 2 or self.cluster.shape.group_pods != (2,)):
            kind = "volcano"
        if kind == "plain" and not wish.group_pods:
            kind = "batch"
        self.note(f"submit {kind} {wish}")
        self.cluster.submit(ALL_KINDS[kind](wish))

    def drawn_kind(self) -> str:
        """The kind of a victim's job."""
        return self.random.choice([*KINDS])

    def finish(self) -> None:
        """A victim's job ends."""
        if self.cluster.jobs:
            key = self.random.choice([*self.cluster.jobs])
            self.note(f"end {key}")
            self.cluster.end(key)

    def lose_pod(self) -> None:
        """A pod of a victim dies, and is made again."""
        pods = [pod for pod in self.cluster.pods() if pod["metadata"]["namespace"] != EVIL]
        if pods:
            pod = self.random.choice(pods)
            self.note(f"lose {pod['metadata']['name']}")
            self.cluster.lose(pod)

    def cordon(self) -> None:
        """A node is closed or opened."""
        node = self.random.choice(sorted(self.cluster.shape.homes))
        self.note(f"cordon {node}")
        self.cluster.cordon(node, cordoned=self.cluster.is_open(node))

    def note(self, text: str) -> None:
        self.log.append(f"{asyncio.get_running_loop().time():7.2f} {text}")

    async def rest(self, for_s: float) -> None:
        """Virtual time goes on, schedulers bind, and everything is judged."""
        loop = asyncio.get_running_loop()
        end_s = loop.time() + for_s
        while True:
            await asyncio.sleep(min(max(0.02, end_s - loop.time()), max(0.1, for_s / 12)))
            self.cluster.schedule()
            if self.way.died.is_set():
                self.note("the leader died at a write")
                await self.die()
            self.judge()
            if loop.time() >= end_s:
                return

    # What must hold

    def judge(self) -> None:
        """What holds at any moment."""
        self.require_alive()
        self.ledger.look(self.cluster, self.booked())
        for flaw in flaws(self.cluster):
            raise BrokenPromiseError(f"{flaw}\n{self.story()}")
        for key, job in self.cluster.jobs.items():
            now = standing(self.cluster, key, job)
            before = self.before.get(key)
            for flaw in lost_places(self.cluster, key, before, now) if before else ():
                raise BrokenPromiseError(f"{flaw}\n{self.story()}")
            self.before[key] = now

    def judge_delays(self, *, beside_tenant: bool) -> None:
        """At rest: the counts are right, and the first job that waits has no room.

        Beside pods of its priority it may be the turn of one of the tenant.
        """
        self.judge_counts()
        if beside_tenant and self.is_equal:
            return
        taken = self.cluster.used()
        if beside_tenant:
            taken += self.held_by_tenant()
        waiting = {pod["metadata"]["uid"] for pod in self.cluster.pods() if is_gated(pod)}
        late = first_delayed(self.cluster, taken)
        if late:
            raise BrokenPromiseError(
                f"{late}; {len(waiting)} pods are gated\n{self.story()}{self.states()}"
            )

    def judge_counts(self) -> None:
        """Used, held, free and closed GPUs are the GPUs of each node, once a master has counted."""
        if asyncio.get_running_loop().time() - self.began_s < COUNTED_S:
            return
        held, pods = self.held_by_tenant().total(), self.cluster.evil_pods()
        waiting = sum(gpus_of(pod) for pod in pods if is_live(pod) and not node_of(pod))
        if held > waiting + self.most_ahead():
            raise BrokenPromiseError(
                f"the tenant has {held} GPUs held, and pods of {waiting} wait\n{self.story()}"
            )
        booked = self.booked()
        for flaw in self.ledger.flaws(self.cluster, booked):
            raise BrokenPromiseError(f"{flaw}\n{self.story()}{self.states()}")

    def most_ahead(self) -> float:
        """The GPUs that a namespace may keep ahead: a share, and at least one of the groups."""
        homes = Counter(self.cluster.shape.homes.values())
        gpus = GPUS * homes.total()
        return max(AHEAD_SHARE * gpus, min(GPUS * max(homes.values()), gpus / 2))

    def held_by_tenant(self) -> Counter[str]:
        """The GPUs that are kept for pods of the tenant that exist, by node."""
        held: Counter[str] = Counter()
        state = self.master.placements.state
        victims = {
            parse(pod).gang_id
            for key, job in self.cluster.jobs.items()
            for pod in self.cluster.pods_of(key, job)
        }
        for hold in state.bookings:
            _, gang_id, *_ = (hold.wish.key or "//").split("/")
            if gang_id not in victims:
                held.update(state.capacity.bookings().get(hold.id, {}))
        for owner, nodes in state.capacity.bookings().items():
            if owner.startswith(f"pod/{EVIL}/"):
                pod = self._evil(owner.rpartition("/")[2])
                if pod is not None and not takes(pod):
                    held.update(nodes)
        return held

    def _evil(self, uid: str) -> Mapping[str, Any] | None:
        found = (pod for pod in self.cluster.evil_pods() if pod["metadata"]["uid"] == uid)
        return next(found, None)


def _is_marked(labels: Mapping[str, str]) -> bool:
    return any(label.startswith("gang.") for label in labels)


class ExtenderLife(SharedLife):
    """A life without webhook and gates: kube-scheduler asks the extender for each pod.

    It has the nodes of a group kept by holds, so that a job has no place that an annotation names.
    """

    plans: ExtenderPlans

    def follow(self, following: Following) -> Any:
        """Build what answers kube-scheduler beside the gangs."""
        self.plans = ExtenderPlans(
            pods=following.pods,
            nodes=following.nodes,
            state=following.placements.state,
            is_counted=following.capacity.settled.is_set,
            ahead=following.ahead,
            server_now=self.cluster.server_now,
        )
        following.capacity.add_hold_source(self.plans)
        self.cluster.extender = self.answer
        return None

    async def begin(self) -> None:
        await super().begin()
        self.answering = asyncio.ensure_future(self.plans.run())

    async def end(self) -> None:
        await super().end()
        self.answering.cancel()
        await asyncio.gather(self.answering, return_exceptions=True)

    def works(self) -> list["asyncio.Future[None]"]:
        return [*super().works(), self.answering]

    def drawn_kind(self) -> str:
        return "unstamped"

    def answer(self, pod: Document, names: Sequence[str]) -> Sequence[str]:
        """The nodes of a question that are left, as `Extender` answers it."""
        metadata = pod["metadata"]
        known = self.master.pods.objects.get((metadata["namespace"], metadata["name"]))
        if known is None or known.metadata.uid != metadata["uid"]:
            return ()
        if not isinstance(known, GangPod) or self.plans.is_free(known):
            has_place = isinstance(known, GangPod) and known.note is not None
            short = self.plans.short_of(names, known.gpus) if known.gpus and not has_place else ()
            return [node for node in names if node not in short]
        plan = self.plans.find(known)
        if not isinstance(plan, PodPlan):
            return ()
        left = [node for node in names if node in plan.kept]
        return sorted(left, key=lambda node: node != plan.own)

"""Jobs that arrive in bursts on one cluster, wait, run and leave, among pods of others.

The judge is a client of its own: it reads pods from the API server, the groups from `/node_group`,
and counts with its own arithmetic. No verdict hangs on how fast anything is: a turn is over when
all stands still and every job that waits has a true reason, and it fails once nothing has moved for
long before that.
"""

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from aiohttp import ClientError, ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.kwok import COMPLETE
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.hostile import Hostile
from tests.e2e.scheduling.jobs import BATCH_JOBS, JOBS, PODS, WORDS, is_reviewed, taker
from tests.e2e.scheduling.odd_jobs import OddJobs, templates
from tests.e2e.scheduling.recount import Free, Ground, Recount, Wish, recounted
from tests.e2e.scheduling.second_lives import SecondLives
from tests.support.waiting import CEILING_S
from topo.model.rest.topology import is_group, walk

HIGH = "random-high"
BURST = 12
"""The most jobs that arrive at once."""
_MOST_WAITING = 6
_LEAVES, _ENDS, _RESTARTS = 0.15, 0.5, 0.1
"""The shares of running jobs that leave while a burst arrives, of those of them that end by
themselves (the others are deleted), and of those that are stopped and start again.
"""
_NODES_PER_OTHER = 20
_TAKER = "taker-"
_MOST_TAKEN, _LOOKS_FOR_PLANS = 2, 20
"""Planned nodes that pods without groups take during a burst, and looks for such a node."""
_AGAIN_S = 5.0
"""After so long the user of a job that no master reviewed creates it again."""
_MOVED = "pods moved meanwhile"
_AWAY_LOOK_S = 1.0
_LOOK_S, _REST = 0.05, 2.0
"""Between two looks: at least this, and so many times as long as the last one took."""
_TOLD = {"no-room", "displaced", "behind"}
"""States of jobs that wait; others pass by themselves. Who is behind others was so when it was
asked about last: what was free then, somebody else may have taken since.
"""


@dataclass(frozen=True, slots=True)
class Kind:
    """Jobs of one scheduler: where they are made, what their user writes, how their pods are known.

    `label` is that of the pods, whose value is the name of the job.
    """

    collection: str
    job: Callable[..., Any]
    label: str


KUBE_PODGROUP = "kube-podgroup"
"""kube-scheduler where the gangs of Kubernetes are on, and each job gets a PodGroup."""
VOLCANO = "volcano"
KINDS = {
    VOLCANO: Kind(JOBS, asking.volcano_job, "volcano.sh/job-name"),
    "kube": Kind(BATCH_JOBS, asking.batch_job, "batch.kubernetes.io/job-name"),
    KUBE_PODGROUP: Kind(BATCH_JOBS, asking.batch_job, "batch.kubernetes.io/job-name"),
}


class Masters(Protocol):
    """The masters that the jobs are placed by: one, or several that elect who leads."""

    async def url(self) -> str:
        """Return where the API of the one that leads is; empty while none does."""

    def stop(self) -> None:
        """All end as by a crash."""

    def start(self) -> None:
        """All run again."""

    async def disturb(self) -> None:
        """Harm them, or not, while a burst of jobs arrives."""


@dataclass
class Course:
    """What came of a stream until now."""

    bound: int = 0
    ended: int = 0
    """Jobs that ran to their end; others were deleted while they ran."""
    taken: int = 0
    """Planned nodes that were taken by pods without groups before the planned pod was bound."""
    odd: int = 0
    """Odd jobs of which what was told was true."""
    restarted: int = 0
    """How often a job that ran was stopped and started again; each time it is bound once more."""
    unreviewed: int = 0
    """Jobs that were made again under another name, as no master had reviewed them."""
    while_away: int = 0
    """Jobs that waited behind their gates while no master was there, with room for some."""
    outages: int = 0
    """How often the API server was away while jobs were being placed."""
    looks: int = 0
    stood_still: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    """Of jobs that waited while all stood still, each found to be true."""
    overtaken: Counter[str] = field(default_factory=Counter)
    """For each job that waited, how many were bound that came after it, of no higher priority."""
    slowest: tuple[float, str] = (0.0, "")
    """The longest that it took until all stood still, in seconds, and what was not so last."""

    def __str__(self) -> str:
        seconds, last = self.slowest
        most = self.overtaken.most_common(1)
        over = f"{most[0][0]} was overtaken most, by {most[0][1]}" if most else "none was overtaken"
        return (
            f"{self.bound} jobs were bound, {self.restarted} of them once more after a restart,"
            f" {self.ended} ran to their end, {self.while_away} waited"
            f" while no master was there; the API server was away {self.outages} times;"
            f" {self.odd} odd ones were told truly;"
            f" {self.unreviewed} were made again;"
            f" {self.taken} planned nodes were taken by others; {self.looks} looks,"
            f" {self.stood_still} times all stood still, at most after {seconds:.1f} s ({last});"
            f" true reasons of those that waited: {dict(self.reasons)}; {over}"
        )


class Stream:
    """Jobs on one cluster while the webhook and a master are in force.

    `away_s`: how long no master is there, once. `outage` takes the API server away and brings it
    back, once, while a burst of jobs is being placed. `burst`: the most jobs that arrive at once.
    `hostile`: a tenant of another namespace, that does its worst while jobs arrive; what it made
    stays while all is judged.
    """

    def __init__(
        self,
        api: Api,
        masters: Masters,
        kind: Kind,
        on: Ground,
        *,
        away_s: float = 0.0,
        outage: Callable[[], Awaitable[None]] | None = None,
        burst: int = BURST,
        hostile: Hostile | None = None,
    ) -> None:
        self._api, self._masters, self._kind, self._ground = api, masters, kind, on
        self._away_s, self._outage, self._burst = away_s, outage, burst
        self._rng = random.Random(1)  # noqa: S311 - the same course each time
        self._hostile = hostile
        self._seen = Recount((), on, hostile)
        self._moved_s = 0.0
        self._states: dict[str, str] = {}
        self._live: dict[str, Wish] = {}
        """Jobs by name that were made and not told to leave, as they came."""
        self._others: list[str] = []
        self._takers: dict[str, str] = {}
        """The nodes of pods that are bound without a scheduler to planned nodes, by the pod."""
        self._made = 0
        self._done: set[str] = set()
        """Jobs that were bound as a whole once."""
        self._leaving: set[str] = set()
        """Jobs whose pods have yet to go."""
        self._ended: list[str] = []
        """Jobs that ran to their end, and are there still."""
        self._second = SecondLives(api, kind.collection, self._rng)
        self._odd_jobs = OddJobs(api, kind.collection, kind.job, self._gang_of)
        self.course = Course()

    async def run(self, jobs: Sequence[Wish], tell: Callable[[str], None]) -> None:
        """All of them arrive, run and leave; what must never be raises `AssertionError`."""
        left = list(jobs)
        while left:
            size = self._rng.randint(1, self._burst)
            burst, left = left[:size], left[size:]
            leave = [name for name in self._running() if self._rng.random() < _LEAVES]
            stay = [name for name in self._running() if name not in leave]
            again = [name for name in stay if self._rng.random() < _RESTARTS]
            await asyncio.gather(
                *map(self._submit, burst),
                *map(self._restart, again),
                self._leave(leave),
                self._others_come_and_go(),
                self._take_planned_nodes(),
                self._masters.disturb(),
                self._rage(),
            )
            if self._outage is not None and len(left) <= len(jobs) * 3 // 4 and self._waiting():
                await self._outage()
                self._outage = None
                self.course.outages += 1
            await self._stand_still()
            await self._odd_jobs.try_next()
            self.course.odd = self._odd_jobs.seen
            is_late = len(left) <= len(jobs) // 2
            if self._away_s and is_late and self._waiting() and not self.course.while_away:
                await self._without_a_master()
            while len(self._waiting()) > _MOST_WAITING:
                await self._make_room()
            tell(f"{len(jobs) - len(left)} of {len(jobs)} jobs came: {self.course}")
        while self._waiting():
            await self._make_room()

    # What happens

    async def _rage(self) -> None:
        if self._hostile is None:
            return
        own = (pod for pod in self._seen.pods if self._seen.owner_of(pod) in self._live)
        await self._hostile.rage(list(own))
        await self._hostile.calm()

    async def _submit(self, wish: Wish) -> None:
        made = await self._create(wish)
        while not is_reviewed(made):
            # No master reviewed it, so that it gets no groups; its user does what the Event says.
            self.course.unreviewed += 1
            del self._live[wish.name]
            await self._delete(wish.name)
            await asyncio.sleep(_AGAIN_S)
            wish = replace(wish, name=f"{wish.name}-again")
            made = await self._create(wish)

    async def _restart(self, name: str) -> None:
        self._done.discard(name)
        self._live[name] = await self._second.restart(self._live[name])
        self.course.restarted += 1

    async def _create(self, wish: Wish) -> Any:
        mode = {} if wish.required else {WORDS.mode: "preferred"}
        job = self._kind.job(wish.name, wish.pods, wish.size, gpus=wish.gpus, **mode)
        if wish.is_high:
            for template in templates(job):
                template["spec"]["priorityClassName"] = HIGH
        self._live[wish.name] = wish
        return await self._api.create(self._kind.collection, job)

    async def _others_come_and_go(self) -> None:
        most = max(3, len(self._ground.room) // _NODES_PER_OTHER)
        gone = [name for name in self._others if self._rng.random() < _LEAVES]
        for _ in range(self._rng.randint(0, most - len(self._others))):
            self._made += 1
            self._others.append(f"other-{self._made}")
            await self._api.create(self._kind.collection, self._kind.job(self._others[-1], 1))
        await self._end_others(gone)

    async def _take_planned_nodes(self) -> None:
        """Bind pods of somebody else to nodes that are planned; earlier ones leave before."""
        await self._end_takers()
        for _ in range(_LOOKS_FOR_PLANS):
            nodes = (await recounted(self._api, self._ground, self._hostile)).planned()
            for node in self._rng.sample(nodes, min(_MOST_TAKEN, len(nodes))):
                self._made += 1
                name = f"{_TAKER}{self._made}"
                self._takers[name] = node
                self.course.taken += 1
                await self._api.create(PODS, taker(name, node))
            if nodes:
                return
            await asyncio.sleep(_LOOK_S)

    async def _end_takers(self) -> None:
        ends = [self._api.delete(f"{PODS}/{name}", grace_s=0) for name in self._takers]
        await asyncio.gather(*ends)
        self._takers = {}

    async def _end_others(self, names: Sequence[str]) -> None:
        self._others = [name for name in self._others if name not in names]
        await asyncio.gather(*map(self._delete, names))

    async def _make_room(self) -> None:
        """Half of what runs leaves, else all others' pods; returns once a job is bound by that."""
        await self._rage()
        bound, running, takers = self.course.bound, self._running(), len(self._takers)
        await self._end_takers()
        if running:
            await self._leave(self._half_of(running))
        elif self._others or takers:
            await self._end_others(self._others)
        else:
            await self._until_bound(bound)
        await self._until(lambda: self.course.bound > bound)

    async def _until_bound(self, bound: int) -> None:
        """The cluster is empty but for jobs that wait: one is bound, whatever it waited for."""
        loop = asyncio.get_running_loop()
        self._moved_s = loop.time()
        while self.course.bound == bound:
            await self._untrue()
            still_s = loop.time() - self._moved_s
            waits = {name: self._states.get(name) for name in self._waiting()}
            assert still_s < CEILING_S, f"the cluster is empty, and jobs wait: {waits}"
            await asyncio.sleep(_LOOK_S)

    def _half_of(self, names: Sequence[str]) -> list[str]:
        return self._rng.sample(names, (len(names) + 1) // 2)

    async def _without_a_master(self) -> None:
        """For a while there is room and no master: who waits keeps its gates, and goes on then."""
        waiting = self._waiting()
        gated = self._seen.gated(waiting)
        await asyncio.to_thread(self._masters.stop)
        await self._leave(self._half_of(self._running()))
        loop = asyncio.get_running_loop()
        back_s = loop.time() + self._away_s
        while loop.time() < back_s:
            await asyncio.sleep(_AWAY_LOOK_S)
            found = (await self._look()).gated(waiting)
            assert found == gated, f"without a master gates were opened: {gated}, then {found}"
        self._masters.start()
        self.course.while_away = len(gated)
        await self._stand_still()

    async def _leave(self, names: Iterable[str]) -> None:
        """Jobs that run are deleted, or end as those did that are cleared away now."""
        cleared, self._ended = self._ended, []
        deleted = []
        for name in names:
            del self._live[name]
            if self._rng.random() < _ENDS:
                self._ended.append(name)
            else:
                deleted.append(name)
        self.course.ended += len(self._ended)
        ends = [self._end(name) for name in self._ended]
        await asyncio.gather(*ends, *map(self._delete, (*cleared, *deleted)))

    async def _end(self, name: str) -> None:
        """All pods of a job end well."""
        self._leaving.add(name)
        patch = {"metadata": {"annotations": {COMPLETE: "true"}}}
        seen = self._seen
        own = [pod["metadata"]["name"] for pod in seen.pods if seen.owner_of(pod) == name]
        await asyncio.gather(*(self._api.merge(f"{PODS}/{pod}", patch) for pod in own))

    async def _delete(self, name: str) -> None:
        """A job goes, and its pods with it: the garbage collector would take some twenty a second.

        Meanwhile nothing stands still.
        """
        self._leaving.add(name)
        kind = self._kind
        await self._api.delete(f"{kind.collection}/{name}")
        which = {"labelSelector": f"{kind.label}={name}", "gracePeriodSeconds": "0"}
        await self._api.call("DELETE", PODS, **which)

    def _waiting(self) -> list[str]:
        return [name for name in self._live if name not in self._done]

    def _running(self) -> list[str]:
        return [name for name in self._live if name in self._done]

    # What is judged

    async def _stand_still(self) -> None:
        """Returns when every job that waits says why, and the recount agrees."""
        took_s, last = await self._until(lambda: False)
        self.course.stood_still += 1
        self.course.slowest = max(self.course.slowest, (took_s, last))
        self.course.reasons.update(self._states.values())

    async def _until(self, is_so: Callable[[], bool]) -> tuple[float, str]:
        """Looks until it is so, or all stands still: how long it took, and what was not so last."""
        loop, last = asyncio.get_running_loop(), ""
        began_s = self._moved_s = loop.time()
        while True:
            looked_s = loop.time()
            found = await self._untrue()
            now_s = loop.time()
            if not found or is_so():
                return now_s - began_s, last
            still_s = now_s - self._moved_s
            last = found[0] if found[0] != _MOVED else last
            assert still_s < CEILING_S, f"nothing has moved for {still_s:.0f} s:\n" + "\n".join(
                found
            )
            await asyncio.sleep(max(_LOOK_S, _REST * (now_s - looked_s)))

    async def _untrue(self) -> list[str]:
        """Why it cannot be said yet that all is as it should be; what is false for good stays."""
        before = self._seen
        gangs, uncounted = await self._gangs(), await self._uncounted()
        after = await self._look()
        if gangs is None or uncounted is None:
            return ["the master does not answer"]
        waiting = self._waiting()
        states = {name: gangs[name]["state"] for name in waiting if name in gangs}
        if before.places() != after.places() or states != self._states:
            self._states, self._moved_s = states, asyncio.get_running_loop().time()
            return [_MOVED]
        self._leaving &= {after.owner_of(pod) for pod in after.pods}
        if self._leaving:
            return [f"{name} has left, and pods of it are there" for name in sorted(self._leaving)]
        texts = (_untruth(self._live[n], gangs.get(n), after.free(n)) for n in waiting)
        return [*uncounted, *(text for text in texts if text)]

    async def _gangs(self) -> dict[str, Any] | None:
        """What the master says of each gang by the name of its job; None where it says nothing."""
        document = await self._asked("/v1/gangs?namespace=default")
        return document and {each["name"]: each for each in document["gangs"]}

    async def _gang_of(self, name: str) -> dict[str, Any]:
        return dict((await self._gangs() or {}).get(name, {}))

    async def _uncounted(self) -> list[str] | None:
        """Nodes whose used, held and free GPUs are not all of theirs, but for taken ones.

        None where the master says nothing. A node that a pod was bound to without a scheduler may
        have more booked than it has until its planned pod goes elsewhere.
        """
        document = await self._asked("/v1/topology")
        if document is None:
            return None
        found, taken = [], self._taken()
        for _, node in walk(document["groups"]):
            if is_group(node) or node["name"] in taken:
                continue
            booked = node["used_gpus"] + node["held_gpus"]
            is_open = node["status"] == "Ready" and not node["cordoned"]
            free = node["free_gpus"] if is_open else max(0, node["gpus"] - booked)
            if booked + free != node["gpus"]:
                found.append(f"{node['name']}: {booked} booked + {free} free of {node['gpus']}")
        return found

    async def _asked(self, path: str) -> Any:
        """Return the document of the master at a path; None where it says nothing."""
        url = await self._masters.url()
        try:
            async with ClientSession() as session, session.get(f"{url}{path}") as answer:
                return await answer.json() if answer.ok else None
        except (ClientError, ValueError):  # it has just begun, and does not listen yet
            return None

    async def _look(self) -> Recount:
        """Counts anew; raises for what must not be at any moment."""
        found = self._seen = await recounted(self._api, self._ground, self._hostile)
        self.course.looks += 1
        taken = self._taken()
        over = {node: gpus for node, gpus in found.overbooked().items() if node not in taken}
        assert not over, f"more GPUs are taken than there are: {over}"
        unplanned = found.unplanned(self._live)
        assert not unplanned, f"gates were opened without a plan: {unplanned}"
        for name, nodes in found.bound(self._waiting()).items():
            wish = self._live[name]
            if len(nodes) < wish.pods:
                continue
            self._done.add(name)
            self.course.bound += 1
            split = found.split(wish, nodes)
            assert not wish.required or not split, f"{name} {wish}: groups {split} are split"
            self.course.overtaken.update(self._passed(name))
        return found

    def _taken(self) -> set[str]:
        """Nodes that pods were bound to without a scheduler, however full they were."""
        return {*self._takers.values(), *self._seen.seized()}

    def _passed(self, name: str) -> Iterator[str]:
        """The jobs that wait although they came before this one, which is bound."""
        wish = self._live[name]
        for other in self._live:
            if other == name:
                return
            if other not in self._done and self._live[other].is_high >= wish.is_high:
                yield other


def _untruth(wish: Wish, gang: Mapping[str, Any] | None, free: Free) -> str:
    """What is not true of the reason that a waiting job gives; empty where it is true."""
    if gang is None:
        return f"{wish.name} waits and is not known"
    state, fits = gang["state"], free.fits(wish)
    if state == "half-bound":
        return ""  # where the rest may go is decided by where the first are
    if state in {"no-room", "displaced"} and fits:
        return f"{wish} is said to be {state}, and fits: {gang['text']}"
    if state == "behind" and not gang["ahead"]:
        return f"{wish} is said to be behind others, and is the first"
    return "" if state in _TOLD else f"{wish.name} is {state}: {gang['text']}"

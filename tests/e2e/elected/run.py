"""Two elected masters on a real API server under faults: `make chaos-elected MINUTES=5 SEED=1`.

Jobs with groups and clients of `/v1/holds` work all the time, while masters are killed, paused and
cut from the API server, half or whole, and their clocks and disks fail. Judged are the history of
pods as the API server's watch shows it, and what clients were promised. After each fault all is
healed, and a master must lead and answer again; at the end, without holds, every job must be bound.
"""

import argparse
import asyncio
import random
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from aiohttp import ClientSession

from tests.chaos.holding import Holders
from tests.chaos.model.ledger import Ledger, Promise
from tests.chaos.model.pod_history import PodHistory
from tests.chaos.model.verdicts import Bounds, Kind, Violation
from tests.chaos.notes import Notes, table
from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.core import Ports
from tests.e2e.controlplane.volcano import vendor_configuration
from tests.e2e.elected.jobs import Jobs, follow_pods
from tests.e2e.elected.masters import TERM_S, Master, keep_up, two_masters
from tests.e2e.scheduling.gang_master import TOKEN
from tests.support.waiting import CEILING_S, eventually
from topo.sim.worlds.presets import World
from topo.sim.worlds.presets import world as made

GPUS = 8
_LOOK_S = 0.2
LEADER_SHARE = 0.8
"""The share of faults that hit the leader."""
ROOM_S = 5.0
"""After so long without a change, jobs that run make room for those that wait at the end."""


@dataclass(frozen=True, slots=True)
class Token:
    """The one token of all clients."""

    current: str = TOKEN


class Elected:
    """One run on a cluster that is up."""

    def __init__(self, api: Api, world: World, masters: list[Master], notes: Notes) -> None:
        self._now = asyncio.get_running_loop().time
        self._api, self._masters, self._notes = api, masters, notes
        nodes = [str(host.name) for host in world.nodes]
        homes = {str(host.name): str(host.dragonfly) for host in world.nodes}
        self.history = PodHistory(dict.fromkeys(nodes, GPUS), homes)
        self.ledger = Ledger(GPUS, Bounds())
        self._turn = 0

    async def go(self, seed: int, rounds: int, ends_s: float) -> None:
        """Rounds of one fault each, with everybody at work meanwhile."""
        chance = random.Random(f"elected/{seed}")  # noqa: S311
        jobs = Jobs(self._api, self.history, self._notes, seed)
        holders = Holders(self._url, Token(), self.ledger, self._notes, self._beside_pods)
        async with asyncio.TaskGroup() as group, ClientSession() as session:
            forever = [
                group.create_task(keep_up(self._masters)),
                group.create_task(follow_pods(self._api, self.history, self._notes, self._now)),
            ]
            await self._settle()
            clients = [group.create_task(jobs.run()), *holders.run(group, session, seed)]
            # Faults begin once there is something to lose, however slow the machine is.
            await eventually(lambda: self._notes.answers["holds given"] > 0)
            for number in range(1, rounds + 1):
                if self._now() > ends_s:
                    break
                await self._round(number, chance)
            for task in clients:
                task.cancel()
            await asyncio.gather(*clients, return_exceptions=True)
            await self._end(jobs, session)
            for task in forever:
                task.cancel()

    async def _round(self, number: int, chance: random.Random) -> None:
        leader = await self._leader() or self._masters[0]
        other = next(each for each in self._masters if each is not leader)
        names, weights = zip(*((name, act[0]) for name, act in ACTS.items()), strict=True)
        name = chance.choices(names, weights)[0]
        target = leader if chance.random() < LEADER_SHARE else other
        lasts_s = chance.uniform(1, 2.5 * TERM_S)
        self._notes.acts[name] += 1
        self._notes.say(f"round {number}: {name} of {target.program.name} for {lasts_s:.1f} s")
        ACTS[name][1](target)
        await asyncio.sleep(lasts_s)
        for each in self._masters:
            each.heal()
        took_s = await self._settle()
        self._notes.converged_s.append(took_s)
        sys.stdout.write(f"{number:4}  {name:<14} settled after {took_s:5.1f} s\n")
        sys.stdout.flush()
        await asyncio.sleep(chance.uniform(0, 3))

    async def _settle(self) -> float:
        """Return after how long a master leads; a run in which none does ends."""
        began_s = self._now()
        while await self._leader() is None:
            if self._now() - began_s > CEILING_S:
                self._notes.found(Violation(Kind.UNSETTLED, "no master leads"))
                raise TimeoutError("no master leads")
            await asyncio.sleep(_LOOK_S)
        return self._now() - began_s

    async def _leader(self) -> Master | None:
        leading = [each for each in self._masters if await each.leads()]
        return leading[0] if leading else None

    async def _end(self, jobs: Jobs, session: ClientSession) -> None:
        """All holds run out or are given back; then all jobs are bound, each as a whole."""
        headers = {"Authorization": f"Bearer {TOKEN}"}
        moved_s = self._now()
        while True:
            leader = await self._leader()
            if leader is not None:
                async with session.get(f"{leader.url}/v1/holds") as answer:
                    holds = (await answer.json())["holds"] if answer.ok else []
                for hold in holds:
                    if hold["id"] in self.ledger.promises:
                        url = f"{leader.url}/v1/holds/{hold['id']}"
                        await session.delete(url, headers=headers)
            pods = await jobs.bound()
            done = [job for job, bound in pods.items() if bound == jobs.sizes[job]]
            waiting = jobs.present.keys() - set(done)  # Volcano makes no pods of what has no room
            if not waiting:
                self._notes.say(f"all {len(done)} jobs are bound")
                return
            if self._now() - moved_s > 2 * CEILING_S:
                self._notes.found(Violation(Kind.UNSETTLED, f"{waiting} wait: {pods}"))
                return
            if done and self._now() - moved_s > ROOM_S:  # they may not fit all at once
                await jobs.delete(done[0])
                moved_s = self._now()
            await asyncio.sleep(1)

    def _url(self) -> str:
        """Return where the next call goes: to the masters in turn, of which one takes writes."""
        self._turn += 1
        return self._masters[self._turn % len(self._masters)].url

    def _beside_pods(self, promise: Promise) -> Iterator[Violation]:
        for node, gpus in promise.gpus.items():
            yield from self.history.certain(node, promise.asked_s, gpus)


ACTS: dict[str, tuple[int, Callable[[Master], None]]] = {
    "kill": (3, Master.kill),
    "pause": (3, Master.pause),
    "partition": (2, lambda master: master.network.block()),
    "half-open": (2, lambda master: master.network.hang()),
    "no answers": (3, lambda master: master.network.hang(asks=False)),
    "slow network": (1, Master.slow_down),
    "clock step": (2, Master.step_clock),
    "failing disk": (1, Master.fail_disk),
    "slow disk": (1, Master.slow_disk),
}
"""Each fault with its weight."""


async def elected(
    cluster: Cluster, world: World, home: Path, seed: int, rounds: int, minutes: float
) -> Notes:
    """Return what was done and seen in a run on a cluster that is up."""
    now = asyncio.get_running_loop().time
    with (home / "elected.log").open("w") as log:
        notes = Notes(log, now)
        async with cluster.api() as api, two_masters(cluster, world, home) as masters:
            run = Elected(api, world, masters, notes)
            await run.go(seed, rounds, now() + minutes * 60)
    return notes


def main() -> int:
    """Run on a cluster of its own; 1 where anything was violated."""
    parser = argparse.ArgumentParser("python -m tests.e2e.elected.run")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="topo-elected-"))
    sys.stdout.write(f"seed {asked.seed}; what is done and seen: {home}/elected.log\n")
    world = made(2, 4, 2, GPUS, stem="sample")
    with own_ports() as ports:
        cluster = Cluster(home, Ports(*ports), volcano_configuration=vendor_configuration())

        async def run() -> Notes:
            await cluster.start(world)
            return await elected(cluster, world, home, asked.seed, asked.rounds, asked.minutes)

        try:
            notes = asyncio.run(run())
        finally:
            cluster.stop()
    sys.stdout.write("\n".join(table(notes)) + "\n")
    return 1 if notes.violations else 0


if __name__ == "__main__":
    sys.exit(main())

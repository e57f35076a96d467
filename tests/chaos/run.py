"""A whole run: rounds of acts, after each of which the cluster must come to rest."""

import asyncio
import shutil
import tempfile
from dataclasses import dataclass
from itertools import islice, takewhile
from pathlib import Path

from aiohttp import ClientSession, TCPConnector

from tests.chaos.acts import Acts
from tests.chaos.cluster import Cluster
from tests.chaos.holding import Holders
from tests.chaos.model import service
from tests.chaos.model.ledger import Ledger
from tests.chaos.model.truth import Truth, Wiring
from tests.chaos.model.verdicts import Bounds
from tests.chaos.notes import Notes, table
from tests.chaos.ports import own_ports
from tests.chaos.readers import Readers
from tests.chaos.schedule import GPUS, Round, rounds
from tests.chaos.state_file import StateFile
from tests.chaos.tokens import Tokens
from topo.cli.demo.plan import DemoPorts

_GIVE_UP_S = 60.0
"""Beyond the limit, so that a late tree is told from none."""
_LOOK_S = 0.05


@dataclass(frozen=True, slots=True)
class Length:
    """How long a run is: no round begins after the time, nor after so many rounds."""

    minutes: float
    rounds: int | None = None


class Run:
    """One run: everything that has a part in it."""

    def __init__(
        self, place: tuple[Path, DemoPorts], bounds: Bounds, notes: Notes, session: ClientSession
    ) -> None:
        self._now = asyncio.get_running_loop().time
        self.notes, self.session = notes, session
        self.truth = Truth(Wiring(), bounds, self._now())
        self.ledger = Ledger(GPUS, bounds)
        self.service = service.Service(self.truth)
        self.cluster = Cluster(place, self.truth, self._now, notes.found)
        url = self.cluster.ports.master
        self.tokens = Tokens(self.cluster, self.service, notes, session)
        state_file = StateFile(self.cluster, self.ledger, notes)
        self.acts = Acts(self.cluster, (self.tokens, state_file), notes, session)
        self.readers = Readers(url, self.truth, self.service, notes)
        self.holders = Holders(lambda: url, self.tokens, self.ledger, notes)

    async def go(self, seed: int, length: Length) -> None:
        """Rounds to the end of the run, with everybody at work meanwhile."""
        ends_s = self._now() + length.minutes * 60
        planned = islice(rounds(seed, self.truth.wiring), length.rounds)
        async with asyncio.TaskGroup() as group:
            work = self.readers.run(group, self.session)
            await self._settle(Round(0, (), keeps=False))
            work += self.holders.run(group, self.session, seed)
            work.append(group.create_task(self.tokens.try_old()))
            for each in takewhile(lambda _: self._now() < ends_s, planned):
                await self.acts.round(each)
                await self._settle(each)
            for task in work:
                task.cancel()
        await self.cluster.end()

    async def _settle(self, done: Round) -> None:
        """Waits from the master's first answer for the tree that must come, and for it to last."""
        await self.acts.mend(hardware=not done.keeps)
        began_s, bounds = self._now(), self.truth.bounds
        allowance_s = self.truth.allowance_s()
        gives_up_s = began_s + allowance_s + bounds.settle_s + _GIVE_UP_S
        seen_s = await self._tree_stands(began_s, gives_up_s)
        took_s = (seen_s or gives_up_s) - began_s
        limit_s = bounds.settle_s if done.number else bounds.start_s
        found = service.convergence(took_s, allowance_s, limit_s)
        self.notes.judged("settled", found)
        if done.number:  # before, nothing was done to anybody
            self.notes.converged_s.append(max(0.0, took_s - allowance_s))
        if seen_s is None:
            self.notes.say(f"expected {self.truth.expected()}")
            self.notes.say(f"found    {self.readers.tree[1]}")
        else:
            self.truth.settled()
            await self._events_arrive()
        for name, text in self.cluster.new_logs():
            self.notes.judged("logs", service.log(name, text, self.tokens.secrets))
        print(progress(done, took_s, self.notes), flush=True)

    async def _tree_stands(self, began_s: float, gives_up_s: float) -> float | None:
        """Since when the expected tree was seen without a break, None where it never lasted.

        It has to last until it is in the state file, so that a restart cannot show an older one.
        """
        since_s, expected = None, self.truth.expected()
        while self._now() < gives_up_s:
            asked_s, tree = self.readers.tree
            if asked_s < began_s or tree != expected:
                since_s = None
            else:
                since_s = since_s or self._now()
                if self._now() - since_s > self.truth.bounds.calm_s and self._is_kept(since_s):
                    return since_s
            await asyncio.sleep(_LOOK_S)
        return None

    def _is_kept(self, since_s: float) -> bool:
        asked_s, _, generation = self.readers.generation
        return asked_s > since_s and generation == self.cluster.saved_generation()

    async def _events_arrive(self) -> None:
        """The listener must have heard of the generation that is served."""
        began_s = self._now()
        while True:
            asked_s, run, generation = self.readers.generation
            behind = list(self.readers.events.behind(run, generation))
            if asked_s > began_s and not behind:
                return
            if self._now() - began_s > self.truth.bounds.start_s:
                self.notes.judged("listener", behind)
                return
            await asyncio.sleep(_LOOK_S)


def progress(done: Round, took_s: float, notes: Notes) -> str:
    """A line per round."""
    acts, found = len(done.acts), sum(notes.violations.values())
    stands = "broken hardware stands" if done.keeps else "all mended"
    words = f"{acts:2} acts, {stands:22}  tree after {took_s:5.2f} s  {found} violations"
    return f"round {done.number:3}: {words}"


async def chaos(seed: int, bounds: Bounds, log: Path, length: Length) -> Notes:
    """A whole run; raises what the driver itself did wrong."""
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    with (
        tempfile.TemporaryDirectory(prefix="topo-chaos-") as folder,
        log.open("w", encoding="utf-8") as file,
        own_ports() as ports,
    ):
        notes = Notes(file, lambda: loop.time() - began_s)
        notes.say(f"seed {seed}, {length}, {bounds}")
        async with ClientSession(connector=TCPConnector(limit=0)) as session:
            place = (Path(folder, "demo"), DemoPorts(*ports))
            await Run(place, bounds, notes, session).go(seed, length)
        if notes.violations:
            shutil.copytree(
                Path(folder, "demo", "logs"), log.with_suffix(".logs"), dirs_exist_ok=True
            )
        for line in table(notes):
            notes.say(line)
    return notes

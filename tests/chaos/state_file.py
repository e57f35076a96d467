"""What happens to the state file while the master is away, and a second master beside it."""

import asyncio
import signal

from tests.chaos.cluster import Cluster
from tests.chaos.model.ledger import Ledger
from tests.chaos.model.service import second_master
from tests.chaos.notes import Notes
from tests.chaos.schedule import MASTER, Act


class StateFile:
    """Says to truth and ledger what a master cannot know after it."""

    def __init__(self, cluster: Cluster, ledger: Ledger, notes: Notes) -> None:
        self._cluster, self._truth, self._notes = cluster, cluster.truth, notes
        self._ledger = ledger
        self._now = asyncio.get_running_loop().time

    async def do(self, act: Act) -> None:
        async with self._cluster.locks[MASTER]:
            if act.how == "second master":
                await self._second_master()
            elif act.how == "corrupt":
                await self._corrupt()
            else:
                await self._unreadable(act.lasts_s)

    async def _second_master(self) -> None:
        """It must end by itself, and harm nothing."""
        flags = ("--server-port=0", "--rpc-server-port=0")
        second = await self._cluster.spawn(MASTER, *flags)
        code = await self._cluster.ended(second)
        self._notes.judged("second masters", second_master(code))

    async def _corrupt(self) -> None:
        """Half of the file is left while the master is away."""
        state = self._cluster.state
        await self._cluster.stop(MASTER, signal.SIGKILL)
        if state.exists():
            content = state.read_bytes()
            state.write_bytes(content[: len(content) // 2])
        self._ledger.doubt()
        self._truth.forget(self._now())
        await self._cluster.start(MASTER)
        self._ledger.trust()

    async def _unreadable(self, lasts_s: float) -> None:
        """No file can be read there for a while, whoever asks; then it is what it was."""
        state, cluster = self._cluster.state, self._cluster
        await cluster.stop(MASTER, signal.SIGKILL)
        kept = state.with_name("kept-by-the-test")
        if not state.exists():
            return
        state.rename(kept)
        state.mkdir()
        holds = self._ledger.doubt()
        self._truth.forget(self._now())
        cluster.may_end.add(MASTER)
        await cluster.start(MASTER)
        await asyncio.sleep(lasts_s)
        await cluster.stop(MASTER, signal.SIGKILL)
        cluster.may_end.discard(MASTER)
        state.rename(state.with_name(f"was-in-the-way-{self._now():.3f}"))
        kept.rename(state)
        self._truth.forget(self._now())
        await cluster.start(MASTER)
        self._ledger.trust(holds)

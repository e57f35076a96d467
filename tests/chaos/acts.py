"""Does what the schedule says to a running cluster, and says to the model what it does."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

from aiohttp import ClientSession, ClientTimeout

from tests.chaos.attacks import attack
from tests.chaos.cluster import Cluster
from tests.chaos.model.truth import SILENT
from tests.chaos.notes import Notes
from tests.chaos.readers import LOST
from tests.chaos.schedule import Act, Do, Round
from tests.chaos.state_file import StateFile
from tests.chaos.tokens import Tokens
from topo.kit.files import replace_whole
from topo.recording.timeline import parse_faults

_SHORT = ClientTimeout(total=30)
_Doer = Callable[[Act], Awaitable[None]]


class Acts:
    """One method per kind of act; each returns when what it did is undone, hardware excepted."""

    def __init__(
        self,
        cluster: Cluster,
        others: tuple[Tokens, StateFile],
        notes: Notes,
        session: ClientSession,
    ) -> None:
        self._cluster, self._truth, self._notes = cluster, cluster.truth, notes
        self._session = session
        self._now = asyncio.get_running_loop().time
        self._nodes = cluster.truth.wiring.nodes
        self._broken: dict[str, set[str]] = {node: set() for node in self._nodes}
        tokens, state_file = others
        self._do: dict[Do, _Doer] = {
            Do.KILL: self._kill,
            Do.END: self._kill,
            Do.PAUSE: self._pause,
            Do.HEAL: self._heal,
            Do.SPOIL: self._spoil,
            Do.API_TOKEN: tokens.api,
            Do.WORKER_TOKEN: tokens.worker,
            Do.STATE: state_file.do,
            Do.ATTACK: self._attack,
        }

    async def round(self, asked: Round) -> None:
        """All acts of a round, each at its time; returns when the last one is undone."""
        async with asyncio.TaskGroup() as group:
            for act in asked.acts:
                group.create_task(self._one(act))

    async def _one(self, act: Act) -> None:
        await asyncio.sleep(act.at_s)
        self._notes.say(f"begins  {act}")
        self._notes.acts[act.do] += 1
        await self._do.get(act.do, self._break)(act)
        self._notes.say(f"ends    {act}")

    async def mend(self, *, hardware: bool) -> None:
        """Everything runs and answers rightly; with `hardware` nothing is broken either."""
        for name in self._cluster.names:
            async with self._cluster.locks[name]:
                await self._cluster.start(name)
        await self._cluster.served()
        await self._control("DELETE", "/faults", None)
        if hardware:
            for node in self._nodes:
                self._write(node, set())

    async def _kill(self, act: Act) -> None:
        async with self._cluster.locks[act.target]:
            number = signal.SIGKILL if act.do is Do.KILL else signal.SIGTERM
            await self._cluster.stop(act.target, number)
            await asyncio.sleep(act.lasts_s)
            await self._cluster.start(act.target)

    async def _pause(self, act: Act) -> None:
        async with self._cluster.locks[act.target]:
            await self._cluster.pause(act.target, act.lasts_s)

    async def _break(self, act: Act) -> None:
        """Hardware: a sentence in the file that the node's worker looks at."""
        node, partner = act.target, self._truth.wiring.partner(act.target)
        sentence = {
            Do.CUT: f"remote 1 of {node} vanishes",
            Do.UNPLUG: f"remote 1 of {node} vanishes",
            Do.GPU: f"gpu {act.how} of {node} fails",
            Do.LINK: f"link 3 of gpu {act.how} of {node} goes down",
            Do.SILENCE: f"{node} falls silent",
        }[act.do]
        self._write(node, self._broken[node] | {sentence})
        if act.do is Do.CUT:
            self._write(partner, self._broken[partner] | {f"remote 1 of {partner} vanishes"})

    async def _heal(self, act: Act) -> None:
        self._write(act.target, set())

    def _write(self, node: str, sentences: set[str]) -> None:
        """Says to the truth what begins and ends, then lets it."""
        for sentence in self._broken[node] ^ sentences:
            change = self._truth.begin if sentence in sentences else self._truth.end
            silent = sentence.endswith("silent")
            change(f"{SILENT}: {sentence}" if silent else sentence, (node,), self._now())
        self._broken[node] = sentences
        text = "".join(f"{sentence}\n" for sentence in sorted(sentences))
        assert isinstance(parse_faults(text), frozenset), text
        replace_whole(self._cluster.files.recordings / node / "faults.txt", text.encode())

    async def _spoil(self, act: Act) -> None:
        await self._control("PUT", "/faults", {"kind": act.how, "seconds": act.lasts_s})
        await asyncio.sleep(act.lasts_s)
        await self._control("DELETE", f"/faults/{act.how}", None)

    async def _control(self, method: str, path: str, body: object) -> None:
        """A call of the manager's control port; none where the manager is away."""
        manager = self._cluster.manager()
        if manager is None:
            return
        try:
            token = Path(manager["control_token_file"]).read_text().strip()
            headers = {"Authorization": f"Bearer {token}"}
            url = f"{manager['control_url']}{path}"
            async with self._session.request(
                method, url, json=body, headers=headers, timeout=_SHORT
            ):
                pass
        except LOST:
            pass

    async def _attack(self, act: Act) -> None:
        ports = self._cluster.ports
        await attack(act.how, (ports.api, ports.reports), act.lasts_s, seed=round(act.at_s * 10))

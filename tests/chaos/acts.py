"""Does what the schedule says to a running cluster, and says to the model what it does."""

import asyncio
import secrets
import signal
from collections.abc import Awaitable, Callable, Mapping

from aiohttp import ClientSession, ClientTimeout

from tests.chaos.attacks import attack
from tests.chaos.cluster import Cluster
from tests.chaos.holding import Tokens
from tests.chaos.model.ledger import Ledger
from tests.chaos.model.service import Service, second_master
from tests.chaos.model.truth import SILENT
from tests.chaos.notes import Notes
from tests.chaos.readers import LOST
from tests.chaos.schedule import MASTER, Act, Do, Round
from topo.kit.files import replace_whole
from topo.recording.timeline import parse_faults

_SHORT = ClientTimeout(total=30)


class Acts:
    """One method per kind of act; each returns when what it did is undone, hardware excepted."""

    def __init__(
        self,
        cluster: Cluster,
        judges: tuple[Service, Ledger],
        notes: Notes,
        session: ClientSession,
    ) -> None:
        self._cluster, self._truth, self._notes = cluster, cluster.truth, notes
        self._service, self._ledger = judges
        self._session = session
        self._now = asyncio.get_running_loop().time
        self._nodes = cluster.truth.wiring.nodes
        self._broken: dict[str, set[str]] = {node: set() for node in self._nodes}
        files = cluster.files
        self.tokens = Tokens(files.api_token.read_text().strip())
        self._worker_tokens = {n: files.worker_token(n).read_text().strip() for n in self._nodes}
        self._old: dict[str, str] = {}
        self._do: Mapping[Do, Callable[[Act], Awaitable[None]]] = {
            Do.KILL: self._kill,
            Do.END: self._kill,
            Do.PAUSE: self._pause,
            Do.HEAL: self._heal,
            Do.SPOIL: self._spoil,
            Do.API_TOKEN: self._api_token,
            Do.WORKER_TOKEN: self._worker_token,
            Do.STATE: self._state,
            Do.ATTACK: self._attack,
        }

    @property
    def secrets(self) -> set[str]:
        """All that no log may show."""
        control = self._cluster.files.manager / "control.token"
        password = self._cluster.files.manager / "secret" / "password"
        files = {path.read_text().strip() for path in (control, password) if path.exists()}
        return {self.tokens.current, *self._worker_tokens.values(), *self._old, *files}

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
            with open(manager["control_token_file"]) as file:  # noqa: ASYNC230, PTH123 - a line
                headers = {"Authorization": f"Bearer {file.read().strip()}"}
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

    async def _api_token(self, act: Act) -> None:
        """The token in use leaves its file; another one comes at once, or after a while."""
        old, new = self.tokens.current, secrets.token_urlsafe(24)
        path = self._cluster.files.api_token
        async with self._cluster.locks[MASTER]:
            while not self._truth.is_serving(self._now()):  # one that starts refuses such a file
                await asyncio.sleep(0.1)
            match act.how:
                case "rotated":
                    replace_whole(path, f"{new}\n".encode())
                case "emptied":
                    replace_whole(path, b"")
                case "gone":
                    path.unlink()
                case _:
                    replace_whole(path, f"what is this line\n{new}\n".encode())
            self._revoked(old)
            self.tokens.current = new
            await asyncio.sleep(act.lasts_s)
            replace_whole(path, f"{new}\n".encode())

    async def _worker_token(self, act: Act) -> None:
        """Both are good for a while, as whoever rotates tokens does it; then the old one is not."""
        node, files = act.target, self._cluster.files
        old, new = self._worker_tokens[node], secrets.token_urlsafe(24)
        async with self._cluster.locks[MASTER]:
            self._truth.begin(f"{SILENT}: token", (node,), self._now())
            self._write_worker_tokens({new: node})
            await asyncio.sleep(2)
            replace_whole(files.worker_token(node), new.encode())
            await asyncio.sleep(2)
            self._worker_tokens[node] = new
            self._write_worker_tokens({})
            self._revoked(old)
            self._truth.end(f"{SILENT}: token", (node,), self._now())

    def _write_worker_tokens(self, more: Mapping[str, str]) -> None:
        tokens = {token: node for node, token in self._worker_tokens.items()} | dict(more)
        lines = "".join(f"{node} {token}\n" for token, node in tokens.items())
        replace_whole(self._cluster.files.worker_tokens, lines.encode())

    def _revoked(self, token: str) -> None:
        self._old[token] = token
        self._service.revoked(token, self._now())

    async def try_old_tokens(self) -> None:
        """Calls with tokens that were revoked, until cancelled; each would fail with a good one."""
        ports = self._cluster.ports
        calls = (
            ("DELETE", f"http://127.0.0.1:{ports.api}/v1/holds/hold-000000000000"),
            ("POST", f"http://127.0.0.1:{ports.reports}/v1/reports"),
        )
        while True:
            for token in tuple(self._old)[-4:]:
                for method, url in calls:
                    await self._try_token(token, method, url)
            await asyncio.sleep(0.5)

    async def _try_token(self, token: str, method: str, url: str) -> None:
        sent_s, headers = self._now(), {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(
                method, url, json={}, headers=headers, timeout=_SHORT
            ) as answer:
                status = answer.status
        except LOST:
            return
        self._notes.judged("old tokens", self._service.token(token, status, sent_s))

    async def _state(self, act: Act) -> None:
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

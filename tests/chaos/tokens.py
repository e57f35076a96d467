"""Token files that are rotated, emptied, deleted and spoilt; old tokens that are tried again."""

import asyncio
import secrets
from collections.abc import Mapping

from aiohttp import ClientSession, ClientTimeout

from tests.chaos.cluster import Cluster
from tests.chaos.model.service import Service, answered
from tests.chaos.model.truth import SILENT
from tests.chaos.notes import Notes
from tests.chaos.readers import LOST
from tests.chaos.schedule import MASTER, Act
from topo.kit.files import replace_whole

_PATIENCE = ClientTimeout(total=30)
_OVERLAP_S = 2.0
"""Old and new are both good for so long: the master looks every half second."""


class Tokens:
    """The tokens in force and those that are not any more; `current` is the clients' one."""

    def __init__(
        self, cluster: Cluster, service: Service, notes: Notes, session: ClientSession
    ) -> None:
        self._cluster, self._truth, self._notes = cluster, cluster.truth, notes
        self._service, self._session = service, session
        self._now = asyncio.get_running_loop().time
        files, nodes = cluster.files, cluster.truth.wiring.nodes
        self.current = files.api_token.read_text().strip()
        self._worker_tokens = {n: files.worker_token(n).read_text().strip() for n in nodes}
        self._old: list[str] = []

    @property
    def secrets(self) -> set[str]:
        """All that no log may show."""
        control = self._cluster.files.manager / "control.token"
        password = self._cluster.files.manager / "secret" / "password"
        files = {path.read_text().strip() for path in (control, password) if path.exists()}
        return {self.current, *self._worker_tokens.values(), *self._old, *files}

    async def api(self, act: Act) -> None:
        """The token in use leaves its file; another one comes at once, or after a while."""
        old, new = self.current, secrets.token_urlsafe(24)
        path = self._cluster.files.api_token
        async with self._cluster.locks[MASTER]:
            await self._cluster.served()  # a master that starts refuses such a file
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
            self.current = new
            await asyncio.sleep(act.lasts_s)
            replace_whole(path, f"{new}\n".encode())

    async def worker(self, act: Act) -> None:
        """Both are good for a while, as whoever rotates tokens does it; then the old one is not."""
        node, files = act.target, self._cluster.files
        old, new = self._worker_tokens[node], secrets.token_urlsafe(24)
        async with self._cluster.locks[MASTER]:
            self._truth.begin(f"{SILENT}: token", (node,), self._now())
            self._write_worker_tokens({new: node})
            await asyncio.sleep(_OVERLAP_S)
            replace_whole(files.worker_token(node), new.encode())
            await asyncio.sleep(_OVERLAP_S)
            self._worker_tokens[node] = new
            self._write_worker_tokens({})
            self._revoked(old)
            self._truth.end(f"{SILENT}: token", (node,), self._now())

    def _write_worker_tokens(self, more: Mapping[str, str]) -> None:
        tokens = {token: node for node, token in self._worker_tokens.items()} | dict(more)
        lines = "".join(f"{node} {token}\n" for token, node in tokens.items())
        replace_whole(self._cluster.files.worker_tokens, lines.encode())

    def _revoked(self, token: str) -> None:
        self._old.append(token)
        self._service.revoked(token, self._now())

    async def try_old(self) -> None:
        """Calls with tokens that were revoked, until cancelled; each would fail with a good one."""
        ports = self._cluster.ports
        calls = (
            ("DELETE", f"http://127.0.0.1:{ports.api}/v1/holds/hold-000000000000"),
            ("POST", f"http://127.0.0.1:{ports.reports}/v1/reports"),
        )
        while True:
            for token in self._old[-4:]:
                for method, url in calls:
                    await self._try(token, method, url)
            await asyncio.sleep(0.5)

    async def _try(self, token: str, method: str, url: str) -> None:
        sent_s, headers = self._now(), {"Authorization": f"Bearer {token}"}
        try:
            async with self._session.request(
                method, url, json={}, headers=headers, timeout=_PATIENCE
            ) as answer:
                status = answer.status
        except LOST:
            return
        found = (*answered(url, status), *self._service.token(token, status, sent_s))
        self._notes.judged("old tokens", found)

"""The calls to the manager: its topology, its events, its health, each as a value."""

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import TypeVar

from master.settings.cluster_manager import ClusterManagerSettings
from master.sources.cluster_manager.auth import (
    Authentication,
    FixedAuthentication,
    LoginAuthentication,
    decoded,
    status_trouble,
)
from master.sources.cluster_manager.http import (
    ManagerQuestion,
    Reply,
    Transport,
    TroubleError,
    TroubleKind,
)
from master.sources.cluster_manager.metrics import ClusterManagerMetrics
from topo.discovery.manager.contract import ManagerAnswer
from topo.discovery.manager.events import EventPage
from topo.discovery.manager.mapping import understand_events, understand_topology
from topo.discovery.manager.rules import LoginAuth, ManagerMapping
from topo.discovery.manager.translation import map_health
from topo.model.errors import Refusal

T = TypeVar("T")


@dataclass(eq=False)
class ManagerClient:
    """One manager, called as its mapping says. Every call raises `TroubleError`."""

    mapping: ManagerMapping
    settings: ClusterManagerSettings
    transport: Transport
    metrics: ClusterManagerMetrics
    _: KW_ONLY
    clock: Callable[[], float] = time.monotonic
    _last: tuple[bytes, ManagerAnswer] | None = None

    def __post_init__(self) -> None:
        self._authentication: Authentication = (
            LoginAuthentication(
                self.mapping.auth, self.settings, self.transport, self.metrics, clock=self.clock
            )
            if isinstance(self.mapping.auth, LoginAuth)
            else FixedAuthentication(self.mapping.auth, self.settings)
        )

    async def topology(self) -> ManagerAnswer:
        """Return the whole topology. An answer equal to the last one is not parsed again."""
        path = self.mapping.topology.path
        reply = await self._get(ManagerQuestion(path=path))
        if reply.status != 200:
            raise status_trouble(reply, f"GET {path}")
        digest = hashlib.blake2b(reply.body, digest_size=16).digest()
        if self._last is not None and self._last[0] == digest:
            return self._last[1]
        # 60 MB of JSON take a second: other work goes on meanwhile.
        understand = partial(understand_topology, self.mapping.topology)
        answer = await asyncio.to_thread(_read, understand, reply.body, f"GET {path}")
        if isinstance(answer, Refusal):
            raise TroubleError(TroubleKind.CONTENT, answer)
        if self.mapping.events is None:
            answer = replace(answer, cursor=None)
        self._last = digest, answer
        return answer

    async def events(self, cursor: str) -> EventPage | Refusal:
        """Return the events after the cursor; a refusal where the whole must be read again."""
        rule = self.mapping.events
        if rule is None:
            return Refusal("this manager has no events", "events", "read the whole again")
        query = {rule.cursor_parameter: cursor}
        if rule.limit_parameter is not None:
            query[rule.limit_parameter] = str(self.settings.event_page)
        reply = await self._get(ManagerQuestion(path=rule.path, query=query))
        if reply.status == 410:
            return Refusal("the cursor is gone", f"GET {rule.path}", "read the whole again")
        if reply.status != 200:
            raise status_trouble(reply, f"GET {rule.path}")
        understand = partial(understand_events, rule, asked=cursor)
        return await asyncio.to_thread(_read, understand, reply.body, f"GET {rule.path}")

    def is_last_page(self, page: EventPage) -> bool:
        """Return whether no more events can follow this page."""
        rule = self.mapping.events
        if rule is None or rule.limit_parameter is None:
            return True
        return len(page.events) < self.settings.event_page

    async def health(self) -> str:
        """Return the manager's own account of a fault; empty where it has none of use.

        Requested without credentials, and only to explain another failure: its own are not
        reported.
        """
        rule = self.mapping.health
        if rule is None:
            return ""
        try:
            reply = await self.transport.ask(ManagerQuestion(path=rule.path))
            document = decoded(reply.body, rule.path) if reply.status == 200 else None
        except TroubleError:
            return ""
        health = map_health(rule, document)
        if isinstance(health, Refusal) or health.ok:
            return ""
        return " ".join(health.detail.split())[:200] or "not well"

    async def _get(self, question: ManagerQuestion) -> Reply:
        """Send one authenticated request; renew a token once that was good and is refused."""
        authentication = self._authentication
        while True:
            headers = await authentication.headers()
            reply = await self.transport.ask(
                ManagerQuestion(path=question.path, query=question.query, headers=headers)
            )
            if reply.status != 401:
                authentication.accepted()
                return reply
            if not authentication.refused():
                break
        fix = f"correct the files in {self.settings.credentials_dir}, or the rights of the user"
        raise TroubleError(
            TroubleKind.UNAUTHORIZED,
            Refusal("the manager refuses us (401)", f"GET {question.path}", fix),
            self.settings.refused_login_wait_s,
        )


def _read(understand: Callable[[object], T], body: bytes, where: str) -> T:
    """Parse an answer; an exception of the parser is a fault of the answer, not the end of the
    source.
    """
    document = decoded(body, where)
    try:
        return understand(document)
    except Exception as error:
        what = f"the answer cannot be read: {type(error).__name__}"
        refusal = Refusal(what, where, "look at what the manager answers there")
        raise TroubleError(TroubleKind.CONTENT, refusal) from error

"""The calls to the manager: its topology, its events, its health, each as a value."""

import asyncio
import hashlib
import time
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

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
from topo.discovery.manager.mapping import (
    understand_events,
    understand_fabric,
    understand_topology,
)
from topo.discovery.manager.rules import FabricRule, LoginAuth, ManagerMapping, TopologyRule
from topo.discovery.manager.translation import map_health
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump

FABRIC_S = 120.0
"""How long the list of all cables of a large fabric may take."""

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
    _last: dict[str, tuple[bytes, Any]] = field(default_factory=dict)
    """By section, the digest of the last answer, and what was read of it."""

    def __post_init__(self) -> None:
        self._authentication: Authentication = (
            LoginAuthentication(
                self.mapping.auth, self.settings, self.transport, self.metrics, clock=self.clock
            )
            if isinstance(self.mapping.auth, LoginAuth)
            else FixedAuthentication(self.mapping.auth, self.settings)
        )

    async def topology(self, rule: TopologyRule) -> ManagerAnswer:
        """Return the whole topology. An answer equal to the last one is not parsed again."""
        understand = _of_json(partial(understand_topology, rule), f"GET {rule.path}")
        answer = await self._whole("topology", ManagerQuestion(path=rule.path), understand)
        return answer if self.mapping.events is not None else replace(answer, cursor=None)

    async def fabric(self, rule: FabricRule) -> FabricDump:
        """Return the whole fabric: the same object, unparsed, while the answer is the same."""
        question = ManagerQuestion(path=rule.path, patience_s=FABRIC_S)
        return await self._whole("fabric", question, partial(understand_fabric, rule))

    async def _whole(
        self, section: str, question: ManagerQuestion, understand: Callable[[bytes], T | Refusal]
    ) -> T:
        where = f"GET {question.path}"
        reply = await self._get(question)
        if reply.status != 200:
            raise status_trouble(reply, where)
        # 60 MB of JSON take a second: other work goes on meanwhile.
        digest = await asyncio.to_thread(_digest, reply.body)
        last = self._last.get(section)
        if last is not None and last[0] == digest:
            found: T = last[1]
            return found
        answer = await asyncio.to_thread(_read, understand, reply.body, where)
        if isinstance(answer, Refusal):
            raise TroubleError(TroubleKind.CONTENT, answer)
        self._last[section] = digest, answer
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
        where = f"GET {rule.path}"
        understand = _of_json(partial(understand_events, rule, asked=cursor), where)
        return await asyncio.to_thread(_read, understand, reply.body, where)

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
            reply = await self.transport.ask(replace(question, headers=headers))
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


def _digest(body: bytes) -> bytes:
    return hashlib.blake2b(body, digest_size=16).digest()


def _of_json(understand: Callable[[object], T], where: str) -> Callable[[bytes], T]:
    return lambda body: understand(decoded(body, where))


def _read(understand: Callable[[bytes], T], body: bytes, where: str) -> T:
    """Parse an answer; an exception of the parser is a fault of the answer, not the end of the
    source.
    """
    try:
        return understand(body)
    except TroubleError:
        raise
    except Exception as error:
        what = f"the answer cannot be read: {type(error).__name__}"
        refusal = Refusal(what, where, "look at what the manager answers there")
        raise TroubleError(TroubleKind.CONTENT, refusal) from error

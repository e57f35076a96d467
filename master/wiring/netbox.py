"""A live NetBox or Nautobot as the plan of the cables, read to its end every five minutes.

Which of the two it is tells the form of a first cable, which is asked for once, and again after a
reading that failed. NetBox has all in one list, Nautobot in four
(`topo/facts/plans/nautobot_cables.py`).

No page is asked for by an address that an answer names: the next one is where the objects that were
read end, at the address of the settings, so the token goes nowhere else. They are asked in the
order of their ids; an object that is there twice, a count that is not met, or a page that fails
makes all of the reading worthless, and the plan before stays. Bounded: `PAGE_BYTES` of a page,
`MAX_PAGES` of a list, `READING_S` in all, and the cables of a plan (`topo/facts/plans`). A reading
that fails is repeated with full jitter, as for a cluster manager.

Sources: NetBox 4.4.10, "REST API": pagination (`limit`, at most MAX_PAGE_SIZE = 1000; `offset`;
`count`, `next`), `ordering`, `fields`, header `Authorization: Token …`; tokens of version 2, from
4.5 on, begin with `nbt_` and are bearer tokens. Nautobot 3.2.7, "REST API": the same but for
`sort`; a parameter that it does not know is refused.
"""

import asyncio
import math
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import prometheus_client as prom
import structlog
from tenacity import AsyncRetrying, retry_if_exception_type

from master.settings.cluster_manager import NETBOX_FLAGS, ClusterManagerSettings
from master.sources.cluster_manager.auth import credential, decoded, status_trouble
from master.sources.cluster_manager.http import (
    ManagerQuestion,
    Transport,
    TroubleError,
    TroubleKind,
    open_session,
)
from master.wiring.check import TakePlan
from topo.facts.plans.list_pages import ListPages
from topo.facts.plans.nautobot_cables import MARK, NautobotCables
from topo.facts.plans.netbox_cables import CABLES, NetBoxCables
from topo.facts.plans.plan import CablePlan
from topo.kit.backoff import full_jitter, retry_after_or
from topo.kit.metrics import counter, gauge
from topo.kit.secrets import as_token
from topo.kit.threads import off_loop
from topo.model.errors import Refusal

_PAGE: Final = {"limit": "200"}
"""Either took up to 0.1 s for a cable, on a machine that was busy with other work."""
PAGE_S = 120.0
PAGE_BYTES = 4 << 20
"""An object of any of the lists has about 2 kB."""
MAX_PAGES = 5000
READING_S = 3600.0
POLL_S = 300.0
"""Plans differ when people edit them."""
RETRY_S = 10.0

_log = structlog.get_logger(__name__)


def netbox_settings(address: str, token_file: Path, ca_file: Path | None) -> ClusterManagerSettings:
    """Return how NetBox is reached: always verified, its token alone in a file."""
    return ClusterManagerSettings(
        address=address,
        credentials_dir=token_file.parent,
        token_file=token_file.name,
        ca_file=ca_file,
        max_answer_bytes=PAGE_BYTES,
        read_timeout_s=PAGE_S,
        request_timeout_s=PAGE_S,
        flags=NETBOX_FLAGS,
    )


class NetBoxPlan:
    """Reads the cables of one NetBox. Raises `BadInputError` for an unusable address."""

    where = f"{NETBOX_FLAGS.prefix}-address"

    def __init__(
        self,
        settings: ClusterManagerSettings,
        registry: prom.CollectorRegistry,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._form: type[NautobotCables | NetBoxCables] | None = None
        """Which of the two the peer is; None before a reading was whole, and after one failed."""
        self._last: CablePlan | None = None
        self._last_good_s = math.nan
        self._polls = counter(registry, "topo_master_netbox_polls")
        gauge(registry, "topo_master_netbox_last_good_age_seconds", self._age_s)

    def _age_s(self) -> float:
        return self._clock() - self._last_good_s

    async def run(self, take: TakePlan) -> None:
        """Hand on the plan after each whole reading, and each trouble, until cancelled."""
        wait = retry_after_or(full_jitter(RETRY_S, POLL_S))
        async with open_session() as http:
            transport = Transport(self._settings, http)
            while True:
                attempt = partial(self._attempt, transport, take)
                retrying = AsyncRetrying(retry=retry_if_exception_type(TroubleError), wait=wait)
                await retrying(attempt)
                await asyncio.sleep(POLL_S)

    async def _attempt(self, transport: Transport, take: TakePlan) -> None:
        try:
            async with asyncio.timeout(READING_S):
                plan = await self._read(transport)
        except TimeoutError:
            fix = "is it overloaded?"
            refusal = Refusal(f"not all is read in {READING_S:g} s", f"GET {CABLES}", fix)
            error = TroubleError(TroubleKind.TIMEOUT, refusal)
            self._failed(error, take)
            raise error from None
        except TroubleError as error:
            self._failed(error, take)
            raise
        self._polls.labels("unchanged" if plan == self._last else "changed").inc()
        self._last, self._last_good_s = plan, self._clock()
        take(plan)

    def _failed(self, error: TroubleError, take: TakePlan) -> None:
        self._form = None
        self._polls.labels(error.kind.value).inc()
        take(error.refusal)

    async def _read(self, transport: Transport) -> CablePlan:
        """Return the plan that all pages make. Raises `TroubleError`."""
        form = self._form or await self._ask_form(transport)
        found = form()
        for path, query in found.queries.items():
            await self._read_list(transport, path, query, found.lists[path])
        plan = await off_loop(found.plan)
        if isinstance(plan, Refusal):
            raise TroubleError(TroubleKind.CONTENT, plan)
        self._form = form
        return plan

    async def _ask_form(self, transport: Transport) -> type[NautobotCables | NetBoxCables]:
        first = await self._page(transport, CABLES, {"limit": "1"})
        return NautobotCables if MARK.encode() in first else NetBoxCables

    async def _read_list(
        self, transport: Transport, path: str, query: Mapping[str, str], pages: ListPages
    ) -> None:
        for _ in range(MAX_PAGES):
            seen = pages.seen
            body = await self._page(transport, path, {**query, **_PAGE, "offset": str(seen)})
            refused = await off_loop(partial(_add, pages, path, body))
            if refused is not None:
                raise TroubleError(TroubleKind.CONTENT, refused)
            if pages.is_last or pages.seen == seen:
                return

    async def _page(self, transport: Transport, path: str, query: Mapping[str, str]) -> bytes:
        token = await credential(self._settings, self._settings.token_file, as_token)
        scheme = "Bearer" if token.startswith("nbt_") else "Token"
        question = ManagerQuestion(
            path=path, query=query, headers={"Authorization": f"{scheme} {token}"}
        )
        reply = await transport.ask(question)
        if reply.status in (401, 403):
            fix = f"put a token that may view these into {NETBOX_FLAGS.prefix}-token-file"
            refusal = Refusal(f"the peer refuses our token ({reply.status})", f"GET {path}", fix)
            raise TroubleError(TroubleKind.UNAUTHORIZED, refusal, reply.retry_after_s)
        if reply.status != 200:
            raise status_trouble(reply, f"GET {path}", NETBOX_FLAGS)
        return reply.body


def _add(pages: ListPages, path: str, body: bytes) -> Refusal | None:
    return pages.add(decoded(body, f"GET {path}", NETBOX_FLAGS))

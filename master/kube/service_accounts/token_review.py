"""Asks the API server which account a token belongs to, as seldom as is safe.

Verdicts are stored by a keyed digest of the token, never by the token. A known account is reviewed
again in the background, so that its calls do not wait; while the API server cannot be reached, the
stored verdict is valid until the token ends. A refused token is not reviewed again for a while.
Concurrent calls with one token share one review. A sender of many refused tokens gets no more
reviews.
"""

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import KW_ONLY, dataclass, field

import prometheus_client as prom
import structlog

from master.kube.advice import next_step
from master.kube.client import Call
from master.kube.errors import Failure, KubeError
from master.kube.rate import RequestRate
from master.kube.service_accounts.accounts import (
    Account,
    Claims,
    Denied,
    Wanted,
    claims_of,
    read_review,
    review_body,
)
from master.rate_limits import SenderLimits
from topo.kit.metrics import counter, gauge
from topo.kit.tokens import keyed_digest
from topo.model.conditions.sources import ReportCondition
from topo.model.errors import Refusal

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
FRESH_S = 120.0
"""How long an account is accepted without a new review. Source: the API server's own pace with
reviewers of tokens, `--authentication-token-webhook-cache-ttl`. Kubernetes issues no token for less
than 600 s."""
LATE_S = 240.0
"""After this a call waits for the new review: the account may no longer exist."""
REFUSED_S = 30.0
LEAST_S = 30.0
"""How long a token is accepted that has ended by our clock and not by the API server's: a wrong
clock must not cause a review of each report."""
MOST_S = 3600.0
"""The longest that an account is accepted while the API server cannot be reached."""
REST_S = 2.0
"""Pause after a review without an answer."""
MOST_REST_S = 30.0
TIMEOUT_S = 4.0
"""A worker waits 10 s for its answer."""
AT_ONCE = 32
WAITING = 1024
PER_S = 500.0
"""10,000 workers that reach a new master are known within 20 s."""
REFUSED_RATE = 1.0
"""Refused tokens of one sender that are reviewed per second."""
REFUSED_BURST = 32.0
"""Many workers may share one address, behind a proxy or a follower."""
KEPT_PER_NODE = 2
"""Accounts that are kept for each node that may report: its token and the one before."""
REFUSED_KEPT = 4096

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Known:
    """A verdict: fresh at first, then used while it is reviewed again or no review is possible."""

    verdict: Account | Denied
    fresh_until_s: float
    late_from_s: float
    ends_s: float


_Key = tuple[bytes, str]
"""The token's digest and the audience."""


@dataclass(eq=False)
class TokenReviews:
    """Token reviews for `nodes` nodes. `unix` is the wall clock, by which tokens expire."""

    call: Callable[[Call], Awaitable[bytes]]
    registry: prom.CollectorRegistry
    _: KW_ONLY
    nodes: int
    clock: Callable[[], float] = time.monotonic
    unix: Callable[[], float] = time.time
    _accounts: dict[_Key, _Known] = field(default_factory=dict)
    _refused: dict[_Key, _Known] = field(default_factory=dict)
    _under_way: dict[_Key, asyncio.Task[Account | Denied]] = field(default_factory=dict)
    _trouble: Denied | None = None
    _rests_until_s: float = 0.0

    def __post_init__(self) -> None:
        self._most = KEPT_PER_NODE * self.nodes
        self._secret = secrets.token_bytes(32)
        self._senders = SenderLimits(REFUSED_RATE, REFUSED_BURST)
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._rate = RequestRate(PER_S, int(PER_S), self.clock)
        results = ("accepted", "refused", "failed")
        self._results = counter(self.registry, "topo_master_kube_token_reviews", results)
        gauge(self.registry, "topo_master_kube_known_tokens", lambda: len(self._accounts))

    async def identity_of(self, token: str, wanted: Wanted, sender: str) -> Account | Denied:
        """Return the account of a token if it is the wanted one; `sender` is its address."""
        key = (keyed_digest(token, self._secret), wanted.audience)
        known = self._accounts.get(key) or self._refused.get(key)
        if known is not None and self.clock() < known.fresh_until_s:
            found = known.verdict
        else:
            found = await self._look_up(key, token, wanted, sender)
        return (wanted.denial(found) or found) if isinstance(found, Account) else found

    async def close(self) -> None:
        """Cancel the reviews in progress."""
        tasks = list(self._under_way.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(
        self, key: _Key, token: str, wanted: Wanted, sender: str
    ) -> Account | Denied:
        """Return the account of a token, from a stored verdict or a review; else the denial."""
        known = self._accounts.get(key)
        asked = self._review_in_progress(key, token, wanted, sender)
        if known is not None and self.clock() < known.late_from_s:
            return known.verdict
        found = asked if isinstance(asked, Denied) else await asyncio.shield(asked)
        is_no_answer = isinstance(found, Denied) and found.retry_after_s is not None
        if known is not None and is_no_answer and self.clock() < known.ends_s:
            return known.verdict
        return found

    def _review_in_progress(
        self, key: _Key, token: str, wanted: Wanted, sender: str
    ) -> "asyncio.Task[Account | Denied] | Denied":
        """Return the review in progress for the token, or why no review is started."""
        if key in self._under_way:
            return self._under_way[key]
        claims = self._claims_to_review(token, wanted)
        if isinstance(claims, Denied):
            return claims
        # For a known account it is asked in any case: no stranger's tokens may keep it alive.
        is_new = key not in self._accounts
        if is_new and not self._senders.take(sender, self.clock()):
            what = f"{REFUSED_BURST:g} tokens from here were refused, or are being asked about"
            return _later(
                ReportCondition.TOO_MANY_REFUSED,
                what,
                "mend the tokens that this address sends",
                1.0,
            )
        payer = sender if is_new else None
        task = asyncio.create_task(self._review_and_keep(key, token, claims.ends_unix_s, payer))
        self._under_way[key] = task
        return task

    def _claims_to_review(self, token: str, wanted: Wanted) -> Claims | Denied:
        """Return the claims of the token, or why the API server is not asked about it."""
        claims = claims_of(token)
        denied = claims if isinstance(claims, Denied) else wanted.denial(claims.account)
        denied = denied or self._current_failure()
        if denied is None and len(self._under_way) >= WAITING:
            what = f"{WAITING} tokens are being asked about already"
            denied = _later(ReportCondition.TOKEN_NOT_REVIEWED, what, "send it again", 1.0)
        return denied or claims

    def _current_failure(self) -> Denied | None:
        """Return the failure that pauses reviews now, None without one."""
        return self._trouble if self.clock() < self._rests_until_s else None

    async def _review_and_keep(
        self, key: _Key, token: str, ends_unix_s: float, payer: str | None
    ) -> Account | Denied:
        """Review the token and store the verdict; a refusal uses up the sender's allowance."""
        try:
            async with self._slots:
                await self._rate.take()
                found = await self._send_review(token, key[1])
        finally:
            del self._under_way[key]
        now_s = self.clock()
        is_refused = isinstance(found, Denied) and found.retry_after_s is None
        if payer is not None and not is_refused:
            self._senders.give_back(payer)
        if isinstance(found, Account):
            trusted_s = min(max(ends_unix_s - self.unix(), LEAST_S), MOST_S)
            fresh_s, late_s = min(FRESH_S, trusted_s), min(LATE_S, trusted_s)
            known = _Known(found, now_s + fresh_s, now_s + late_s, now_s + trusted_s)
            _remember(self._accounts, key, known, self._most)
        elif is_refused:
            self._accounts.pop(key, None)
            until_s = now_s + REFUSED_S
            _remember(self._refused, key, _Known(found, until_s, until_s, until_s), REFUSED_KEPT)
        return found

    async def _send_review(self, token: str, audience: str) -> Account | Denied:
        """Send one review."""
        if failed := self._current_failure():
            return failed  # it came while this one waited for its turn
        call = Call(
            method="POST",
            path=PATH,
            body=review_body(token, audience),
            timeout_s=TIMEOUT_S,
            urgent=True,  # what waits is a report, and the pace is kept here
        )
        try:
            found = read_review(await self.call(call))
        except KubeError as error:
            if error.failure is Failure.MALFORMED:
                what = "what answers is no TokenReview"
                return self._record_failure(what, "is this the address of an API server?", None)
            return self._record_failure(error.message, next_step(error), error.retry_after_s)
        self._trouble = None
        self._results.labels("accepted" if isinstance(found, Account) else "refused").inc()
        return found

    def _record_failure(self, why: str, fix: str, retry_after_s: float | None) -> Denied:
        self._results.labels("failed").inc()
        if self._trouble is None:
            _log.warning("Kubernetes cannot be asked about tokens", why=why, fix=fix)
        rest_s = min(max(retry_after_s or 0.0, REST_S), MOST_REST_S)
        self._rests_until_s = self.clock() + rest_s
        what = f"Kubernetes cannot be asked whose token this is: {why}"
        self._trouble = _later(ReportCondition.TOKEN_NOT_REVIEWED, what, fix, rest_s)
        return self._trouble


def _later(code: ReportCondition, what: str, fix: str, retry_after_s: float) -> Denied:
    return Denied(code, Refusal(what, "Authorization", fix), retry_after_s)


def _remember(index: dict[_Key, _Known], key: _Key, known: _Known, most: int) -> None:
    """Store a value, and drop the oldest beyond the limit."""
    index.pop(key, None)
    index[key] = known
    if len(index) > most:
        del index[next(iter(index))]

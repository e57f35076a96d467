"""The sender of a report: the holder of a token of the file, or a pod of the workers' account.

The file is checked first: it costs nothing, and hosts outside the cluster report beside those
inside. Kubernetes, where there is one, reviews a token that is not in the file.
"""

from dataclasses import dataclass

from aiohttp import web

from master.authentication.tokens import Tokens
from master.kube.service_accounts.accounts import Denied, Wanted
from master.kube.service_accounts.token_review import TokenReviews
from topo.kit.tokens import Identity, bearer
from topo.model.conditions.sources import ReportCondition
from topo.model.errors import Refusal

_UNKNOWN = "the report carries no token that is known here"
_WHERE = "Authorization"
_SEND = "send the worker's token (--token-file)"
_LET_IN = "start the master with --worker-token-file, or for trials with --allow-anonymous-workers"


@dataclass(frozen=True, slots=True)
class WorkerAccounts:
    """The service account of the workers, and the reviews of tokens."""

    reviews: TokenReviews
    wanted: Wanted


@dataclass(frozen=True, slots=True)
class WorkerIdentities:
    """Both ways to identify a worker. `tokens.accepted` is called for each accepted token."""

    tokens: Tokens
    accounts: WorkerAccounts | None = None

    async def identify(self, request: web.Request) -> Identity | Denied:
        """Return whom the request speaks for, without reading its body."""
        identity = self.tokens.identify(request)
        if identity is not None:
            return identity
        token = bearer(request.headers)
        if self.accounts is None or token is None:
            return self._unknown()
        reviews, wanted = self.accounts.reviews, self.accounts.wanted
        found = await reviews.identity_of(token, wanted, request.remote or "an unknown address")
        if isinstance(found, Denied):
            return found
        self.tokens.accepted(request)
        return Identity(found.node)

    def _unknown(self) -> Denied:
        if self.tokens.tokens is None and self.accounts is None:
            return Denied(ReportCondition.NO_TOKENS, Refusal(_UNKNOWN, _WHERE, _LET_IN))
        return Denied(ReportCondition.UNKNOWN_TOKEN, Refusal(_UNKNOWN, _WHERE, _SEND))

"""The credential of masters: a token of their own service account, or one that they share.

The leader's state tells more of machines than the open calls do, so only masters may read it. In a
cluster each has a token of its account, with an audience that no worker's token has, and the API
server reviews it. Elsewhere all have a file with the same token.
"""

import hmac
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from master.kube.service_accounts.accounts import Account, Claims, Wanted, claims_of
from master.kube.service_accounts.token_review import TokenReviews
from topo.kit.secrets import read_token
from topo.kit.threads import off_loop
from topo.kit.tokens import bearer
from topo.model.errors import BadInputError

AUDIENCE = "topo-master-replica"
READ_EVERY_S = 60.0
"""A projected token is replaced after four fifths of its life, of ten minutes at least."""


@dataclass(slots=True, eq=False, repr=False)
class Credential:
    """This master's token, and the check of others. `clock` is monotonic."""

    path: Path
    reviews: TokenReviews
    clock: Callable[[], float] = time.monotonic
    _own: tuple[float, str] | None = None

    async def own(self) -> str:
        """Return this master's token. Raises `BadInputError`."""
        now_s = self.clock()
        if self._own is None or now_s - self._own[0] >= READ_EVERY_S:
            self._own = now_s, await off_loop(partial(read_token, self.path))
        return self._own[1]

    async def admits(self, request: web.Request) -> bool:
        """Return whether a request is a master's."""
        shown = bearer(request.headers)
        try:
            own = await self.own()
        except BadInputError:
            return False
        if shown is None:
            return False
        if hmac.compare_digest(shown.encode("utf-8", "surrogatepass"), own.encode()):
            return True
        ours = claims_of(own)
        if not isinstance(ours, Claims):
            return False  # it is shared by all masters, and no account's
        wanted = Wanted(account=ours.account.name, audience=AUDIENCE)
        sender = request.remote or "an unknown address"
        return isinstance(await self.reviews.identity_of(shown, wanted, sender), Account)

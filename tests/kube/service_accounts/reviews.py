"""Tokens, and a world in which they are asked about."""

import asyncio
from typing import Any

import prometheus_client as prom

from master.kube.service_accounts.accounts import (
    Account,
    Denied,
    Wanted,
)
from master.kube.service_accounts.token_review import (
    TokenReviews,
)
from tests.kube.service_accounts.reviewing import WORKERS, Reviewer, token

GOOD = token()


HERE = "10.0.0.1"


NODES = 200


class World:
    """An API server, a clock that stands, and who asks."""

    def __init__(self, call: Any = None) -> None:
        self.server = Reviewer()
        self.registry = prom.CollectorRegistry()
        self.began_s = asyncio.get_running_loop().time()
        self.skew_s = 0.0
        self.reviews = TokenReviews(
            call or self.server.call,
            self.registry,
            nodes=NODES,
            clock=self.clock,
            unix=self.unix,
        )

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    def unix(self) -> float:
        return self.clock() - self.began_s + self.skew_s

    async def ask(
        self, text: str = GOOD, wanted: Wanted = WORKERS, sender: str = HERE
    ) -> Account | Denied:
        return await self.reviews.identity_of(text, wanted, sender)

    async def accepted(self, text: str = GOOD, **options: Any) -> Account:
        found = await self.ask(text, **options)
        assert isinstance(found, Account), found
        return found

    async def denied(self, text: str = GOOD, **options: Any) -> Denied:
        found = await self.ask(text, **options)
        assert isinstance(found, Denied), found
        assert found.refusal.what
        assert found.refusal.fix
        assert text not in str(found)
        return found

    def count(self, result: str) -> float | None:
        labels = {"result": result}
        return self.registry.get_sample_value("topo_master_kube_token_reviews_total", labels)

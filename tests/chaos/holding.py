"""Clients that hold, keep and give back GPUs all the time, and one that lists what is held."""

import asyncio
import random
from collections.abc import Callable, Iterable
from typing import Any, Protocol

from aiohttp import ClientSession, ClientTimeout

from tests.chaos.model.ledger import Ledger, Promise
from tests.chaos.model.service import answered
from tests.chaos.model.verdicts import Violation
from tests.chaos.notes import Notes
from tests.chaos.readers import LOST

_CLIENTS = 4
_PATIENCE = ClientTimeout(total=30)
_AGAIN_S = 0.3
_UNDECIDED = frozenset({0, 401, 429, 500, 502, 503, 504})
"""Statuses after which a client asks the same again; 0 is no answer."""


class CurrentToken(Protocol):
    """The token that is in force."""

    @property
    def current(self) -> str:
        """The token of this moment."""
        ...


class Holders:
    """Clients of `/v1/holds`. Every promise and every list goes to the ledger.

    `url` is where a call goes, asked for at each; `given` judges a promise beside other things.
    """

    def __init__(
        self,
        url: Callable[[], str],
        tokens: CurrentToken,
        ledger: Ledger,
        notes: Notes,
        given: Callable[[Promise], Iterable[Violation]] = lambda _: (),
    ) -> None:
        self._given = given
        self._url, self._tokens, self._ledger, self._notes = url, tokens, ledger, notes
        self._now = asyncio.get_running_loop().time

    def run(
        self, group: asyncio.TaskGroup, session: ClientSession, seed: int
    ) -> list[asyncio.Task[None]]:
        """Works until cancelled."""
        clients = [
            group.create_task(self._client(session, number, random.Random(f"{seed}/{number}")))
            for number in range(_CLIENTS)
        ]
        return [*clients, group.create_task(self._list(session))]

    async def _client(self, session: ClientSession, number: int, chance: random.Random) -> None:
        count = 0
        while True:
            count += 1
            job = {
                "pods": chance.randint(1, 3),
                "gpus_per_pod": chance.choice((1, 2, 4, 8)),
                "hold_s": chance.choice((3.0, 8.0, 25.0, 60.0)),
                "key": f"job-{number}-{count}",
            }
            promise = await self._ask(session, job)
            if promise is not None:
                await asyncio.sleep(chance.uniform(0, 4))
                await self._use(session, promise, chance)
            await asyncio.sleep(chance.uniform(0.1, 1))

    async def _ask(self, session: ClientSession, job: dict[str, Any]) -> Promise | None:
        """The hold, asked for with the same key until there is an answer; None where none fits."""
        asked_s = self._now()
        status, said = await self._call(session, "POST", "/v1/holds", job)
        if status != 200 or not said.get("feasible"):
            return None
        promise = Promise(
            id=said["hold"]["id"],
            asked_s=asked_s,
            acked_s=self._now(),
            hold_s=job["hold_s"],
            gpus=_gpus(said, job["gpus_per_pod"]),
        )
        found = (*self._ledger.acknowledge(promise), *self._given(promise))
        self._notes.judged("holds given", found)
        return promise

    async def _use(self, session: ClientSession, promise: Promise, chance: random.Random) -> None:
        """Lets it run out, gives it back, or keeps it for a while and then gives it back."""
        end = chance.choice(("runs out", "released", "committed"))
        if end == "runs out":
            return
        path = f"/v1/holds/{promise.id}"
        if end == "committed":
            promise.committing, sent_s = True, self._now()
            status, _ = await self._call(session, "POST", f"{path}/commit", None)
            found = () if status == 200 else self._ledger.missing(promise, sent_s, self._now())
            self._notes.judged("holds kept", found)
            self._ledger.committed(promise.id, kept=status == 200)
            await asyncio.sleep(chance.uniform(0, 20))
        promise.releasing = True
        await self._call(session, "DELETE", path, None)
        self._notes.judged("holds ended", ())
        self._ledger.ended(promise.id, self._now())

    async def _call(
        self, session: ClientSession, method: str, path: str, body: Any
    ) -> tuple[int, Any]:
        """The first answer that decides; each try has the token of its moment."""
        while True:
            headers = {"Authorization": f"Bearer {self._tokens.current}"}
            try:
                async with session.request(
                    method, f"{self._url()}{path}", json=body, headers=headers, timeout=_PATIENCE
                ) as answer:
                    said = await answer.json(content_type=None) if answer.status != 204 else {}
                    status = answer.status
            except LOST:
                status, said = 0, {}
            for violation in answered(f"{method} {path}", status):
                self._notes.found(violation)
            if status not in _UNDECIDED:
                return status, said
            await asyncio.sleep(_AGAIN_S)

    async def _list(self, session: ClientSession) -> None:
        while True:
            sent_s = self._now()
            try:
                async with session.get(f"{self._url()}/v1/holds", timeout=_PATIENCE) as answer:
                    # What a follower shows was so a moment ago, and says so.
                    is_current = answer.status == 200 and "Topo-Age" not in answer.headers
                    said = await answer.json() if is_current else None
            except LOST:
                said = None
            if said is not None:
                listed = {hold["id"] for hold in said["holds"]}
                found = self._ledger.judge(listed, sent_s, self._now())
                self._notes.judged("/v1/holds", found)
            await asyncio.sleep(0.4)


def _gpus(said: Any, per_pod: int) -> dict[str, int]:
    """GPUs by node of an answer with a plan."""
    rows = [node for group in said["groups"] for node in group["nodes"]]
    return {row["name"]: row["pods"] * per_pod for row in rows}

"""Readers that look at the master all the time, and have every answer judged."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

from aiohttp import ClientError, ClientSession, ClientTimeout, StreamReader

from tests.chaos.model.generations import EventJudge, GenerationJudge
from tests.chaos.model.service import Service, answered
from tests.chaos.model.trees import TreeJudge, tree_of
from tests.chaos.model.truth import Tree, Truth
from tests.chaos.model.verdicts import Kind
from tests.chaos.notes import Notes

LOST = (ClientError, OSError, TimeoutError, ValueError)
"""What a question may end with while the master is killed under it."""
_PATIENCE = ClientTimeout(total=60)


class Readers:
    """One reader per document; `tree` and `generation` are what was seen last, and when asked."""

    def __init__(self, url: str, truth: Truth, service: Service, notes: Notes) -> None:
        self._url, self._truth, self._service, self._notes = url, truth, service, notes
        self.tree: tuple[float, Tree] = (0.0, ())
        self.generation: tuple[float, str, int] = (0.0, "", 0)
        self.events = EventJudge()
        self._now = asyncio.get_running_loop().time

    def run(self, group: asyncio.TaskGroup, session: ClientSession) -> list[asyncio.Task[None]]:
        """Reads until cancelled."""
        work = (self._node_groups, self._topologies, self._listen, self._health)
        return [group.create_task(each(session)) for each in work]

    async def _node_groups(self, session: ClientSession) -> None:
        judge = TreeJudge(self._truth)

        def look(document: Any, tag: str, sent_s: float) -> None:
            found = list(judge.judge(document, tag, sent_s))
            self._notes.judged("/node_group", found)
            if all(violation.kind is not Kind.SHAPE for violation in found):
                self.tree = (sent_s, tree_of(document))

        await self._poll(session, "/node_group", 0.1, look)

    async def _topologies(self, session: ClientSession) -> None:
        judge, told = GenerationJudge(), list[str]()

        def look(document: Any, _tag: str, sent_s: float) -> None:
            found = list(judge.judge(document))
            self._notes.judged("/v1/topology", found)
            if any(violation.kind is Kind.SHAPE for violation in found):
                return
            self.generation = (sent_s, judge.run, judge.generation)
            if (reasons := list(_reasons(document["groups"]))) != told:
                told[:] = reasons
                self._notes.say(f"reasons {'; '.join(reasons) or 'none'}")

        await self._poll(session, "/v1/topology", 0.4, look)

    async def _poll(
        self,
        session: ClientSession,
        path: str,
        every_s: float,
        look: Callable[[Any, str, float], None],
    ) -> None:
        """Asks again and again; whatever is answered with 200 is looked at."""
        while True:
            sent_s = self._now()
            try:
                async with session.get(f"{self._url}{path}", timeout=_PATIENCE) as answer:
                    body = await answer.read()
            except LOST:
                await asyncio.sleep(every_s)
                continue
            for violation in answered(path, answer.status):
                self._notes.found(violation)
            if answer.status == 200:
                look(_parsed(body), answer.headers.get("ETag", ""), sent_s)
            await asyncio.sleep(every_s)

    async def _listen(self, session: ClientSession) -> None:
        """Follows the events, from where it was when the master went."""
        limit = ClientTimeout(total=None, sock_read=40)
        while True:
            headers = {"Last-Event-ID": self.events.last_id} if self.events.last_id else {}
            try:
                url = f"{self._url}/v1/topology/events"
                async with session.get(url, headers=headers, timeout=limit) as answer:
                    if answer.status == 200:
                        await self._take(answer.content)
            except LOST:
                pass
            await asyncio.sleep(0.2)

    async def _take(self, stream: StreamReader) -> None:
        """Events as HTML's section on server-sent events has them, as far as they are used here."""
        fields: dict[str, str] = {}
        async for line in stream:
            name, _, value = line.decode().rstrip("\n").partition(": ")
            if name:
                fields[name] = value
            elif "event" in fields:
                self._event(fields)
            fields = fields if name else {}

    def _event(self, fields: dict[str, str]) -> None:
        data = _parsed(fields.get("data", "").encode())
        found = self.events.judge(fields["event"], fields.get("id", ""), data)
        self._notes.judged("events", found)

    async def _health(self, session: ClientSession) -> None:
        """A connection for each question, as a kubelet asks."""
        limit = ClientTimeout(total=2 * self._truth.bounds.health_s)
        while True:
            sent_s, status = self._now(), None
            was_serving = self._truth.is_serving(sent_s)
            try:
                url, close = f"{self._url}/health", {"Connection": "close"}
                async with session.get(url, headers=close, timeout=limit) as answer:
                    status = answer.status
            except LOST:
                pass
            done_s = self._now()
            if status == 200:
                self._truth.master_answered(done_s)
            if was_serving:
                self._notes.judged("/health", self._service.health(status, sent_s, done_s))
                if self._truth.is_serving(sent_s):
                    self._notes.health_s.append(done_s - sent_s)
            await asyncio.sleep(0.25)


def _parsed(body: bytes) -> Any:
    """The document; what is no JSON is shown to the judge as the text that it is."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", "replace")


def _reasons(vertices: Any) -> Iterator[str]:
    """Why the nodes of a tree are not Ready."""
    for vertex in vertices:
        if vertex["kind"] == "node":
            yield from (f"{vertex['name']}: {reason['text']}" for reason in vertex["reasons"])
        else:
            yield from _reasons(vertex["child"])

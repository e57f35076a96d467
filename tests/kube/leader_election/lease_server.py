"""An API server that knows one Lease, and can be slow, ill and deaf in every way.

The real one cannot be made to answer late, twice or not at all at a given moment.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import orjson

from master.kube.client import Call
from master.kube.errors import KubeError


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens to one call: it arrives late, fails before or after it counts, answers late."""

    before_s: float = 0.0
    after_s: float = 0.0
    refused: int | None = None
    """The status that is answered instead of doing what was asked."""
    is_cut: bool = False
    """The connection breaks after the call counted and before the answer."""


NO_FAULT = Fault()


@dataclass
class LeaseServer:
    """Keeps the object; `writes` are the holders that were written, in order."""

    stored: dict[str, Any] | None = None
    writes: list[str] = field(default_factory=list)
    _versions: Iterator[int] = field(default_factory=lambda: count(1))

    def spec(self) -> Any:
        """What the record says now."""
        return (self.stored or {})["spec"]

    async def do(self, call: Call, fault: Fault) -> bytes:
        """One call; what is under way goes on where its caller has given up."""
        task = asyncio.get_running_loop().create_task(self._do(call, fault))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(task)

    async def _do(self, call: Call, fault: Fault) -> bytes:
        await asyncio.sleep(fault.before_s)
        if fault.refused is not None:
            raise KubeError("refused", status=fault.refused)
        answer = self._read() if call.method == "GET" else self._write(call)
        await asyncio.sleep(fault.after_s)
        if fault.is_cut:
            raise KubeError("the connection broke")
        return answer

    def _read(self) -> bytes:
        if self.stored is None:
            raise KubeError("there is none", status=404)
        return orjson.dumps(self.stored)

    def _write(self, call: Call) -> bytes:
        new = orjson.loads(call.body or b"")
        if call.method == "POST" and self.stored is not None:
            raise KubeError("it is there", status=409)
        if call.method == "PUT":
            if self.stored is None:
                raise KubeError("there is none", status=404)
            if new["metadata"]["resourceVersion"] != self.stored["metadata"]["resourceVersion"]:
                raise KubeError("it has changed", status=409)
        new["metadata"]["resourceVersion"] = str(next(self._versions))
        self.stored = new
        self.writes.append(new["spec"]["holderIdentity"])
        return orjson.dumps(new)


@dataclass
class Client:
    """One candidate's way to the server; `fault` says what happens to its next call."""

    server: LeaseServer
    fault: Callable[[], Fault] = lambda: NO_FAULT
    calls: list[Call] = field(default_factory=list)

    async def call(self, call: Call) -> bytes:
        """See `KubeClient.call`."""
        self.calls.append(call)
        try:
            async with asyncio.timeout(call.timeout_s):
                return await self.server.do(call, self.fault())
        except TimeoutError:
            raise KubeError("no answer in time") from None

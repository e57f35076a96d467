"""Reports of many workers from one process: what each says, when, and again until it arrives.

A worker of a world says everything at first and whenever its file of faults has changed, and beats
in between as often as the master asks. It has no probes; all else is `topo.model.wire`, as of
`topo-worker`.
"""

import asyncio
import random
import secrets
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from pydantic import ValidationError

from topo.model.machine import NodeFacts
from topo.model.wire import REPORTS_PATH, TRY_LIMIT_S, Report, ReportAnswer
from topo.recording.timeline import Fault, apply, is_silent, parse_faults

LOOK_S = 0.5
"""How often the files of faults are looked at: all of 10,000 in some ten milliseconds."""
QUICK_S = 0.2
READINGS = 3
"""A change is said at once and again so often, which is what a master believes at most."""
_AT_ONCE = 32
_REST_S = 1.0


@dataclass(slots=True)
class FleetWorker:
    """One worker: what its healthy host has, its token, the file of its faults."""

    healthy: NodeFacts
    token: str
    faults_file: Path
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    faults: frozenset[Fault] = frozenset()
    _stamp: int = 0
    _seq: int = -1

    def look(self) -> None:
        """Take up what its file says, if it changed. A file that is not understood is left out."""
        try:
            stamp = self.faults_file.stat().st_mtime_ns
            text = self.faults_file.read_text("utf-8") if stamp != self._stamp else None
        except FileNotFoundError:
            stamp, text = 0, "" if self._stamp else None
        except (OSError, UnicodeDecodeError):
            return
        if text is None:
            return
        self._stamp = stamp
        found = parse_faults(text)
        if isinstance(found, frozenset) and found != self.faults:
            self.faults = found
            self.changed.set()

    def report(self, instance: str, *, is_full: bool) -> Report:
        """Return its next report: everything, or that nothing changed."""
        self._seq += 1
        node = self.healthy.identity.name
        if not is_full:
            return Report(node=node, instance=instance, seq=self._seq, kind="beat")
        facts = apply(self.faults, self.healthy)
        return Report(node=node, instance=instance, seq=self._seq, kind="full", facts=facts)


class Fleet:
    """The workers of a world, which report to `url` until `run` is cancelled."""

    def __init__(self, url: str, workers: Sequence[FleetWorker]) -> None:
        self._url = f"{url}{REPORTS_PATH}"
        self._workers = workers
        self._instance = secrets.token_hex(8)
        self._trouble = ""

    async def run(self) -> None:
        """Report for ever; what does not arrive is told once and tried again."""
        connector = aiohttp.TCPConnector(limit=_AT_ONCE)
        timeout = aiohttp.ClientTimeout(total=TRY_LIMIT_S)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            for worker in self._workers:
                group.create_task(self._live(session, worker))
            while True:
                for worker in self._workers:
                    worker.look()
                await asyncio.sleep(LOOK_S)

    async def _live(self, session: aiohttp.ClientSession, worker: FleetWorker) -> None:
        is_full, spread = True, random.uniform(0, 1)
        while True:
            pause_s = _REST_S
            if not is_silent(worker.faults, worker.healthy.identity.name):
                answer = await self._said(session, worker, is_full=is_full)
                is_full = answer is None or answer.want == "full"
                if answer is not None and not is_full:
                    pause_s, spread = answer.beat_s * (1 - spread), 0.0
            try:
                await asyncio.wait_for(worker.changed.wait(), pause_s)
            except TimeoutError:
                continue
            worker.changed.clear()
            for _ in range(READINGS - 1):
                if not is_silent(worker.faults, worker.healthy.identity.name):
                    await self._said(session, worker, is_full=True)
                await asyncio.sleep(QUICK_S)
            is_full = True

    async def _said(
        self, session: aiohttp.ClientSession, worker: FleetWorker, *, is_full: bool
    ) -> ReportAnswer | None:
        """Return the master's answer; None where the report may not have arrived."""
        body = worker.report(self._instance, is_full=is_full).model_dump_json(exclude_unset=True)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {worker.token}"}
        try:
            async with session.post(self._url, data=body, headers=headers) as answer:
                text = await answer.text()
                if answer.status == 200:
                    self._trouble = ""
                    return ReportAnswer.model_validate_json(text)
                self._tell(f"the master answers {answer.status}: {text[:200]}")
        except (aiohttp.ClientError, OSError, ValidationError) as error:
            self._tell(f"the master does not answer: {error}")
        return None

    def _tell(self, trouble: str) -> None:
        if trouble != self._trouble:
            sys.stderr.write(f"{trouble}\n")
        self._trouble = trouble


def tokens_of(lines: Iterable[str]) -> Mapping[str, str]:
    """Return token by node, of the file that the master takes them from."""
    words = (line.split() for line in lines)
    return {each[0]: each[1] for each in words if len(each) == 2}

"""The source that watches a folder of fabric dumps, and keeps the last good one of each file.

A dump that was cut off does not replace a whole one, and a file that cannot be read or is gone
takes nothing away: both are warnings of the source, as is a file that nobody writes any more. A
file that is gone is forgotten once others describe all of its switches, as where each dump gets a
name of its own.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from master.sources.row import SourceContext, SourceRow
from master.tree.engine import EventSink, send_event
from topo.discovery.sources import DUMPED
from topo.facts.infiniband import ibnetdiscover
from topo.kit.files import LOOK_S, WatchedFile, call_unless_silent
from topo.kit.tasks import Work
from topo.kit.threads import off_loop
from topo.model.conditions.sources import SourceCondition
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.forest import SourceWarning
from topo.model.observation import FABRIC, FabricLoaded, SourceFailed, SourceWarned

_log = structlog.get_logger(__name__)

MAX_DUMP_BYTES = 64 << 20
"""A dump of 10,000 hosts with eight adapters each has 32 MB."""
MAX_DUMPS = 64
OLD_S = 86400.0
"""A file that was not written for so long describes a fabric that has changed since."""
_NAME = re.compile(r"\w[\w.-]{0,199}(?<!\.new)(?<!\.tmp)(?<!\.part)", re.ASCII)
"""Not those of editors and mounted ConfigMaps, which begin with a dot, nor what is written yet."""


@dataclass(slots=True)
class _Dump:
    """One file: what it says now, and the last whole dump of it."""

    watched: WatchedFile
    good: FabricDump | None = None
    refusal: Refusal | None = None

    def take(self, content: bytes | Refusal) -> bool:
        """Take new content; whether another dump counts now."""
        before = self.good
        found = content if isinstance(content, Refusal) else _parsed(content)
        self.refusal = found if isinstance(found, Refusal) else None
        if isinstance(found, FabricDump):
            if found.missing and before is not None and not before.missing:
                what = f"it is cut off ({found.missing}), and the whole dump before it counts"
                self.refusal = Refusal(what, self.watched.path.name, "write the file again")
            else:
                self.good = found
        return self.good != before


@dataclass(slots=True)
class FabricFiles:
    """Polls the folder every `LOOK_S` and sends changes: all dumps, or why there are none."""

    sink: EventSink
    folder: Path
    now: Callable[[], float] = time.time
    """Seconds since 1970, as the files have them."""
    _dumps: dict[str, _Dump] = field(default_factory=dict)
    _gone: set[str] = field(default_factory=set)
    _unread: tuple[str, ...] = ()
    """What keeps files from being read, a sentence each."""

    async def run(self) -> None:
        """Poll until cancelled."""
        sent: tuple[str, ...] | None = None
        """The warnings that the master has; None before the first look."""
        while True:
            changed = await off_loop(self._look)
            warnings = tuple(self._warnings())
            if changed:
                await send_event(self.sink, self._loaded())
            if warnings != sent:
                for text in warnings:
                    if text not in (sent or ()):
                        _log.warning("fabric dump: what was known stays", reason=text)
                sent = warnings
                await self._tell(warnings)
            await asyncio.sleep(LOOK_S)

    def _look(self) -> bool:
        """Read what changed; whether other dumps count now."""
        names = call_unless_silent(self.folder, self._list)
        if isinstance(names, Refusal):
            self._unread = (str(names),)
            return False
        read = sorted(names)[-MAX_DUMPS:]
        beyond = len(names) - len(read)
        what = f"{beyond} files beyond {MAX_DUMPS} are not read: keep one for each subnet there"
        self._unread = (what,) if beyond else ()
        self._gone = self._dumps.keys() - set(read)
        changed = self._forget_covered()
        for name in read:
            if name not in self._dumps:
                self._dumps[name] = _Dump(WatchedFile(self.folder / name, MAX_DUMP_BYTES))
            dump = self._dumps[name]
            content = dump.watched.poll()
            if content is not None:
                changed |= dump.take(content)
        return changed

    def _list(self, _alive: Callable[[], None]) -> set[str] | Refusal:
        """Return the names of the files in the folder; none where there is no folder."""
        try:
            return {each.name for each in self.folder.iterdir() if _NAME.fullmatch(each.name)}
        except FileNotFoundError:
            return set()
        except OSError as error:
            what = f"the folder cannot be listed: {error.strerror}"
            return Refusal(what, str(self.folder), "let the master's user read it")

    def _forget_covered(self) -> bool:
        """Forget files that are gone and that others cover; whether other dumps count now."""
        there = (dump.good for name, dump in self._dumps.items() if name not in self._gone)
        known = {each.guid for dump in there if dump is not None for each in dump.switches}
        changed = False
        for name in sorted(self._gone):
            good = self._dumps[name].good
            if good is None or all(each.guid in known for each in good.switches):
                del self._dumps[name]
                self._gone.discard(name)
                changed |= good is not None
        return changed

    def _loaded(self) -> FabricLoaded:
        dumps = ((name, each.good) for name, each in sorted(self._dumps.items()))
        found = tuple((name, dump) for name, dump in dumps if dump is not None)
        _log.info("fabric dumps read", folder=str(self.folder), dumps=[name for name, _ in found])
        return FabricLoaded(found)

    def _warnings(self) -> Iterator[str]:
        """Yield what is wrong with the files, a sentence each."""
        yield from self._unread
        for name, dump in sorted(self._dumps.items()):
            if name in self._gone:
                yield f"{name} is gone; what it said stays until others describe its switches"
            elif dump.refusal is not None:
                yield f"{name}: {dump.refusal}"
            elif self.now() - (dump.watched.written_at_s or self.now()) > OLD_S:
                timer = f"the timer of {ibnetdiscover.COMMAND}"
                yield f"{name} was not written for a day: see to {timer}"

    async def _tell(self, warnings: tuple[str, ...]) -> None:
        if all(each.good is None for each in self._dumps.values()):
            what = "; ".join(warnings) or f"there is no dump in {self.folder}"
            fix = f"write the output of `{ibnetdiscover.COMMAND}` into a file there"
            await send_event(self.sink, SourceFailed(FABRIC, what, fix))
        of_each = SourceWarning.of_each(SourceCondition.DOUBTFUL_FABRIC, warnings)
        await send_event(self.sink, SourceWarned(FABRIC, of_each))


def _parsed(content: bytes) -> FabricDump | Refusal:
    """Return the dump of a file's content; its warnings are those of a dump that is not whole."""
    found = ibnetdiscover.read(content.decode("utf-8", errors="replace").replace("\r", ""))
    if isinstance(found, Refusal):
        return found
    (dump,) = (fact for fact in found.facts if isinstance(fact, FabricDump))
    return dump


def _start(context: SourceContext) -> Work:
    return FabricFiles(context.sink, context.settings.fabric_dir).run


ROW = SourceRow(DUMPED, _start)

"""The source of fabric dumps: a watched folder, sweeps of named nodes, a cluster manager's answers.

The last good dump of each name stays: a file that cannot be read or is gone, a node that sweeps
no more, and a manager that fails take nothing away. They are warnings of the source, as is a dump
that was not renewed for a day. The source forgets a dump that is gone once other dumps describe all
of its switches, as where each file gets a new name, or a subnet is swept from another port.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from master.sources.fabric.dumps import Dump
from master.sources.polled import FoundDump, PolledFabric
from master.sources.row import SourceContext, SourceRow
from master.sources.workers.sweeps import Sweeps, SweptDump, unpacked
from master.tree.engine import EventSink, send_event
from topo.discovery.sources import DUMPED
from topo.facts.infiniband import ibnetdiscover
from topo.kit.files import LOOK_S, WatchedFile, call_unless_silent
from topo.kit.metrics import gauge_family
from topo.kit.tasks import Work
from topo.kit.threads import off_loop
from topo.model.conditions.sources import SourceCondition
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.forest import SourceWarning
from topo.model.observation import FABRIC, FabricLoaded, SourceFailed, SourceRecovered, SourceWarned
from topo.model.wire import MAX_DUMP_BYTES

_log = structlog.get_logger(__name__)

MAX_DUMPS = 64
"""Files of the folder that are read."""
OLD_S = 86400.0
"""A fabric has changed since a dump of it that is older."""
_NAME = re.compile(r"\w[\w.-]{0,199}(?<!\.new)(?<!\.tmp)(?<!\.part)", re.ASCII)
"""Not those of editors and mounted ConfigMaps, which begin with a dot, nor what is written yet."""


@dataclass(slots=True)
class FabricDumps:
    """Looks every `LOOK_S` and sends changes: all dumps, or why there are none."""

    sink: EventSink
    folder: Path
    sweeps: Sweeps
    polled: PolledFabric
    now: Callable[[], float] = time.time
    """Seconds since 1970, as the files have them."""
    _dumps: dict[str, Dump] = field(default_factory=dict)
    _files: dict[str, WatchedFile] = field(default_factory=dict)
    _made_at: dict[str, float] = field(default_factory=dict)
    """When each dump was written or swept last, by the clock of `now`."""
    _shown: dict[str, float] = field(default_factory=dict)
    """The same, for a scrape while a look is under way."""
    _gone: set[str] = field(default_factory=set)
    _unread: tuple[str, ...] = ()
    """What keeps files from being read, a sentence each."""

    async def run(self) -> None:
        """Look until cancelled."""
        sent: tuple[str, ...] | None = None
        """The warnings that the master has; None before the first look."""
        while True:
            listed: tuple[SweptDump | FoundDump, ...]
            listed = (*self.sweeps.dumps(), *self.polled.dumps())
            changed = await off_loop(partial(self._look, listed))
            before, self._shown = self._shown, dict(self._made_at)
            warnings = tuple(self._warnings())
            if changed:
                await send_event(self.sink, self._loaded())
            elif self._shown != before and self._has_any:
                await send_event(self.sink, SourceRecovered(FABRIC))
            if warnings != sent:
                for text in warnings:
                    if text not in (sent or ()):
                        _log.warning("fabric dump: what was known stays", reason=text)
                sent = warnings
                await self._tell(warnings)
            await asyncio.sleep(LOOK_S)

    def ages_s(self) -> dict[str, float]:
        """Return for each dump the seconds since it was written or swept last."""
        now = self.now()
        return {name: max(0.0, now - at) for name, at in self._shown.items()}

    @property
    def _has_any(self) -> bool:
        return any(each.good is not None for each in self._dumps.values())

    def _look(self, listed: Sequence[SweptDump | FoundDump]) -> bool:
        """Read what changed; whether other dumps count now."""
        there: set[str] = set()
        before = dict(self._made_at)
        changed = self._take_files(there)
        changed |= self._take_listed(listed, there)
        self._gone = self._dumps.keys() - there
        changed |= self._forget_covered()
        self._made_at = {n: at for n, at in self._made_at.items() if n in self._dumps}
        if changed or self._made_at != before:
            for dump in self._dumps.values():
                changed |= dump.renew(self._dumps.values())
        return changed

    def _take_files(self, there: set[str]) -> bool:
        """Read the files that changed, and add the names of all; whether other dumps count now."""
        names = call_unless_silent(self.folder, self._list)
        if isinstance(names, Refusal):
            self._unread = (str(names),)
            there |= self._files.keys()
            return False
        read = sorted(names)[-MAX_DUMPS:]
        beyond = len(names) - len(read)
        what = f"{beyond} files beyond {MAX_DUMPS} are not read: keep one for each subnet there"
        self._unread = (what,) if beyond else ()
        there |= set(read)
        for name in self._files.keys() - there:
            del self._files[name]
        changed = False
        for name in read:
            file = self._files.setdefault(name, WatchedFile(self.folder / name, MAX_DUMP_BYTES))
            content, dump = file.poll(), self._dump(name, "write the file again")
            written_at_s = file.written_at_s or self.now()
            changed |= self._take(dump, content, written_at_s)
        return changed

    def _take_listed(self, listed: Sequence[SweptDump | FoundDump], there: set[str]) -> bool:
        """Read what nodes and the manager sent, and add all names; whether others count now."""
        changed = False
        for each in listed:
            there.add(each.name)
            dump = self._dump(each.name, "see to its fabric, or ask another host")
            changed |= self._take(dump, _news(each), float(each.found_at))
        return changed

    def _take(self, dump: Dump, news: bytes | FabricDump | Refusal | None, found_at: float) -> bool:
        """Take what is new of a dump, or that it was found again; whether another counts now."""
        changed = news is not None and dump.take(news, found_at)
        if dump.refusal is None:
            dump.found_at = self._made_at[dump.name] = found_at
        return changed

    def _dump(self, name: str, again: str) -> Dump:
        return self._dumps.setdefault(name, Dump(name, again))

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
        """Forget dumps that are gone and that others cover; whether other dumps count now."""
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
        _log.info("fabric dumps read", dumps=[name for name, _ in found])
        return FabricLoaded(found)

    def _warnings(self) -> Iterator[str]:
        """Yield what is wrong with the dumps, a sentence each."""
        yield from self._unread
        yield from self.sweeps.warnings()
        for name, dump in sorted(self._dumps.items()):
            if name in self._gone:
                yield f"{name} is gone; what it said stays until others describe its switches"
            elif dump.refusal is not None:
                yield f"{name}: {dump.refusal}"
            elif self.now() - self._made_at.get(name, self.now()) > OLD_S:
                timer = f"the timer of {ibnetdiscover.COMMAND}"
                yield f"{name} was not made anew for a day: see to {timer}"

    async def _tell(self, warnings: tuple[str, ...]) -> None:
        if not self._has_any:
            what = "; ".join(warnings) or f"there is no dump in {self.folder}"
            fix = (
                f"write the output of `{ibnetdiscover.COMMAND}` into a file there, "
                "or name nodes that sweep in --fabric-sweep-nodes"
            )
            if self.polled.name:
                what = "; ".join(warnings) or f"{self.polled.name} has not answered yet"
                fix = "see to the cluster manager, or to its mapping file"
            await send_event(self.sink, SourceFailed(FABRIC, what, fix))
        of_each = SourceWarning.of_each(SourceCondition.DOUBTFUL_FABRIC, warnings)
        await send_event(self.sink, SourceWarned(FABRIC, of_each))


@dataclass(frozen=True, slots=True, eq=False)
class _Ages(Collector):
    """The age of each dump at a scrape."""

    dumps: FabricDumps

    def collect(self) -> Iterator[Metric]:
        yield gauge_family("topo_master_fabric_dump_age_seconds", self.dumps.ages_s())


def _news(each: SweptDump | FoundDump) -> bytes | FabricDump | Refusal | None:
    if isinstance(each, FoundDump):
        return each.news
    return None if each.packed is None else unpacked(each.name, each.packed)


def _start(context: SourceContext) -> Work:
    folder = context.settings.fabric_dir
    dumps = FabricDumps(context.sink, folder, context.sweeps, context.polled)
    context.registry.register(_Ages(dumps))
    return dumps.run


ROW = SourceRow(DUMPED, _start)

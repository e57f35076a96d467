"""Compares the plan of the cables with what this master sees: dumps, LLDP, node links.

The plan is a file or a NetBox (`netbox`). It is compared again when it differs, or anything else
that the findings rest on. That takes seconds for a hundred thousand cables, so it is done in a
thread and at most a twentieth of the time. Only a master that acts compares: a follower sees no
worker and no dump.
"""

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import orjson
import structlog
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from master.current_topology import CurrentTopology
from master.file_warnings import FileWarnings
from master.tree import topology_document
from master.tree.engine import Clock, EventSink
from topo.diagnosis.wiring.compare import CableVerdict, compare
from topo.diagnosis.wiring.cost import CableCost, Job
from topo.diagnosis.wiring.document import Compared, wiring_document
from topo.diagnosis.wiring.neighbours import seen_by_neighbours
from topo.diagnosis.wiring.own_ports import own_ports
from topo.diagnosis.wiring.report import counts
from topo.diagnosis.wiring.seen import joined, read_plan_or_dump, seen_in_dumps
from topo.diagnosis.wiring.tree import costs_of, seen_by, silent_nodes
from topo.facts.plans.plan import CablePlan
from topo.kit.files import LOOK_S, WatchedFile
from topo.kit.metrics import gauge_family
from topo.kit.threads import off_loop
from topo.model.conditions.master import MasterCondition
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.ids import NodeName
from topo.model.isolation import ObjectError, attempt
from topo.model.machine import NodeFacts
from topo.model.observation import Event, FabricLoaded
from topo.model.rest.topology import WarningDocument
from topo.model.words import counted, listed

MAX_PLAN_BYTES = 64 << 20
"""Half a million cables have 30 MB."""
MOST_CABLES = 10_000
"""Cables that are listed, some 7 MB; the plan of another fabric differs in each of its cables."""
REST_S = 10.0
"""The least time between two comparisons: nobody mends a cable faster."""
_REST_FACTOR = 20
_FILE = MasterCondition.WIRING_PLAN_FILE

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class CheckedPlan:
    """The outcome of one comparison: its counts, its cost in all, and its document."""

    planned: int
    right: int
    counts: Mapping[CableVerdict, int]
    cost: CableCost
    body: bytes
    unjoined: tuple[str, ...] = ()
    """That the names of the plan are not those that are seen."""

    @property
    def wrong(self) -> Mapping[CableVerdict, int]:
        """The cables that are not as planned; of those that nobody looked at nothing is known."""
        return {v: n for v, n in self.counts.items() if v is not CableVerdict.UNSEEN}


TakePlan = Callable[[CablePlan | Refusal], None]
"""Takes a new plan, or why there is none."""


class PlanSource(Protocol):
    """A source of the plan; `where` is the setting that names it."""

    where: str

    async def run(self, take: TakePlan) -> None:
        """Hand on each plan that differs, and each trouble, until cancelled."""
        ...


@dataclass(slots=True)
class PlanFile:
    """The file of a plan, which is read again when it changes."""

    path: Path
    where: str = "--wiring-plan"

    async def run(self, take: TakePlan) -> None:
        """Hand on what the file says after each change, until cancelled."""
        watched = WatchedFile(self.path, MAX_PLAN_BYTES)
        while True:
            if (content := await off_loop(watched.poll)) is not None:
                take(await off_loop(partial(_read, content)))
            await asyncio.sleep(LOOK_S)


@dataclass(slots=True, kw_only=True)
class WiringCheck:
    """Compares the plan of a source with what is seen.

    `is_complete`: the tree is shown, so that what is not in it is not there. `jobs` are those of
    the gangs, `dumps` all that the sources gave. `last` is the outcome of the last comparison, None
    before the first.
    """

    source: PlanSource
    mode: str
    topology: Callable[[], CurrentTopology]
    is_complete: Callable[[], bool]
    facts: Callable[[], Mapping[NodeName, NodeFacts]]
    jobs: Callable[[], tuple[Job, ...]]
    files: FileWarnings
    clock: Clock
    last: CheckedPlan | None = None
    dumps: tuple[FabricDump, ...] = ()
    _plan: CablePlan | None = None
    _unread: Refusal | None = None
    """Why the source has something else than the plan that counts."""
    _uncompared: Refusal | None = None
    """Why nothing could be compared when that was tried last."""
    _due_s: float = -math.inf

    async def run(self) -> None:
        """Follow the plan and what is seen until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self.source.run(self._take))
                await self._follow()
        finally:
            self.last = None

    async def _follow(self) -> None:
        inputs: object = None
        while True:
            now_s = self.clock()
            if self._plan is not None and now_s >= self._due_s and self.is_complete():
                before, inputs = inputs, self._inputs()
                if inputs != before:
                    self._due_s = math.inf
                    found = await off_loop(partial(attempt, self._compare(self._plan)))
                    self._show(_refused(found) if isinstance(found, ObjectError) else found)
                    took_s = self.clock() - now_s
                    self._due_s = min(self._due_s, now_s + max(REST_S, _REST_FACTOR * took_s))
            await asyncio.sleep(LOOK_S)

    def _take(self, found: CablePlan | Refusal) -> None:
        """Take a new plan; a file that cannot be read takes the one before not away."""
        self._unread = found if isinstance(found, Refusal) else None
        if not isinstance(found, Refusal) and found != self._plan:
            self._plan, self._due_s = found, -math.inf
            _log.info("plan of cables read", cables=len(found.cables), notes=list(found.notes))
        self._warn()

    def _show(self, found: CheckedPlan | Refusal) -> None:
        """Show the outcome; what cannot be compared leaves the one before."""
        self._uncompared = found if isinstance(found, Refusal) else None
        if not isinstance(found, Refusal):
            self.last = found
        self._warn()

    def _warn(self) -> None:
        """Warn of what is wrong with the plan; both are told, for one may end before the other."""
        found = [each for each in (self._unread, self._uncompared) if each is not None]
        if found:
            what = "; ".join(f"{each.what} ({each.where})" for each in found)
            self.files.warn(_FILE, what, found[0].fix, where=self.source.where)
        else:
            self.files.clear(_FILE)

    def _inputs(self) -> tuple[object, ...]:
        """Return what the findings rest on; nearly all of it is compared by identity."""
        nics = tuple((each.nics, each.nic_neighbours) for each in self.facts().values())
        return self._plan, self.dumps, self.topology().version(), nics

    def _compare(self, plan: CablePlan) -> Callable[[], CheckedPlan | Refusal]:
        """Return what compares in any thread, with values frozen now."""
        view, now_s = self.topology().view(), self.clock()
        jobs, dumps = self.jobs(), self.dumps
        facts = dict(self.facts())

        def compared() -> CheckedPlan | Refusal:
            document = topology_document.document(view, self.mode, now_s)
            silent = silent_nodes(document)
            own = own_ports(each for node, each in facts.items() if node not in silent)
            neighbours = {node: each.nic_neighbours for node, each in facts.items()}
            lldp = seen_by_neighbours(neighbours, plan, own)
            seen = joined(seen_by(document, plan), seen_in_dumps(dumps, own), lldp)
            found = compare(plan, seen)
            if isinstance(found, Refusal):
                return found
            costs = costs_of(document, jobs, seen)
            notes = (*found.unjoined, *plan.notes, *seen.notes)
            body = orjson.dumps(
                wiring_document(Compared(found, notes, costs.of), most_cables=MOST_CABLES)
            )
            cost = costs.total(found.findings)
            return CheckedPlan(
                found.planned, found.right, counts(found), cost, body, found.unjoined
            )

        return compared

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """The warning of cables that are not as planned."""
        if self.last is None:
            return ()
        condition = MasterCondition.CABLES_DIFFER
        texts = (*self.last.unjoined, *([_say(self.last)] if self.last.wrong else []))
        return tuple(WarningDocument.of(condition, text, condition.step) for text in texts)


def _refused(error: ObjectError) -> Refusal:
    """Return an error as a refusal: it is of what workers report, as of the plan."""
    _log.error("the plan of cables is not compared", why=error.reason, traceback=error.trace)
    fix = "report it: it is an error of topo-master, and its log has the traceback"
    return Refusal(f"comparing it raised {error}", "what is seen", fix)


def _say(last: CheckedPlan) -> str:
    number = sum(last.wrong.values())
    told = ", ".join(f"{count} {verdict}" for verdict, count in last.wrong.items())
    text = f"{counted(number, 'cable')} of {last.planned} planned ones differ from the plan: {told}"
    cost = last.cost
    costs = [f"{listed(cost.groups)} NotReady"] if cost.groups else []
    costs += [f"{cost.gpus} GPUs out"] if cost.gpus else []
    costs += [f"{counted(len(cost.running), 'job')} across"] if cost.running else []
    costs += [f"{counted(len(cost.waiting), 'job')} waiting"] if cost.waiting else []
    return f"{text}; at their ends: {', '.join(costs)}" if costs else text


def _read(content: bytes | Refusal) -> CablePlan | Refusal:
    if isinstance(content, Refusal):
        return content
    return read_plan_or_dump(content.decode("utf-8", "replace").replace("\r", ""))


@dataclass(slots=True)
class NotedDumps:
    """Hands the events of sources on, and gives the dumps among them to the check."""

    sink: EventSink
    check: WiringCheck

    def submit(self, event: Event) -> bool:
        """Queue an event; return False when the queue is full."""
        is_taken = self.sink.submit(event)
        if is_taken and isinstance(event, FabricLoaded):
            self.check.dumps = tuple(dump for _, dump in event.dumps)
        return is_taken


@dataclass(slots=True, eq=False)
class WiringCollector(Collector):
    """The cables by verdict, and what it costs that they are not as planned."""

    check: WiringCheck

    def collect(self) -> Iterable[Metric]:
        """Yield the numbers of the last comparison; none before the first."""
        last = self.check.last
        if last is None:
            return
        cables = {verdict.value: last.counts.get(verdict, 0) for verdict in CableVerdict}
        yield gauge_family("topo_master_wiring_cables", {**cables, "right": last.right})
        cost = last.cost
        numbers = {
            "groups-not-ready": len(cost.groups),
            "gpus-out": cost.gpus,
            "jobs-across": len(cost.running),
            "jobs-waiting": len(cost.waiting),
        }
        yield gauge_family("topo_master_wiring_cost", numbers)

"""Whatever is asked of placement, nothing that others see of it changes; only what happens does."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import prometheus_client as prom
from hypothesis import given, settings
from hypothesis import strategies as st

from master.booking.metrics import PlacementMetrics
from master.booking.placements import Placements
from master.booking.planner import Outcome, Question
from master.controllers.nomination.placement_answers import PlacementAnswers
from master.tree import topology_document
from master.tree.topology_document import TopologyView
from tests.publish.forests import VENDOR
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import GangId, Member, PodUid
from topo.gangs.machine.instructions import Check, Place
from topo.model.cluster import ClusterNode
from topo.model.forest import Snapshot
from topo.model.ids import Generation, NodeName
from topo.placement.booking.events import HoldChange, HoldReleased, Pod, PodPhase, PodSeen, What
from topo.placement.booking.holds import Ended, Hold, HoldId, HoldRequest, Limits
from topo.placement.capacity.what_if import Assumptions
from topo.placement.job.policy import Policy
from topo.placement.job.request import PlacementMode, Request

JOBS = (
    Request(pods=2, gpus_per_pod=8, group_size=16),
    Request(pods=8, gpus_per_pod=8, group_size=32),
    Request(pods=9, gpus_per_pod=8, group_size=16, mode=PlacementMode.PREFERRED),
    Request(pods=1, gpus_per_pod=16),
)
NAMES = tuple(NodeName(f"node-{number}") for number in range(1, 9))
SNAPSHOT = Snapshot(Generation(1), VENDOR)


class World:
    """The vendor's example of eight nodes, and a clock that tests set."""

    def __init__(self) -> None:
        self.now_s = 0.0
        metrics = PlacementMetrics(prom.CollectorRegistry())
        self.placements = Placements(Policy(), Limits(), metrics, lambda: self.now_s)
        self.state, self.planner = self.placements.state, self.placements.planner
        gpus = (("metax-tech.com/gpu", 8),)
        self.state.follow_cluster([ClusterNode(name=name, allocatable=gpus) for name in NAMES])
        self.state.follow(SNAPSHOT)
        self.state.note_touched()
        self.gangs = PlacementAnswers(self.state, 60.0)

    def seen(self) -> tuple[object, ...]:
        """What others see: version, entity tag, touched nodes, the bytes of the tree."""
        view = TopologyView(SNAPSHOT, self.state.usage())
        body = topology_document.body(view, "strict", 0.0, "run")
        touched = frozenset(self.state._capacity.touched or ())
        return self.state.version, topology_document.entity_tag(view.version), touched, body

    async def refused_gang(self, job: Request) -> None:
        """A gang that never fits, one that grows while all nodes are kept, one that is checked."""
        wanted = tuple(
            Member(uid=PodUid(str(n)), name=f"p{n}", rank=n, version="1") for n in range(99)
        )
        ask = Place(id=GangId("g"), ask=1, request=replace(job, pods=99), wanted=wanted)
        assert isinstance(self.gangs.place(replace(ask, reserve=True), tuple), Refused)
        grown = replace(job, pods=3)
        ask = replace(ask, request=grown, kept=((0, NAMES[0]),), wanted=wanted[1:3], without=NAMES)
        assert isinstance(self.gangs.place(ask, tuple), Refused)
        waiting = tuple((pod, NAMES[pod.rank]) for pod in wanted[:3])
        id_, bound, holds = GangId("g"), ((3, NAMES[4]),), tuple(h.id for h in self.state.bookings)
        check = Check(id=id_, ask=1, request=grown, waiting=waiting, bound=bound, holds=holds)
        self.gangs.check(check, "", ())

    async def explain_outcome(self, job: Request) -> None:
        """A placement or a refusal with its reasons, as the API gives it."""
        seen = self.planner.copy_to_explain(Question(job, explain=True))
        await self.planner.explain_outcome(self.planner.plan(job), seen)

    async def planned_in_a_thread(self, job: Request) -> None:
        self.planner.confirm_or_replan(job, await self.planner.plan_in_thread(job))

    async def assumed(self, job: Request) -> None:
        """The placement if nodes were free, down or drained."""
        nodes = Assumptions(free=NAMES[:1], down=NAMES[1:2], drain=NAMES[2:3])
        await self.planner.what_if(Question(job, explain=True), nodes, lambda outcome: outcome)

    async def holds(self, job: Request) -> None:
        """Holds found, listed, counted and saved; a key that is asked for."""
        service = self.placements.holds
        for hold in self.state.bookings:
            self.state.find_hold(hold.id)
        service.booked_gpus()
        service.find_existing(HoldRequest(job, 5.0, "key"))
        await service.render_list(lambda *_: b"")
        self.gangs.gangs_with_holds()
        self.state.persistent_state()
        self.state.header()

    async def reports(self, _: Request) -> None:
        """The fragmentation report and the totals of the metrics."""
        await self.placements.maintenance.report()
        await self.placements.totals.refresh()


QUESTIONS: tuple[Callable[[World, Request], Awaitable[None]], ...] = (
    World.refused_gang,
    World.explain_outcome,
    World.planned_in_a_thread,
    World.assumed,
    World.holds,
    World.reports,
)


@settings(max_examples=40, deadline=None)
@given(
    held_s=st.lists(st.sampled_from((1.0, 5.0, 50.0)), max_size=3),
    steps=st.lists(
        st.tuples(st.sampled_from(QUESTIONS), st.sampled_from(JOBS), st.sampled_from((0.0, 0.7))),
        max_size=8,
    ),
)
def test_any_questions_leave_version_tag_touched_nodes_and_document_alone(held_s, steps) -> None:
    async def asked() -> None:
        world = World()
        for number, hold_s in enumerate(held_s):
            world.placements.holds.hold(HoldRequest(JOBS[0], hold_s, f"key-{number}"))
        before = world.seen()
        for question, job, passed_s in steps:
            world.now_s += passed_s
            await question(world, job)
            assert world.seen() == before, question.__name__

    asyncio.run(asked())


def test_the_timer_ends_a_hold_once_and_readers_see_it_end_before() -> None:
    world = World()
    outcome = world.placements.holds.hold(HoldRequest(replace(JOBS[0], pods=8), 5.0))
    assert isinstance(outcome, Outcome)
    hold = outcome.hold
    assert isinstance(hold, Hold)
    before = world.seen()
    world.now_s = 4.9
    assert world.state.find_hold(hold.id) is hold
    assert world.state.capacity.free(NAMES[0]) == 0
    world.now_s = 5.0
    assert world.state.find_hold(hold.id) == Ended(hold.id, "expired", 5.0)
    assert world.state.holds() == []
    assert world.state.capacity.free(NAMES[0]) == 8, "its nodes can be had at once"
    assert world.seen() == before
    assert world.state.advance() == (HoldChange(What.EXPIRED, hold),)
    assert world.state.advance() == ()
    assert world.seen()[:2] != before[:2]


def test_a_pod_that_is_bound_where_it_was_nominated_changes_the_tag() -> None:
    """Its GPUs were held for it, and are used from then on."""
    world = World()
    outcome = world.placements.holds.hold(HoldRequest(JOBS[0], 5.0))
    assert isinstance(outcome, Outcome)
    assert outcome.hold is not None
    node = next(iter(outcome.hold.gpus))
    pod = Pod(uid="u", namespace="n", name="p", node=node, gpus=8, hold=outcome.hold.id)
    world.state.advance(PodSeen(pod, PodPhase.NOMINATED))
    before = world.seen()
    world.state.advance(PodSeen(pod, PodPhase.BOUND))
    assert world.seen()[:2] != before[:2]
    world.state.advance(PodSeen(pod, PodPhase.TERMINATING))
    assert world.seen()[:2] != before[:2]


def test_what_changes_nothing_leaves_the_tag() -> None:
    world = World()
    before = world.seen()
    world.state.advance(HoldReleased(HoldId("never-was")))
    world.state.follow(SNAPSHOT)
    world.state.follow_cluster(list(world.state.cluster.values()))
    assert world.state.recount(()) == ()
    assert world.seen() == before

"""The table of sources decides what a mode needs; a new source is one row in it."""

import asyncio
from dataclasses import dataclass

import pytest

from master.app import build_app
from master.composition.service import build_service
from master.sources.row import SourceContext, SourceRow
from master.sources.table import SOURCE_ROWS, source_works
from tests.builders import discovery
from tests.master.world import running, settings
from topo.discovery.groups.tiers import tiers_of
from topo.discovery.modes import Mode, stated_order
from topo.discovery.sources import SOURCES, Source, first_answer_rule
from topo.kit.tasks import Work
from topo.model.ids import NodeName, SourceName
from topo.model.observation import (
    CLUSTER_MANAGER,
    CLUSTER_NODES,
    CONFIG_FILE,
    WORKERS,
    ClusterNodesListed,
    ListedNode,
    SourceFailed,
    SourceRecovered,
)

pytestmark = pytest.mark.virtual_time

RACK_PLAN = SourceName("rack-plan")


@dataclass
class RackPlan:
    """A throw-away source: it fails, then lists a node, when the test says so."""

    context: SourceContext
    may_fail: asyncio.Event
    may_answer: asyncio.Event

    async def run(self) -> None:
        """Says both once, then waits."""
        await self.may_fail.wait()
        self.context.sink.submit(SourceFailed(RACK_PLAN, "the plan is being redrawn"))
        await self.may_answer.wait()
        self.context.sink.submit(ClusterNodesListed((ListedNode(NodeName("planned")),)))
        self.context.sink.submit(SourceRecovered(RACK_PLAN))
        await asyncio.Event().wait()


async def test_one_row_adds_a_source_that_is_listed_waited_for_and_started() -> None:
    may_fail, may_answer = asyncio.Event(), asyncio.Event()

    def start(context: SourceContext) -> Work:
        return RackPlan(context, may_fail, may_answer).run

    row = SourceRow(
        Source(
            name=RACK_PLAN,
            states="which rack each node stands in",
            needed_in=frozenset({Mode.DRAGONFLY}),
            unsettled=first_answer_rule("the rack plan was not read yet"),
        ),
        start,
    )
    flags = ("--mode=dragonfly", "--allow-anonymous-workers")
    async with running(*flags, source_rows=(*SOURCE_ROWS, row)) as master:
        await master.pair("a", "b")
        await master.generation()
        waiting = (await master.get("/ready")).body
        assert b"the rack plan was not read yet" in waiting
        may_fail.set()
        await master.generation()
        assert b"not read yet: the plan is being redrawn" in (await master.get("/ready")).body
        may_answer.set()
        await master.ready()
        document = (await master.get("/v1/topology")).json
        assert [source["source"] for source in document["sources"]][:2] == ["workers", "rack-plan"]
        assert [u["name"] for u in document["unplaced"]] == ["planned"]


@pytest.mark.parametrize("mode", list(Mode))
def test_a_mode_needs_the_sources_of_its_tiers_and_hears_the_workers(mode: Mode) -> None:
    by_name = {source.name: source for source in SOURCES}
    needed = {name for name, source in by_name.items() if mode in source.needed_in}
    tiers = tiers_of(mode, stated_order(mode, ()))
    asked = {source.source for tier in tiers for source in tier}
    assert needed == asked - {CLUSTER_NODES}, "where there is a cluster every mode needs its nodes"
    assert by_name[WORKERS].is_used_in(mode)
    listed = [state.source for state in discovery(mode).snapshot.sources]
    assert set(listed) == {*needed, WORKERS}


@pytest.mark.parametrize(
    ("flags", "started"),
    [
        (("--mode=config",), [CONFIG_FILE]),
        (("--mode=dragonfly",), []),
        (("--mode=switchbox", "--cluster-manager-address=https://10.0.0.1"), [CLUSTER_MANAGER]),
    ],
)
def test_only_the_sources_that_the_mode_uses_are_started(
    flags: tuple[str, ...], started: list[str]
) -> None:
    service = build_service(settings(*flags))
    context = SourceContext(service.settings, service.engine, service.registry, service.sweeps)
    assert list(source_works(SOURCE_ROWS, context)) == started
    assert build_app(build_service(settings(*flags))) is not None


def test_every_source_of_the_core_has_one_row_and_says_what_it_states() -> None:
    assert tuple(row.source for row in SOURCE_ROWS) == SOURCES
    assert all(source.states for source in SOURCES)
    assert len({source.name for source in SOURCES}) == len(SOURCES)


def test_sources_beyond_the_table_stand_in_one_order() -> None:
    state = discovery(mode=Mode.DRAGONFLY)
    names = [SourceName(f"source-{number}") for number in range(9)]
    state.advance(1.0, *map(SourceRecovered, reversed(names)))
    assert [each.source for each in state.snapshot.sources][-9:] == names

"""A tenant who may make pods and jobs in one namespace, on the real API server: what it cannot do.

Each act goes through the account of the tenant. Two masters elect who leads, behind the chart's
webhook.
"""

import json
import sys
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.scheduling import asking
from tests.e2e.scheduling.elected_masters import ElectedMasters, elected_admission
from tests.e2e.scheduling.gang_master import document
from tests.e2e.scheduling.jobs import (
    BATCH_JOBS,
    PODS,
    WORDS,
    are_as_planned,
    are_whole,
    bound,
    is_reviewed,
    owner_of,
    pods_of,
    taker,
)
from tests.e2e.scheduling.shut_gates import gates_shut
from tests.e2e.scheduling.stream import KINDS, VOLCANO, Kind
from tests.e2e.scheduling.tenant import (
    FINALIZER,
    Tenant,
    a_tenant,
    claim,
    copied,
    note,
    stamped,
)
from tests.support.waiting import eventually
from topo.sim.worlds.presets import World

LOOKS = 4


@asynccontextmanager
async def masters_and_tenant(
    cluster: Cluster, api: Api, world: World, home: Path, *flags: str
) -> AsyncIterator[tuple[ElectedMasters, Tenant]]:
    """Two masters that know the world's groups, and a tenant beside other users."""
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    async with (
        elected_admission(cluster, api, home, *flags) as masters,
        a_tenant(cluster, api) as tenant,
    ):
        try:
            yield masters, tenant
        finally:
            for program in masters.masters.values():
                sys.stdout.write(program.tail)  # shown where the test fails


async def gangs(masters: ElectedMasters, namespace: str) -> dict[str, Any]:
    """What the leader says of a namespace's gangs by the names of jobs; empty while none leads."""
    url = await masters.url()
    if not url:
        return {}
    async with ClientSession() as session, session.get(f"{url}/v1/gangs") as answer:
        found = (await answer.json())["gangs"]
    return {each["name"]: each for each in found if each["namespace"] == namespace}


def must_live(masters: ElectedMasters) -> None:
    for program in masters.masters.values():
        program.must_live()


async def submit(api: Api, collection: str, job: Mapping[str, Any]) -> Any:
    """Create a job once a master reviews it: while the API server asks one that is gone, none does.

    Return what the server made of it.
    """

    async def has_review() -> bool:
        return is_reviewed(await api.call("POST", collection, job, dryRun="All"))

    await eventually(has_review)
    made = await api.create(collection, job)
    assert is_reviewed(made)
    return made


async def test_the_tenant_reads_and_writes_nothing_outside_its_namespace(
    cluster: Cluster, api: Api
) -> None:
    """What the tests below assume: a Role with pods and jobs of one namespace."""
    async with a_tenant(cluster, api) as tenant:
        for path in (PODS, BATCH_JOBS, "/api/v1/nodes", "/api/v1/pods"):
            with pytest.raises(ApiError) as refused:
                await tenant.api.get(path)
            assert refused.value.status == 403
        with pytest.raises(ApiError) as kept:
            await tenant.api.create(PODS, claim(None, 0, {}))
        assert kept.value.status == 403


class Bait(NamedTuple):
    """A gang of so many pods: its notes name a node, three pods one rank, one pod may be bound."""

    pods: int
    rank: int
    node: str
    bound_to: str = ""
    is_open: bool = False


GONE, LAST, LAST_BUT_ONE = "gone", "node-sample16", "node-sample15"
BAITS = (
    *(Bait(2, 0, node, is_open=is_open) for node in (GONE, LAST) for is_open in (False, True)),
    *(Bait(4, 2, GONE, LAST_BUT_ONE, is_open) for is_open in (False, True)),
)


async def lay(bait: Bait, name: str, masters: ElectedMasters, tenant: Tenant) -> None:
    """Make the three pods with their notes, and the one that is bound."""
    owner, stamps = await tenant.job_nobody_runs(name), stamped(16, bait.pods, 2)
    known = partial(gang_id, masters, tenant.namespace, name)

    async def is_known() -> bool:
        return bool(await known())

    probe = claim(owner, bait.rank, stamps)
    await tenant.pod(probe)
    await eventually(is_known)
    gang = await known()
    await tenant.api.delete(f"{tenant.pods}/{probe['metadata']['name']}", grace_s=0)
    if bait.bound_to:
        await tenant.pod(claim(owner, 0, stamps, nodeName=bait.bound_to))
    written = {**stamps, **note(gang, bait.node, bait.rank // 2)}
    selector = {f"gang.metax-tech.com/{gang}": "by-hand"}
    for _ in range(3):
        made = await tenant.pod(claim(owner, bait.rank, written, nodeSelector=selector))
        if bait.is_open:
            await tenant.open(made)


async def gang_id(masters: ElectedMasters, namespace: str, name: str) -> str:
    """The id of a gang by the name of its job, as the leader publishes it; empty for none."""
    must_live(masters)
    return str((await gangs(masters, namespace)).get(name, {}).get("id", ""))


async def test_three_pods_with_one_rank_and_a_note_by_hand_end_no_leader(
    cluster: Cluster, api: Api, world: World, tmp_path: Path
) -> None:
    """Neither the one that leads nor the next ones, and jobs of others are placed by each."""
    async with masters_and_tenant(cluster, api, world, tmp_path) as (masters, tenant):

        async def is_placed(job: str) -> bool:
            must_live(masters)
            return await bound(api, job, 2)

        for number, bait in enumerate(BAITS):
            await lay(bait, f"bait-{number}", masters, tenant)
        for look in range(LOOKS):
            victim = f"victim-{look}"
            await submit(api, BATCH_JOBS, asking.batch_job(victim, 2, 16))
            await eventually(partial(is_placed, victim))
            placed = [each.node for each in await pods_of(api, victim)]
            assert are_whole(world, "dragonfly", placed, 2)
            if look % 2:
                await masters.kill_leader()
                masters.start()
        must_live(masters)
        assert masters.leaders_killed == LOOKS // 2


Shape = Callable[[Sequence[Any], str], list[Any]]
"""Makes a stranger's pods of those of a job, and of the id of its gang."""
_INDICES = ("batch.kubernetes.io/job-completion-index", "volcano.sh/task-index")


def unplanned(pods: Sequence[Any], _gang: str) -> list[Any]:
    """As if a master had given the gang up, so that all of its pods are to be opened."""
    return [copied(pods[0], **{WORDS.placement: json.dumps({"unplanned": "x"})})]


def rank_twice(pods: Sequence[Any], _gang: str) -> list[Any]:
    return [_without_note(copied(pods[0])) for _ in range(2)]


def rank_beyond(pods: Sequence[Any], _gang: str) -> list[Any]:
    own = pods[0]["metadata"]["annotations"]
    return [_without_note(copied(pods[0], **{key: "900000" for key in _INDICES if key in own}))]


def note_copied(pods: Sequence[Any], gang: str) -> list[Any]:
    """All that a pod of the job has; where that has no note, one by hand."""
    has_note = WORDS.placement in pods[0]["metadata"]["annotations"]
    return [copied(pods[0], **({} if has_note else note(gang, LAST)))]


def note_elsewhere(pods: Sequence[Any], gang: str) -> list[Any]:
    """A plan of the last rank for another node than the master's."""
    return [copied(pods[-1], **note(gang, LAST))]


def _without_note(pod: dict[str, Any]) -> dict[str, Any]:
    pod["metadata"]["annotations"].pop(WORDS.placement, None)
    return pod


SHAPES: tuple[Shape, ...] = (unplanned, rank_twice, rank_beyond, note_copied, note_elsewhere)


@dataclass
class Attack:
    """Jobs of two pods in the namespace `default`, each of which strangers of one shape name."""

    api: Api
    masters: ElectedMasters
    tenant: Tenant
    world: World
    kind: Kind
    made: dict[str, Any] = field(default_factory=dict)
    """The jobs as the server made them, by name."""
    pattern: tuple[str, Sequence[Any]] = ("", ())
    """A job that was there before, and its pods."""

    async def submit(self, stem: str, *, suspended: bool = False) -> dict[str, Shape]:
        """Make one job for each shape; return the shapes by the names of their jobs."""
        jobs = {f"{stem}-{shape.__name__.replace('_', '-')}": shape for shape in SHAPES}
        for name in jobs:
            job = self.kind.job(name, 2, 16)
            if suspended:
                job["spec"]["suspend"] = True
            self.made[name] = await submit(self.api, self.kind.collection, job)
        return jobs

    async def pods(self, job: str) -> list[Any]:
        """The pods of a job by rank."""
        found = await self.api.items(PODS)
        return sorted((pod for pod in found if owner_of(pod) == job), key=asking.rank_of)

    async def are_gated(self, jobs: Iterable[str]) -> bool:
        """Whether each job has both of its pods, and no gate of them was opened."""
        must_live(self.masters)
        found = [await self.pods(job) for job in jobs]
        gates = [pod["spec"].get("schedulingGates") for pods in found for pod in pods]
        return all(gates) and {len(pods) for pods in found} == {2}

    async def come(self, jobs: Mapping[str, Shape]) -> None:
        """Strangers come that have all that the pods of each job have; they come again and again.

        The garbage collector looks for their owner in the tenant's namespace, finds none, reports
        OwnerRefInvalidNamespace and deletes such a pod within a second; one with a finalizer stays,
        and never ends. So the tenant makes the others again and again. The opened ones no scheduler
        binds: no node has what they select.
        """
        for job, shape in jobs.items():
            gang = (await gangs(self.masters, "default")).get(job, {}).get("id", "none")
            self._insist(shape, await self.pods(job), gang)
        await self._have_come(jobs)

    async def come_first(self, jobs: Mapping[str, Shape]) -> None:
        """The same before a job has pods: they have what those of another job would have."""
        pattern, pods = self.pattern
        text = json.dumps(pods)
        for job, shape in jobs.items():
            uid = _uid(self.made[job])
            own = json.loads(text.replace(pattern, job).replace(_uid(self.made[pattern]), uid))
            self._insist(shape, own, uid)
        await self._have_come(jobs)

    def _insist(self, shape: Shape, pods: Sequence[Any], gang: str) -> None:
        assert pods
        for opens, stays in ((False, False), (True, False), (True, True)):
            bodies = shape(pods, gang)
            for body in bodies if stays else ():
                body["metadata"]["finalizers"] = [FINALIZER]
            self.tenant.insist(bodies, opens=opens)

    async def _have_come(self, jobs: Collection[str]) -> None:
        made = self.tenant.made
        await eventually(lambda: self.tenant.made >= made + 8 * len(jobs))

    async def have_been_read(self, marker: str) -> None:
        """Return once a job that came after the strangers is bound: the leader has read these."""
        await submit(self.api, self.kind.collection, self.kind.job(marker, 1, 8))
        await eventually(lambda: self.are_bound([marker], 1))
        await self.api.delete(f"{self.kind.collection}/{marker}")

    async def have_been_read_as_planned(self, marker: str) -> None:
        """The same while no gate is opened: that job is planned."""
        await submit(self.api, self.kind.collection, self.kind.job(marker, 1, 8))

        async def is_planned() -> bool:
            return any(each.planned for each in await pods_of(self.api, marker))

        await eventually(is_planned)

    async def are_bound(self, jobs: Iterable[str], pods: int = 2) -> bool:
        """Whether all pods of these jobs are bound."""
        must_live(self.masters)
        return all([await bound(self.api, job, pods) for job in jobs])

    async def must_be_whole(self, jobs: Iterable[str]) -> None:
        """Each job is inside one dragonfly, where its own plan says."""
        for job in jobs:
            found = await pods_of(self.api, job)
            nodes = [each.node for each in found]
            assert are_whole(self.world, "dragonfly", nodes, 2), (job, found)
            assert are_as_planned(found, 2), (job, found)

    async def end(self, jobs: Collection[str]) -> None:
        """The jobs are deleted, and their pods are gone."""
        for job in jobs:
            await self.api.delete(f"{self.kind.collection}/{job}")

        async def are_gone() -> bool:
            return not [pod for pod in await self.api.items(PODS) if owner_of(pod) in jobs]

        await eventually(are_gone)


def _uid(made: Any) -> str:
    return str(made["metadata"]["uid"])


@asynccontextmanager
async def one_of_each_pair(api: Api, world: World) -> AsyncIterator[None]:
    """Pods of somebody else's are on one node of each dragonfly, so that no pair is free."""
    nodes = [str(node.name) for node in world.nodes[::2]]
    for node in nodes:
        await api.create(PODS, taker(f"taker-{node}", node))
    try:
        yield
    finally:
        for node in nodes:
            await api.delete(f"{PODS}/taker-{node}", grace_s=0)


@pytest.fixture(params=["kube", VOLCANO])
async def attack(
    cluster: Cluster, api: Api, world: World, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Attack]:
    """A tenant beside jobs of kube-scheduler, then of Volcano."""
    async with masters_and_tenant(cluster, api, world, tmp_path) as (masters, tenant):
        yield Attack(api, masters, tenant, world, KINDS[request.param])


async def test_pods_that_name_a_waiting_job_of_another_namespace_open_and_split_nothing_of_it(
    attack: Attack, api: Api, world: World
) -> None:
    """It is placed whole once there is room, while the strangers are there."""
    async with one_of_each_pair(api, world):
        jobs = await attack.submit("waits")
        await eventually(lambda: attack.are_gated(jobs))
        await attack.come(jobs)
        await attack.have_been_read("marker")
        assert await attack.are_gated(jobs)
    await eventually(lambda: attack.are_bound(jobs))
    await attack.must_be_whole(jobs)


async def test_pods_that_name_a_planned_job_of_another_namespace_change_and_release_no_plan(
    attack: Attack, api: Api
) -> None:
    """Neither its notes nor its holds: it is bound where it was planned before they came."""
    async with gates_shut(api):
        jobs = await attack.submit("planned")

        async def plans() -> list[list[str]]:
            return [[each.planned for each in await pods_of(api, job)] for job in jobs]

        async def are_planned() -> bool:
            return all(len({*nodes} - {""}) == 2 for nodes in await plans())

        await eventually(are_planned)
        before, holds = await plans(), await holds_of(attack.masters)
        assert len(holds) == len(jobs)
        await attack.come(jobs)
        await attack.have_been_read_as_planned("marker")
        assert await plans() == before
        assert await holds_of(attack.masters) >= holds
    await eventually(lambda: attack.are_bound(jobs))
    assert await plans() == before
    await attack.must_be_whole(jobs)


async def test_pods_that_name_a_job_of_another_namespace_before_it_has_pods_hold_it_not_up(
    attack: Attack, api: Api
) -> None:
    """A suspended Job gets its pods when it is resumed; one of Volcano in the next moment."""
    (pattern, *_) = first = await attack.submit("first")
    await eventually(lambda: attack.are_bound(first))
    attack.pattern = (pattern, await attack.pods(pattern))
    await attack.end(first)
    is_batch = attack.kind.collection == BATCH_JOBS
    jobs = await attack.submit("later", suspended=is_batch)
    await attack.come_first(jobs)
    for job in jobs if is_batch else ():
        await api.merge(f"{BATCH_JOBS}/{job}", {"spec": {"suspend": False}})
    await eventually(lambda: attack.are_bound(jobs))
    await attack.must_be_whole(jobs)


async def holds_of(masters: ElectedMasters) -> set[str]:
    """The ids of the holds that the leader has."""
    url = await masters.url()
    async with ClientSession() as session, session.get(f"{url}/v1/holds") as answer:
        return {each["id"] for each in (await answer.json())["holds"]}

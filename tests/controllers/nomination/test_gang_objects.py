"""`kubectl get gangs`: each gang has one object that shows its state, and nothing else has one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import prometheus_client as prom
import pytest

from master.controllers.gang_objects import AT_ONCE, LOOK_S, TEXT_S, GangObjects
from master.kube.errors import KubeError
from master.kube.gang_object import GANGS
from master.kube.objects import PODS
from master.kube.writing.writer import Writer, WriterMetrics
from tests.controllers.nomination.masters import GangCluster, Leader, Way, leader, until
from tests.controllers.nomination.objects import JOB, WORDS
from tests.kube.model_store import ModelStore
from topo.gangs.machine.gang import Gang
from topo.model.conditions.gang_states import GangState

pytestmark = pytest.mark.virtual_time
AT = "/apis/topo.metax-tech.com/v1alpha1/namespaces/jobs/gangs"


@asynccontextmanager
async def shown(cluster: GangCluster) -> AsyncIterator[Leader]:
    """A leader that places the gang and writes its object."""
    async with leader(cluster, Way(cluster.api)) as made:
        metrics, clock = WriterMetrics(prom.CollectorRegistry()), asyncio.get_running_loop().time
        writer = Writer(cluster.api, metrics, clock=clock)
        objects = GangObjects(
            store=ModelStore(cluster.api, GANGS),
            writer=writer,
            view=made.nomination.view,
            owner=made.nomination.reader.owner,
            is_placing=lambda: made.nomination.is_placing,
            domain="metax-tech.com",
            clock=clock,
        )
        works = [asyncio.ensure_future(work()) for work in (writer.run, objects.run)]
        try:
            yield made
        finally:
            for work in works:
                work.cancel()
            await asyncio.gather(*works, return_exceptions=True)


def found(cluster: GangCluster) -> dict[str, Any]:
    """The objects by name."""
    items = cluster.api.objects.items()
    return {name: stored.document for (at, name), stored in items if at == AT}


def state(cluster: GangCluster) -> str:
    return str(found(cluster).get("train", {}).get("status", {}).get("state", ""))


async def test_a_gang_has_an_object_that_its_job_owns_until_its_pods_are_gone():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        await until(lambda: state(cluster) == GangState.OPENED)
        (document,) = found(cluster).values()
        owned = {key: JOB[key] for key in ("apiVersion", "kind", "name", "uid")}
        assert document["metadata"]["ownerReferences"] == [owned]
        assert document["status"]["job"] == "Job train"
        assert document["status"]["bound"] == "0/4"
        cluster.binds = True
        cluster.schedule()
        await until(lambda: state(cluster) == GangState.BOUND)
        assert found(cluster)["train"]["status"]["bound"] == "4/4"
        cluster.end()
        await until(lambda: not found(cluster))


async def test_an_object_that_somebody_changes_or_deletes_is_there_again_and_others_go():
    cluster = GangCluster("volcano")
    async with shown(cluster):
        cluster.submit()
        await until(lambda: state(cluster) == GangState.BOUND)
        found(cluster)["train"]["status"]["state"] = "mine"
        cluster.api.touch(AT, "train")
        await until(lambda: state(cluster) == GangState.BOUND)
        cluster.api.remove(GANGS, "train", "jobs")
        await until(lambda: state(cluster) == GangState.BOUND)
        cluster.api.add(GANGS, "stray", metadata={"namespace": "jobs"}, status={"id": "none"})
        await until(lambda: "stray" not in found(cluster))
        assert set(found(cluster)) == {"train"}


async def test_an_object_that_went_with_its_owner_is_there_again_for_the_owner_of_the_pods():
    """Pods of one PodGroup may be of several jobs, and the first of these may go."""
    cluster = GangCluster("volcano")
    async with shown(cluster) as made:
        cluster.submit()
        await until(lambda: state(cluster) == GangState.BOUND)
        for pod in cluster.pods:
            pod.document["metadata"]["ownerReferences"][0] |= {"name": "again"}
            cluster.api.touch("/api/v1/namespaces/jobs/pods", pod.document["metadata"]["name"])
        cluster.api.remove(GANGS, "train", "jobs")
        await until(lambda: bool(found(cluster)))
        (document,) = found(cluster).values()
        assert document["metadata"]["ownerReferences"][0]["name"] == "again"
        assert made.nomination.is_placing


async def test_a_gang_whose_pods_call_it_as_no_object_can_be_called_has_its_id_for_a_name():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster) as made:
        cluster.submit(**{WORDS.kind: "pods", WORDS.gang_name: "Train_A/../x"})
        await until(lambda: bool(found(cluster)))
        assert list(found(cluster)) == list(made.nomination.reader.known)
        (document,) = found(cluster).values()
        assert document["status"]["job"] == "Pod Train_A/../x"


async def test_an_object_that_was_refused_is_written_once_that_is_allowed():
    cluster = GangCluster("volcano")
    cluster.api.refusals[AT] = [KubeError("no right", status=403)] * 1000
    async with shown(cluster):
        cluster.submit()
        await asyncio.sleep(30)
        assert not found(cluster)
        cluster.api.refusals.clear()
        await until(lambda: state(cluster) == GangState.BOUND)


async def test_nothing_is_written_of_a_gang_whose_state_and_object_stay():
    cluster = GangCluster("volcano")
    async with shown(cluster):
        cluster.submit()
        await until(lambda: state(cluster) == GangState.BOUND)
        await asyncio.sleep(5)
        calls = len(cluster.api.calls)
        await asyncio.sleep(60)
        assert len(cluster.api.calls) == calls


async def test_a_text_that_changes_every_second_is_written_every_ten():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster) as made:
        for node in range(1, 9):
            cluster.take(f"node-{node}")
        cluster.submit()
        await until(lambda: state(cluster) == GangState.NO_ROOM)
        gang = made.nomination.view.gang(next(iter(made.nomination.reader.known)))
        assert isinstance(gang, Gang)
        before = sum(AT in call.path for call in cluster.api.calls)
        for second in range(int(3 * TEXT_S)):
            made.nomination.status.store.report(gang, GangState.NO_ROOM, f"{second} are free")
            await asyncio.sleep(LOOK_S)
        written = sum(AT in call.path for call in cluster.api.calls) - before
        assert 2 <= written <= 4


async def test_jobs_of_one_name_have_an_object_each_and_many_are_written_over_several_looks():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        first = cluster.pods[0].document
        for number in range(AT_ONCE + 10):
            owner = {**JOB, "uid": f"{number:08}-job", "kind": "Job"}
            metadata = {**first["metadata"], "ownerReferences": [owner], "uid": f"uid-{number}"}
            cluster.api.add(
                PODS,
                f"other-{number}",
                metadata={**metadata, "name": f"other-{number}"},
                spec=first["spec"],
                status={"phase": "Pending"},
            )
        await until(lambda: len(found(cluster)) == AT_ONCE + 11)
        gangs = {document["status"]["id"] for document in found(cluster).values()}
        assert len(gangs) == AT_ONCE + 11


async def test_an_error_about_one_gang_costs_its_object_alone(monkeypatch: pytest.MonkeyPatch):
    is_broken = True
    original = GangObjects._wanted

    def faulty(self: GangObjects, gang: Gang, *more: Any) -> Any:
        if is_broken:
            raise ZeroDivisionError
        return original(self, gang, *more)

    monkeypatch.setattr(GangObjects, "_wanted", faulty)
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        await asyncio.sleep(5 * LOOK_S)
        assert not found(cluster)
        is_broken = False
        await until(lambda: state(cluster) == GangState.OPENED)


def submit_twin(cluster: GangCluster) -> None:
    """Pods of another job of the same name."""
    first = cluster.pods[0].document
    owner = {**JOB, "uid": "twin-job", "kind": "Job"}
    metadata = {**first["metadata"], "ownerReferences": [owner], "uid": "uid-twin", "name": "twin"}
    cluster.api.add(
        PODS, "twin", metadata=metadata, spec=first["spec"], status={"phase": "Pending"}
    )


def ids(cluster: GangCluster) -> dict[str, str]:
    """The gang of each object."""
    return {name: document["status"]["id"] for name, document in found(cluster).items()}


async def test_jobs_of_one_name_keep_their_objects_in_whatever_order_a_leader_meets_them():
    """The pods of the first job are made again, so that the next leader meets the other first."""
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        await until(lambda: len(found(cluster)) == 1)
        submit_twin(cluster)
        await until(lambda: len(found(cluster)) == 2)
        before = ids(cluster)
    list_first_job_last(cluster)
    async with shown(cluster):
        await asyncio.sleep(10 * LOOK_S)
        assert ids(cluster) == before


def list_first_job_last(cluster: GangCluster) -> None:
    """Whoever lists pods reads those of the twin before those of the first job."""
    pods = [cluster.api.objects.pop(key) for key in list(cluster.api.objects) if "pod-" in key[1]]
    for stored in pods:
        name = stored.document["metadata"]["name"]
        cluster.api.objects["/api/v1/namespaces/jobs/pods", name] = stored


async def test_a_new_job_takes_no_name_from_one_that_a_new_leader_has_not_looked_at_yet():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        await until(lambda: len(found(cluster)) == 1)
        before = ids(cluster)
    submit_twin(cluster)
    list_first_job_last(cluster)
    async with shown(cluster):
        await until(lambda: len(found(cluster)) == 2)
        assert ids(cluster)["train"] == before["train"]


async def test_an_object_of_a_gang_that_has_another_one_goes():
    cluster = GangCluster("volcano", binds=False)
    async with shown(cluster):
        cluster.submit()
        await until(lambda: state(cluster) == GangState.OPENED)
        (gang_id,) = ids(cluster).values()
        status = {"id": gang_id, "state": "no-room"}
        cluster.api.add(GANGS, "frozen", metadata={"namespace": "jobs"}, status=status)
        await until(lambda: "frozen" not in found(cluster))
        assert state(cluster) == GangState.OPENED

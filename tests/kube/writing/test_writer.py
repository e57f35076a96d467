"""The one place that writes: its order, its rate, and what it does with refusals."""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import orjson
import prometheus_client as prom
import pytest
from structlog.testing import capture_logs

from master.kube.errors import KubeError
from master.kube.objects import EVENTS, NODES, PODS, collection_path
from master.kube.rate import RequestRate
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.writing import write_queue
from master.kube.writing.writer import CONCURRENCY, Settled, Writer, WriterMetrics
from master.kube.writing.writes import Apply, Create, Delete, Patch, WriteTarget, call_of
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore

pytestmark = pytest.mark.virtual_time

LABELS = "topo-master/labels"
FLY = "metax-tech.com/dragonfly"
PASSING = [
    KubeError("busy", status=429, retry_after_s=20.0),
    KubeError("ill", status=503),
    KubeError("no answer"),
    KubeError("the token is too old", status=401),
]


def apply(api: ApiModel, name: str, fly: str | None) -> Apply:
    uid = api.objects[collection_path(NODES), name].document["metadata"]["uid"]
    fields = {"metadata": {"labels": {FLY: fly}}} if fly else {}
    return Apply(target=WriteTarget(NODES, name), manager=LABELS, uid=uid, fields=fields)


def nodes(*names: str, **more: Any) -> ApiModel:
    api = ApiModel(**more)
    for name in names:
        api.add(NODES, name)
    return api


class CountedWriter(Writer):
    """A writer whose metrics can be read."""

    def __init__(self, api: ApiModel, **more: Any) -> None:
        self.registry = prom.CollectorRegistry()
        clock, rng = asyncio.get_running_loop().time, random.Random(1)  # noqa: S311
        super().__init__(api, WriterMetrics(self.registry), clock=clock, rng=rng, **more)

    def counted(self) -> dict[str, float]:
        """Writes by result."""
        return {
            sample.labels["result"]: sample.value
            for family in self.registry.collect()
            for sample in family.samples
            if sample.name == "topo_master_kube_writes_total"
        }


@asynccontextmanager
async def writing(
    api: ApiModel, *, watch_delay_s: float = 0.0, **more: Any
) -> AsyncIterator[CountedWriter]:
    """A writer at work on the model, whose watch it follows."""
    writer = CountedWriter(api, **more)
    writer.follow(ModelStore(api, NODES, delay_s=watch_delay_s))
    work = asyncio.create_task(writer.run())
    try:
        yield writer
    finally:
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def rest(seconds: float = 300.0) -> None:
    """Lets all that can happen within a time happen."""
    await asyncio.sleep(seconds)


async def test_a_label_is_written_for_the_node_with_its_uid_and_by_its_manager():
    api = nodes("node-1")
    async with writing(api) as writer:
        writer.put(apply(api, "node-1", "fly-1"))
        await rest()
        (call,) = api.calls
        assert (call.method, call.path) == ("PATCH", "/api/v1/nodes/node-1")
        assert call.content_type == "application/apply-patch+yaml"
        assert call.query == {"fieldManager": LABELS, "force": "false"}
        assert orjson.loads(call.body or b"") == {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1", "uid": "uid-node-1-100", "labels": {FLY: "fly-1"}},
        }
        assert api.labels() == {"node-1": {FLY: "fly-1"}}
        assert writer.counted() == {"done": 1}


def test_an_object_in_a_namespace_is_made_there():
    target = WriteTarget(EVENTS, "x", "a b")
    call = call_of(Create(target=target, manager=LABELS, fields={"metadata": {"labels": {}}}))
    assert call.path == "/apis/events.k8s.io/v1/namespaces/a%20b/events"
    assert orjson.loads(call.body or b"")["metadata"] == {
        "labels": {},
        "name": "x",
        "namespace": "a b",
    }


async def test_a_node_that_was_deleted_is_not_made_again():
    api = nodes("node-1")
    write = apply(api, "node-1", "fly-1")
    api.remove(NODES, "node-1")
    async with writing(api) as writer:
        writer.put(write)
        await rest()
        assert api.objects == {}
        assert writer.counted() == {"conflict": 1}
        calls = len(api.calls)
        await rest()
        assert len(api.calls) == calls == 2


async def test_a_node_that_came_again_under_its_name_does_not_get_the_labels_of_the_old_one():
    api = nodes("node-1")
    write = apply(api, "node-1", "fly-1")
    api.remove(NODES, "node-1")
    api.add(NODES, "node-1")
    async with writing(api) as writer:
        writer.put(write)
        await rest()
        assert api.labels() == {"node-1": {}}


async def test_a_label_that_another_manager_has_is_taken_over_and_told_once():
    api = nodes()
    for name in ("node-1", "node-2"):
        api.add(NODES, name, metadata={"labels": {FLY: "wrong"}})
    with capture_logs() as logs:
        async with writing(api) as writer:
            writer.put(apply(api, "node-1", "fly-1"), apply(api, "node-2", "fly-1"))
            await rest(10)
            assert api.labels() == {"node-1": {FLY: "fly-1"}, "node-2": {FLY: "fly-1"}}
            assert writer.counted() == {"taken": 2}
    (told,) = logs
    assert told["event"] == "a field that another manager had is taken over"
    assert told["object"] == "Node node-1"
    assert "somebody" in told["why"]


async def test_a_label_that_the_manager_no_longer_applies_goes_and_those_of_others_stay():
    api = nodes()
    api.add(NODES, "node-1", metadata={"labels": {"theirs": "stays"}})
    async with writing(api) as writer:
        writer.put(apply(api, "node-1", "fly-1"))
        await rest()
        writer.put(apply(api, "node-1", None))
        await rest()
        assert api.labels() == {"node-1": {"theirs": "stays"}}


@pytest.mark.parametrize("fault", PASSING, ids=lambda fault: str(fault.status))
async def test_what_fails_for_now_is_tried_again_no_earlier_than_it_is_asked_to(fault: KubeError):
    api = nodes("node-1", faults=[fault, fault])
    loop = asyncio.get_running_loop()
    async with writing(api) as writer:
        writer.put(apply(api, "node-1", "fly-1"))
        while not api.labels()["node-1"]:
            await asyncio.sleep(0.01)
        assert writer.counted() == {"again": 2, "done": 1}
        assert loop.time() >= 2 * (fault.retry_after_s or 0)


@pytest.mark.parametrize("status", [400, 403, 422], ids=str)
async def test_what_is_refused_is_given_up_told_and_counted_and_holds_nobody_up(status: int):
    api = nodes("node-1", "node-2", faults=[KubeError("it is not a label", status=status)])
    ends = list[Settled]()
    with capture_logs() as logs:
        async with writing(api) as writer:
            writer.listen(LABELS, ends.append)
            writer.put(apply(api, "node-1", "fly-1"), apply(api, "node-2", "fly-1"))
            await rest()
            assert api.labels() == {"node-1": {}, "node-2": {FLY: "fly-1"}}
            assert len(api.calls) == 2
            refused = "denied" if status == 403 else "refused"
            assert writer.counted() == {refused: 1, "done": 1}
    assert [end.error.status if end.error else None for end in ends] == [status, None]
    (told,) = logs
    assert (told["status"], told["why"]) == (status, "it is not a label")


async def test_whoever_asks_for_a_write_hears_of_its_end_each_time(monkeypatch):
    """It asks again at each answer, as long as it is refused; and for one more than may wait."""
    monkeypatch.setattr(write_queue, "MAX_WAITING", 1)
    api = nodes("a", "b")
    refusal = KubeError("no", status=403)
    api.refusals[collection_path(NODES)] = [refusal] * 5
    ended: list[Settled] = []
    async with writing(api) as writer:

        def again(done: Settled) -> None:
            ended.append(done)
            if done.error is refusal:
                writer.put(apply(api, "a", "x"))

        writer.listen(LABELS, again)
        writer.put(apply(api, "a", "x"), apply(api, "b", "x"))
        await rest()
        assert [done.error.status if done.error else 0 for done in ended] == [429, *[403] * 5, 0]
        assert api.labels()["a"] == {FLY: "x"}
        assert writer.counted()["full"] == 1


async def test_a_thousand_refusals_of_one_kind_are_one_line_a_minute():
    names = [f"node-{index}" for index in range(1000)]
    api = nodes(*names, faults=[KubeError("no", status=403)] * 1000)
    with capture_logs() as logs:
        async with writing(api) as writer:
            writer.put(*(apply(api, name, "fly") for name in names))
            await rest(30)
            assert writer.counted() == {"denied": 1000}
    assert len(logs) == 1


async def test_what_is_there_already_is_not_made_and_what_is_gone_is_not_deleted():
    api = ApiModel()
    there = api.add(HYPERNODES, "there", spec={"tier": 1})
    make = Create(
        target=WriteTarget(HYPERNODES, "there"), manager=LABELS, fields={"spec": {"tier": 2}}
    )
    gone = Delete(target=WriteTarget(HYPERNODES, "gone"), manager=LABELS, uid="uid")
    other = Delete(target=WriteTarget(HYPERNODES, "there"), manager=LABELS, uid="another")
    async with writing(api) as writer:
        writer.put(make)
        await rest(1)
        writer.put(gone, other)
        await rest()
        assert api.objects == {(collection_path(HYPERNODES), "there"): there}
        assert there.document["spec"] == {"tier": 1}
        assert writer.counted() == {"conflict": 2, "gone": 1}


async def test_writes_keep_to_the_rate_and_few_are_under_way_at_once():
    names = [f"node-{index}" for index in range(200)]
    api = nodes(*names, delay_s=2.0)
    loop = asyncio.get_running_loop()
    bucket = RequestRate(qps=50, burst=10, clock=loop.time)
    async with writing(api, rate=bucket.take) as writer:
        writer.put(*(apply(api, name, "fly") for name in names))
        await rest(1)
        assert len(api.calls) <= 50 + 10
        await rest(60)
        assert len(api.calls) == 200
        assert api.busiest == CONCURRENCY


async def test_a_busy_server_is_written_to_as_often_as_is_allowed():
    """Half a second for each write is what one core gives an API server beside its etcd."""
    names = [f"node-{index}" for index in range(300)]
    api = nodes(*names, delay_s=0.5)
    bucket = RequestRate(qps=100, burst=1, clock=asyncio.get_running_loop().time)
    async with writing(api, rate=bucket.take) as writer:
        writer.put(*(apply(api, name, "fly") for name in names))
        await rest(300 / 100 + 0.5 + 0.1)
        assert writer.counted() == {"done": 300}


async def test_nothing_is_sent_by_a_master_that_does_not_lead_now():
    api, leads = nodes("node-1"), False
    async with writing(api, may_write=lambda: leads) as writer:
        writer.put(apply(api, "node-1", "fly-1"))
        await rest()
        assert api.calls == []
        leads = True
        await rest()
        assert api.labels() == {"node-1": {FLY: "fly-1"}}


async def test_a_field_is_not_taken_over_by_a_master_that_lost_the_lead_in_between():
    api = nodes()
    api.add(NODES, "node-1", metadata={"labels": {FLY: "new"}})
    leads = iter([True])
    async with writing(api, may_write=lambda: next(leads, False)) as writer:
        writer.put(apply(api, "node-1", "old"))
        await rest()
        assert api.labels() == {"node-1": {FLY: "new"}}


async def test_who_compares_at_any_moment_never_writes_twice():
    """A comparer that looks at a late watch asks all the time; each change is one write."""
    names = [f"node-{index}" for index in range(20)]
    api, rng = nodes(*names, delay_s=0.05), random.Random(7)  # noqa: S311
    wanted = dict.fromkeys(names, "fly-0")
    store = ModelStore(api, NODES, delay_s=0.5)
    async with writing(api, watch_delay_s=0.5) as writer:
        changes = len(names)
        for turn in range(200):
            if turn % 20 == 10:
                changed = rng.sample(names, 5)
                wanted |= dict.fromkeys(changed, f"fly-{turn}")
                changes += len(changed)
            for name in names:
                if store.objects["", name].metadata.labels.get(FLY) != wanted[name]:
                    writer.put(apply(api, name, wanted[name]))
            await asyncio.sleep(0.1)
        await rest()
        assert {name: labels[FLY] for name, labels in api.labels().items()} == wanted
        assert len(api.calls) == changes


def test_a_patch_of_a_status_names_the_object_and_the_version_that_was_looked_at():
    call = call_of(
        Patch(
            target=WriteTarget(PODS, "worker-0", "jobs"),
            manager="topo-master/nomination",
            uid="uid-1",
            version="7",
            subresource="status",
            fields={"metadata": {"annotations": {"a": "b"}}, "status": {"nominatedNodeName": "n"}},
        )
    )
    assert (call.method, call.path) == ("PATCH", "/api/v1/namespaces/jobs/pods/worker-0/status")
    assert call.content_type == "application/strategic-merge-patch+json"
    assert orjson.loads(call.body or b"") == {
        "metadata": {"annotations": {"a": "b"}, "uid": "uid-1", "resourceVersion": "7"},
        "status": {"nominatedNodeName": "n"},
    }


def patch(api: ApiModel, name: str, fly: str | None, *, version: str = "") -> Patch:
    metadata = api.objects[collection_path(NODES), name].document["metadata"]
    return Patch(
        target=WriteTarget(NODES, name),
        manager=LABELS,
        uid=metadata["uid"],
        version=version or metadata["resourceVersion"],
        fields={"metadata": {"labels": {FLY: fly}}},
    )


async def test_a_patch_changes_its_fields_and_no_others():
    api = nodes()
    api.add(NODES, "node-1", metadata={"labels": {"theirs": "stays", FLY: "old"}})
    async with writing(api) as writer:
        writer.put(patch(api, "node-1", "fly-1"))
        await rest()
        assert api.labels() == {"node-1": {"theirs": "stays", FLY: "fly-1"}}
        writer.put(patch(api, "node-1", None))
        await rest()
        assert api.labels() == {"node-1": {"theirs": "stays"}}


async def test_a_patch_of_an_object_that_changed_meanwhile_is_given_back_to_who_asked_for_it():
    api, ends = nodes("node-1"), list[Settled]()
    async with writing(api) as writer:
        writer.listen(LABELS, ends.append)
        stale = patch(api, "node-1", "fly-1")
        api.edit(NODES, "node-1", ("metadata", "labels", "theirs"), "new")
        writer.put(stale)
        await rest()
        (end,) = ends
        assert end.write is stale
        assert end.error is not None
        assert end.error.is_conflict
        assert api.labels() == {"node-1": {"theirs": "new"}}
        assert len(api.calls) == 1
        writer.put(patch(api, "node-1", "fly-1"))
        await rest()
        assert api.labels() == {"node-1": {"theirs": "new", FLY: "fly-1"}}


async def test_a_patch_does_not_touch_another_object_of_the_name():
    api = nodes("node-1")
    old = patch(api, "node-1", "fly-1", version="1")
    api.remove(NODES, "node-1")
    api.add(NODES, "node-1")
    async with writing(api) as writer:
        writer.put(old)
        await rest()
        assert api.labels() == {"node-1": {}}

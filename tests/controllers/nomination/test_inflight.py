"""When a gang that changes pod by pod is read: once all that is on its way is there, or late."""

import asyncio
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from master.controllers.nomination import gang_reader
from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.writing.inflight import LATE_S, InflightWrites
from master.kube.client import Call
from master.kube.errors import KubeError
from master.kube.objects import PODS, Metadata
from master.kube.writing.writer import Settled
from master.kube.writing.writes import Patch, WriteTarget
from tests.controllers.nomination.masters import GangCluster, leading, until
from tests.controllers.nomination.objects import GANG, gang_context, gang_of_job, pod, pod_group
from tests.kube.api_model import ApiModel

POD, NODE = ("jobs", "train-worker-0"), ("", "node-1")
PAIR = build_gang(GANG, [pod(0), pod(1)], gang_context(pod_group("Inqueue")))
WRITE = Patch(target=WriteTarget(PODS, POD[1], POD[0]), manager="m", uid="pod-0")


def known(version: str) -> dict[tuple[str, str], Any]:
    return {POD: pod(0, version=version)}


def written(version: str) -> Metadata:
    return Metadata(name=POD[1], namespace=POD[0], resource_version=version)


class Clock:
    now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def reading() -> tuple[Clock, InflightWrites]:
    """A pair that was just read, all of it there."""
    clock = Clock()
    inflight = InflightWrites(clock)
    inflight.read(PAIR)
    return clock, inflight


def test_a_gang_is_awaited_until_the_last_of_its_writes_shows():
    _, inflight = reading()
    assert not inflight.is_awaited(GANG, 2)
    inflight.add(GANG, POD)
    inflight.add(GANG, NODE)
    inflight.remove(POD)
    assert inflight.is_awaited(GANG, 2)
    inflight.remove(NODE)
    assert not inflight.is_awaited(GANG, 2)


def test_a_gang_of_which_pods_are_to_come_is_awaited():
    _, inflight = reading()
    assert inflight.is_awaited(GANG, 1)
    assert not inflight.is_awaited(GANG, 2)


def test_a_gang_that_was_never_read_is_not_awaited():
    assert not InflightWrites(Clock()).is_awaited(GANG, 1)


def test_what_is_late_holds_up_nobody():
    clock, inflight = reading()
    inflight.add(GANG, POD)
    clock.now_s += LATE_S - 0.01
    assert inflight.is_awaited(GANG, 1)
    clock.now_s += 0.01
    assert not inflight.is_awaited(GANG, 1)


def test_a_node_that_was_written_for_two_gangs_came_for_both():
    _, inflight = reading()
    other = gang_of_job("job-2")
    inflight.read(replace(PAIR, id=other))
    inflight.add(GANG, NODE)
    inflight.add(other, NODE)
    inflight.remove(NODE)
    assert not inflight.is_awaited(GANG, 2)
    assert not inflight.is_awaited(other, 2)


def test_nothing_is_awaited_of_a_gang_that_is_gone_and_of_its_writes():
    _, inflight = reading()
    inflight.add(GANG, POD)
    inflight.forget(GANG)
    inflight.read(PAIR)
    assert not inflight.is_awaited(GANG, 2)
    inflight.remove(POD)  # what comes after all is no error


@pytest.mark.parametrize(
    ("settled", "version", "awaited"),
    [
        (Settled(WRITE, error=KubeError("changed", status=409)), "7", False),
        (Settled(WRITE, metadata=written("7")), "7", False),
        (Settled(WRITE, metadata=written("8")), "7", True),
    ],
    ids=["refused", "changed nothing", "not seen yet"],
)
def test_a_write_that_will_show_in_no_event_is_not_awaited(
    settled: Settled, version: str, *, awaited: bool
):
    _, inflight = reading()
    inflight.add(GANG, POD)
    inflight.settled(settled, known(version))
    assert inflight.is_awaited(GANG, 2) is awaited


def test_a_refused_version_is_told_once_when_the_pod_has_another_one():
    _, inflight = reading()
    inflight.refused(GANG, POD, "7")
    assert list(inflight.renewed(known("7"))) == []
    assert list(inflight.renewed(known("8"))) == [GANG]
    assert list(inflight.renewed(known("8"))) == []
    inflight.refused(GANG, POD, "8")
    assert list(inflight.renewed({})) == [GANG], "it is gone"


@dataclass
class OneByOne:
    """An API server that takes its time for each write, one after the other."""

    api: ApiModel
    _one: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def call(self, call: Call) -> bytes:
        async with self._one:
            await asyncio.sleep(LATE_S / 10)
            return await self.api.call(call)


@pytest.mark.virtual_time
async def test_a_gang_is_read_for_each_wave_of_its_writes_and_not_for_each_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight writes before the gates, and four that open them, seen one by one."""
    reads: list[Any] = []

    def counted(*args: Any) -> Any:
        reads.append(args)
        return build_gang(*args)

    monkeypatch.setattr(gang_reader, "build_gang", counted)
    cluster = GangCluster("volcano", binds=False)
    cluster.submit()
    async with leading(cluster.api, OneByOne(cluster.api)):
        await until(lambda: cluster.is_open)
    assert len(cluster.labelled()) == 4
    assert len(reads) <= 4, "found, planned, all written and checked"

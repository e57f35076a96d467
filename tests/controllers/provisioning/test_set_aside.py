"""An error of one request is that request's: it is set aside, and the others go on."""

from collections.abc import Callable
from typing import Any

import pytest

from master.controllers.provisioning import workload_stores
from master.controllers.provisioning.controller import ProvisioningController
from master.kube.objects import EVENTS
from master.kube.schedulers.topologies import KUEUE_FLAVORS
from master.object_errors import ObjectKind
from tests.controllers.nomination.masters import until
from tests.controllers.nomination.objects import WORDS
from tests.controllers.provisioning.request_world import (
    REQUESTS_AT,
    RequestCluster,
    RequestMaster,
)
from tests.controllers.provisioning.test_workloads import WORKLOADS_AT, KueueCluster
from topo.model.errors import SharedStateError
from topo.provisioning.workloads import Workload, as_request

pytestmark = pytest.mark.virtual_time
SIZE = {"gpu-group-size": "16"}


Owner = Callable[[ProvisioningController], object]
STEPS: dict[str, tuple[Owner, str, Callable[[Any], str]]] = {
    "read": (lambda of: of.terms, "read", lambda request: request.name),
    "decide": (lambda of: of.machine, "_settle", lambda record: record.request.name),
    "place": (lambda of: of.bookings, "find", lambda asked: asked.name),
    "write": (lambda of: of.form, "writes", lambda asked: asked.request.name),
}
"""The owner of a step, its method, and the name of the request that it is called with."""


class Broken:
    """Makes a step raise an error for the requests called `bad`, until it is mended."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch, self.is_mended = monkeypatch, False

    def begin(self, master: RequestMaster, step: str, error: Exception) -> None:
        owner, method, name_of = STEPS[step]
        of = type(owner(master.controller))
        original = getattr(of, method)

        def faulty(this: object, given: Any, *more: Any) -> Any:
            if not self.is_mended and name_of(given).endswith("bad"):
                raise error
            return original(this, given, *more)

        self._monkeypatch.setattr(of, method, faulty)


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Broken:
    return Broken(monkeypatch)


def events_about(cluster: RequestCluster, name: str) -> list[str]:
    found = (each.document for (at, _), each in cluster.api.objects.items() if EVENTS.plural in at)
    return [each["reason"] for each in found if each["regarding"]["name"] == name]


@pytest.mark.parametrize("step", STEPS)
async def test_a_request_that_raises_an_error_is_set_aside_until_it_changes(
    step: str, broken: Broken
) -> None:
    cluster = RequestCluster()
    async with cluster.master() as master:
        broken.begin(master, step, TypeError("unhashable type: 'dict'"))
        errors = master.controller.errors
        cluster.template()
        cluster.ask("bad", 2, **SIZE)
        cluster.ask("good", 2, **SIZE)
        await until(lambda: "Provisioned" in cluster.true("good"))
        assert "Provisioned" not in cluster.true("bad")
        assert list(errors.of(ObjectKind.REQUEST)) == ["jobs/bad"]
        await until(lambda: "SetAside" in events_about(cluster, "bad"))
        assert "SetAside" not in events_about(cluster, "good")
        broken.is_mended = True
        cluster.api.touch(REQUESTS_AT, "bad")
        await until(lambda: "Provisioned" in cluster.true("bad"))
        assert not errors.of(ObjectKind.REQUEST)


async def test_a_request_that_was_set_aside_is_forgotten_once_it_is_gone(broken: Broken) -> None:
    cluster = RequestCluster()
    async with cluster.master() as master:
        broken.begin(master, "read", KeyError("x"))
        cluster.template()
        cluster.ask("bad", 2, **SIZE)
        errors = master.controller.errors
        await until(lambda: bool(errors.of(ObjectKind.REQUEST)))
        cluster.delete("bad")
        await until(lambda: not errors.of(ObjectKind.REQUEST))


async def test_a_new_leader_waits_for_no_request_that_raises_an_error(
    broken: Broken,
) -> None:
    """Nothing is booked before the promises of an earlier leader can no longer arrive."""
    cluster = RequestCluster()
    async with cluster.master() as master:
        cluster.template()
        cluster.ask("all", 8, **SIZE)
        await until(lambda: "Provisioned" in cluster.true("all"))
        cluster.ask("bad", 2, **SIZE)
        await until(lambda: "Accepted" in cluster.true("bad"))
        broken.begin(master, "decide", KeyError("x"))
    cluster.delete("all")
    async with cluster.master() as master:
        cluster.ask("good", 2, **SIZE)
        await until(lambda: "Provisioned" in cluster.true("good"))
        assert "Provisioned" not in cluster.true("bad")
        assert master.controller.is_restored
        broken.is_mended = True


async def test_an_error_of_the_bookings_ends_the_controller(broken: Broken) -> None:
    cluster = RequestCluster()
    async with cluster.master() as master:
        broken.begin(master, "place", SharedStateError("bookings: two holds of one id"))
        cluster.template()
        cluster.ask("bad", 2, **SIZE)
        with pytest.raises(SharedStateError):
            await master.controller.run()


@pytest.mark.parametrize("step", STEPS)
async def test_a_job_of_kueue_that_raises_an_error_stays_held_and_others_are_let_go(
    step: str, broken: Broken
) -> None:
    cluster = KueueCluster()
    async with cluster.master() as master:
        broken.begin(master, step, ZeroDivisionError())
        cluster.queue("bad", 2, WORDS.whole_groups)
        cluster.queue("good", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("good") == "")
        assert cluster.gates("bad") == WORDS.whole_groups
        assert list(master.controller.errors.of(ObjectKind.WORKLOAD)) == ["jobs/job-bad"]
        await until(lambda: "SetAside" in events_about(cluster, "bad"))
        broken.is_mended = True
        workload = cluster.api.objects[WORKLOADS_AT, "job-bad"].document
        workload["metadata"]["annotations"]["example.com/a"] = "b"
        cluster.api.touch(WORKLOADS_AT, "job-bad")
        await until(lambda: cluster.gates("bad") == "")


async def test_a_workload_that_cannot_be_made_a_request_hides_no_other_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where all are read again, since what is answered or the nodes of a flavor changed."""

    def faulty(found: Workload, *rest: Any) -> Any:
        if found.name == "job-bad":
            raise KeyError(found.name)
        return as_request(found, *rest)

    monkeypatch.setattr(workload_stores, "as_request", faulty)
    cluster = KueueCluster()
    async with cluster.master():
        cluster.queue("bad", 2, WORDS.whole_groups)
        cluster.queue("good", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("good") == "")
        cluster.api.add(KUEUE_FLAVORS, "another", spec={})
        cluster.queue("last", 2, WORDS.whole_groups)
        await until(lambda: cluster.gates("last") == "")
        assert cluster.gates("bad") == WORDS.whole_groups

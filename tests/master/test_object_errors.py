"""Objects that are set aside are logged once, counted by kind and shown until they are handled."""

import prometheus_client as prom
import pytest
from structlog.testing import capture_logs

from master.object_errors import ObjectErrors, ObjectKind
from topo.model.conditions.master import MasterCondition
from topo.model.errors import SharedStateError
from topo.model.isolation import ObjectError

SET_ASIDE, RAISED = "topo_master_objects_set_aside", "topo_master_object_errors_total"


def fails(text: str = "x") -> int:
    raise KeyError(text)


def test_an_object_is_set_aside_until_its_step_succeeds() -> None:
    registry = prom.CollectorRegistry()
    errors = ObjectErrors(registry)

    def count(name: str) -> float | None:
        return registry.get_sample_value(name, {"kind": "workload"})

    assert count(SET_ASIDE) == count(RAISED) == 0
    found = errors.run(ObjectKind.WORKLOAD, "team-a/job", fails)
    assert isinstance(found, ObjectError)
    assert errors.of(ObjectKind.WORKLOAD) == {"team-a/job": "KeyError: 'x'"}
    assert (count(SET_ASIDE), count(RAISED)) == (1, 1)
    (warning,) = errors.warnings()
    assert warning.code == MasterCondition.OBJECT_SET_ASIDE
    assert "team-a/job" in warning.text
    assert errors.run(ObjectKind.WORKLOAD, "team-a/job", lambda: 3) == 3
    assert (count(SET_ASIDE), count(RAISED)) == (0, 1)
    assert errors.warnings() == ()


def test_the_traceback_of_a_line_of_code_is_logged_once_and_each_object_once() -> None:
    errors = ObjectErrors()
    with capture_logs() as logs:
        for _ in range(3):
            for name in ("a", "b"):
                errors.run(ObjectKind.REPORT, name, fails)
    assert [(each["object"], "traceback" in each) for each in logs] == [("a", True), ("b", False)]


async def test_awaited_steps_are_set_aside_the_same_way() -> None:
    async def work() -> None:
        fails()

    errors = ObjectErrors()
    assert isinstance(await errors.run_async(ObjectKind.WRITE, "n", work()), ObjectError)
    assert list(errors.of(ObjectKind.WRITE)) == ["n"]


def test_objects_that_are_gone_are_forgotten() -> None:
    errors = ObjectErrors()
    for name in ("a", "b"):
        errors.run(ObjectKind.OBJECT, name, fails)
    errors.retain(ObjectKind.OBJECT, {"b"})
    assert list(errors.of(ObjectKind.OBJECT)) == ["b"]


def test_an_error_of_shared_state_ends_the_caller() -> None:
    def shared() -> None:
        raise SharedStateError("bookings")

    with pytest.raises(SharedStateError):
        ObjectErrors().run(ObjectKind.HOLD, "h", shared)

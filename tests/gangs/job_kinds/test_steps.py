"""Volcano Jobs whose tasks wait for each other: what the webhook makes of them."""

from typing import Any

import pytest

from tests.gangs.admission.patching import WORDS, task, volcano
from tests.gangs.job_kinds import made


def depends(name: str, replicas: int, *on: str, gpus: int = 8, **more: Any) -> dict[str, Any]:
    """A task that depends on others."""
    waits = {"dependsOn": {"name": list(on)}} if on else {}
    return {**task(name, replicas, gpus or None), **waits, **more}


def of_pairs(*tasks: dict[str, Any], **spec: Any) -> dict[str, Any]:
    """A job of these tasks that asks for pairs."""
    found = volcano(*tasks, **spec)
    found["metadata"]["annotations"] = {WORDS.size: "16"}
    return found


def stamped(found: dict[str, Any]) -> list[dict[str, str]]:
    """The annotations of the templates."""
    tasks = made.admitted(found)["spec"]["tasks"]
    return [each["template"].get("metadata", {}).get("annotations", {}) for each in tasks]


def test_the_places_of_a_task_that_depends_on_another_are_kept() -> None:
    """As in the example of Volcano, whose master waits for its workers."""
    wanted = of_pairs(depends("mpimaster", 1, "mpiworker"), depends("mpiworker", 3), minAvailable=3)
    assert not made.warnings(wanted)
    assert [each[WORDS.is_late] for each in stamped(wanted)] == ["true", "true"]
    assert [each[WORDS.pods] for each in stamped(wanted)] == ["4", "4"]


@pytest.mark.parametrize(
    "tasks",
    [
        (depends("a", 2), depends("b", 2)),
        (depends("a", 2, gpus=0), depends("b", 4, "a")),  # it is no part of the gang
        (depends("a", 2, minAvailable=0), depends("b", 2, "a")),  # none of it has to run
        (depends("a", 2), depends("b", 2, "unknown")),
    ],
)
def test_a_job_whose_pods_are_made_together_keeps_no_places(tasks: Any) -> None:
    assert not any(WORDS.is_late in each for each in stamped(of_pairs(*tasks)))


def test_volcano_starts_the_tasks_that_wait_for_no_other_together() -> None:
    wanted = of_pairs(depends("a", 2), depends("b", 4, minAvailable=3), depends("c", 2, "a"))
    assert made.admitted(wanted)["spec"]["minAvailable"] == 5


def test_a_minimum_that_volcano_never_reaches_is_refused_with_the_field() -> None:
    tasks = depends("a", 2), depends("b", 2, "a")
    told = made.warnings(of_pairs(*tasks, minAvailable=3))
    assert "minAvailable is 3, and 2 pods are made before those that depend on others" in told
    assert "spec.minAvailable" in told
    assert "give at most 2" in told
    assert not made.warnings(of_pairs(*tasks, minAvailable=2))
    together = of_pairs(depends("a", 2), depends("b", 2), minAvailable=5)
    assert not made.warnings(together), "that is for Volcano to judge"

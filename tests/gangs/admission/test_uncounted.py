"""What a new job requires of nodes and no plan counts: its user is told which field that is."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.gangs.admission.patching import admitted, batch, sample, task, volcano
from topo.gangs.admission.outcome import Result
from topo.gangs.admission.uncounted import MOST

RACK = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SELECTOR = {"matchLabels": {"app": "train"}}


def term(key: str) -> dict[str, Any]:
    """A term of an affinity to pods over a label of nodes."""
    return {"topologyKey": key, "labelSelector": SELECTOR}


def spread(when: str) -> dict[str, Any]:
    """A spec with one topology spread constraint."""
    each = {"maxSkew": 1, "topologyKey": RACK, "whenUnsatisfiable": when, "labelSelector": SELECTOR}
    return {"topologySpreadConstraints": [each]}


UNCOUNTED = {
    "affinity.podAffinity": {"affinity": {"podAffinity": {REQUIRED: [term(HOST)]}}},
    "affinity.podAntiAffinity": {
        "affinity": {"podAntiAffinity": {REQUIRED: [term(HOST), term(RACK)]}}
    },
    "topologySpreadConstraints": spread("DoNotSchedule"),
}


def with_spec(template: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The template with more in the spec of its pods."""
    return {**template, "spec": {**template["spec"], **spec}}


@pytest.mark.parametrize("field", UNCOUNTED)
def test_each_requirement_that_a_plan_does_not_count_is_named_with_its_field(field: str) -> None:
    of_volcano = sample()
    last = of_volcano["spec"]["tasks"][-1]
    last["template"] = with_spec(last["template"], UNCOUNTED[field])
    of_batch = batch(4)
    of_batch["spec"]["template"] = with_spec(of_batch["spec"]["template"], UNCOUNTED[field])
    place = f"spec.tasks[{len(of_volcano['spec']['tasks']) - 1}].template"
    for job, path in ((of_volcano, place), (of_batch, "spec.template")):
        outcome = admitted(job)
        assert outcome.result is Result.STAMPED
        (text,) = [each for each in outcome.warnings if "is not counted" in each]
        assert text.startswith(f"{path}.spec.{field} is not counted when nodes are planned")


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": {"podAntiAffinity": {REQUIRED: [term(HOST)]}}},
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": term(RACK)}]}}},
        spread("ScheduleAnyway"),
        {"affinity": None, "topologySpreadConstraints": "none"},
    ],
    ids=["apart on hosts", "preferred", "spread where possible", "of no shape"],
)
def test_what_is_counted_or_only_preferred_warns_of_nothing(spec: Mapping[str, Any]) -> None:
    job = batch(4)
    job["spec"]["template"] = with_spec(job["spec"]["template"], spec)
    assert not admitted(job).warnings


def test_a_job_without_groups_gets_no_warning() -> None:
    job = batch(4, size=None)
    spec = job["spec"]["template"]
    job["spec"]["template"] = with_spec(spec, UNCOUNTED["topologySpreadConstraints"])
    assert not admitted(job).warnings


def test_a_job_of_many_templates_gets_a_few_warnings() -> None:
    tasks = [task(f"t{each}", 2, gpu_group_size="16") for each in range(20)]
    for each in tasks:
        each["template"] = with_spec(each["template"], UNCOUNTED["affinity.podAffinity"])
    assert len(admitted(volcano(*tasks)).warnings) == MOST

"""A kind of job is one row: webhook, gate, index, metrics, documentation and chart follow it."""

from pathlib import Path
from typing import Any

import prometheus_client as prom
import pytest

from master.admission.metrics import AdmissionMetrics
from master.admission.reviews import review
from master.controllers.nomination.gangs.builder import build_gang
from master.kube.gang_pod import GangPod
from tests.admission.asking import asked
from tests.controllers.nomination.objects import gang_context, parse
from tests.gangs.admission.patching import RULES, WORDS
from tests.gangs.job_kinds.example_kind import CREW, SEAT, UID
from tests.gangs.job_kinds.made import admitted, job, pod, pod_template
from tests.helm.chart import golden, one
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.placement.job.request import Request

PAGE = Path(__file__).parents[3] / "docs" / "job-kinds.md"
OWNER = {"apiVersion": "crews.example.com/v1", "kind": "Seat"}
"""Each pod has an owner of its own, which is no job."""


@pytest.fixture
def with_crew(monkeypatch: pytest.MonkeyPatch) -> JobKind:
    """The table with one row more."""
    monkeypatch.setattr(kinds, "JOB_KINDS", (*JOB_KINDS, CREW))
    return CREW


def a_crew() -> dict[str, Any]:
    """A Crew of two pairs, as its user writes it."""
    crew = {"count": 4, "template": pod_template()}
    return job(CREW, {"crew": crew}, gpu_group_size="16")


def pods_of(crew: Any) -> list[dict[str, Any]]:
    """What its controller makes of it, the last one first, as the webhook leaves them."""
    template, made = crew["spec"]["crew"]["template"], []
    for seat in reversed(range(4)):
        found = pod(template, {UID: "crew-1", SEAT: str(seat)}, {**OWNER, "uid": f"seat-{seat}"})
        found["metadata"] |= {"name": f"seat-{seat}", "uid": f"pod-{seat}"}
        made.append(admitted(found))
    return made


def test_a_file_and_a_row_are_a_kind_whose_pods_are_one_gang_in_whole_groups(
    with_crew: JobKind,
) -> None:
    found = review(asked(a_crew()), RULES, "warn")
    assert (found.kind, found.result) == (with_crew.name, "stamped")
    documents = pods_of(admitted(a_crew()))
    gates = [each["spec"]["schedulingGates"] for each in documents]
    assert gates == [[{"name": WORDS.gate}]] * 4
    pods = [each for each in map(parse, documents) if isinstance(each, GangPod)]
    assert [each.rank for each in pods] == [3, 2, 1, 0]
    (gang_id,) = {each.gang_id for each in pods}
    gang = build_gang(gang_id, pods, gang_context())
    assert gang.request == Request(pods=4, gpus_per_pod=8, group_size=16)
    assert [(each.name, gang.group_of(each.rank)) for each in gang.members] == [
        ("seat-0", 0),
        ("seat-1", 0),
        ("seat-2", 1),
        ("seat-3", 1),
    ]
    assert (gang.ungated, gang.awaits) == ("", "")


def test_without_the_row_such_a_job_is_no_job_of_ours() -> None:
    assert review(asked(a_crew()), RULES, "warn").kind == "other"


@pytest.mark.usefixtures("with_crew")
def test_a_row_has_its_reviews_counted_from_zero() -> None:
    registry = prom.CollectorRegistry()
    AdmissionMetrics(registry)
    sample = "topo_master_admission_reviews_total"
    assert registry.get_sample_value(sample, {"kind": "crew", "result": "stamped"}) == 0


def undocumented() -> set[str]:
    """The titles that the page for users does not name."""
    text = PAGE.read_text(encoding="utf-8")
    return {kind.title for kind in kinds.JOB_KINDS if kind.title not in text}


def not_sent_by_the_chart() -> set[tuple[str, str, str]]:
    """The kinds of which the chart's webhooks send no objects."""
    found = one(golden("vendor"), "MutatingWebhookConfiguration", "topo-master-admission")
    sent = {
        (group, version, resource)
        for webhook in found["webhooks"]
        for rule in webhook["rules"]
        for group in rule["apiGroups"]
        for version in rule["apiVersions"]
        for resource in rule["resources"]
    }
    return {(each.group, each.version, each.resource) for each in kinds.JOB_KINDS} - sent


def test_each_kind_is_documented_and_sent_by_the_chart() -> None:
    assert undocumented() == set()
    assert not_sent_by_the_chart() == set()


def test_a_kind_that_the_page_and_the_chart_lack_is_found(with_crew: JobKind) -> None:
    assert undocumented() == {with_crew.title}
    assert not_sent_by_the_chart() == {(with_crew.group, with_crew.version, with_crew.resource)}

"""A kind of job is one row: webhook, gate, index, metrics, documentation and chart follow it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import prometheus_client as prom
import pytest

from master.admission.metrics import AdmissionMetrics
from master.admission.reviews import review
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, WORDS, batch
from tests.helm.chart import golden, one
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.gangs.stamp import Stamp, pod_index

PAGE = Path(__file__).parents[3] / "docs" / "job-kinds.md"
SET = replace(
    JOB_KINDS[1],
    name="set",
    title="Set of an example",
    group="sets.example.com",
    kind="Set",
    resource="sets",
    index_key="sets.example.com/index",
)
"""A kind that the product does not know, of the shape of a batch Job."""


@pytest.fixture
def with_set(monkeypatch: pytest.MonkeyPatch) -> JobKind:
    """The table with one row more."""
    monkeypatch.setattr(kinds, "JOB_KINDS", (*JOB_KINDS, SET))
    return SET


def pod_of(owner: JobKind) -> dict[str, Any]:
    """A stamped pod with the index of its kind."""
    annotations = {WORDS.size: "16", **Stamp(4, 0, 2).annotations(WORDS), owner.index_key: "3"}
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "controller": True}
    metadata = {"annotations": annotations, "ownerReferences": [reference]}
    limits = {"metaxtech.com/gpu": "8", "metax-tech.com/gpu": "8"}
    spec = {"containers": [{"name": "main", "resources": {"limits": limits}}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def test_a_row_has_its_jobs_stamped(with_set: JobKind) -> None:
    job = {**batch(4, size="16"), "apiVersion": with_set.api_version, "kind": with_set.kind}
    found = review(asked(job), RULES, "warn")
    assert (found.kind, found.result) == (with_set.name, "stamped")
    assert response(found.answer)["patch"]


def test_without_the_row_such_a_job_is_no_job_of_ours() -> None:
    job = {**batch(4, size="16"), "apiVersion": SET.api_version, "kind": SET.kind}
    assert review(asked(job), RULES, "warn").kind == "other"


def test_a_row_has_the_pods_of_its_jobs_gated(with_set: JobKind) -> None:
    found = review(asked(pod_of(with_set)), RULES, "warn")
    assert found.result == "gated"
    assert pod_index({with_set.index_key: "3"}, {}) == 3


@pytest.mark.usefixtures("with_set")
def test_a_row_has_its_reviews_counted_from_zero() -> None:
    registry = prom.CollectorRegistry()
    AdmissionMetrics(registry)
    sample = "topo_master_admission_reviews_total"
    assert registry.get_sample_value(sample, {"kind": "set", "result": "stamped"}) == 0


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


def test_a_kind_that_the_page_and_the_chart_lack_is_found(with_set: JobKind) -> None:
    assert undocumented() == {with_set.title}
    assert not_sent_by_the_chart() == {(with_set.group, with_set.version, with_set.resource)}

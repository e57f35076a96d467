"""What pods state alike is kept once, and nothing that is large is kept after its pod is gone."""

import sys
from typing import Any

import pytest

from tests.controllers.nomination.objects import WORDS, gated_pod, parse
from topo.gangs.stamp import Stamp

STAMP = Stamp(pods=2, rank_offset=0, pods_per_group=2)
LONG = 100_000
"""The API server takes annotations of 256 KiB, and pods of 1.5 MiB."""


def pod_with(annotations: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    made = gated_pod(0, STAMP, **annotations)
    names = {"name": "p0", "uid": "p0"}
    return {"metadata": {**made["metadata"], **names}, "spec": {**made["spec"], **spec}}


def affinity(text: str) -> dict[str, Any]:
    values = [text, *(f"v{n}" for n in range(LONG // 10))]
    expression = {"key": "zone", "operator": "In", "values": values}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    }


def resources(text: str) -> dict[str, Any]:
    asked = {text: "1"} | {f"example.com/r{n}": "1" for n in range(LONG // 10)}
    return {"containers": [{"name": "main", "resources": {"requests": asked}}]}


@pytest.mark.parametrize(
    ("annotations", "spec"),
    [
        (lambda text: {WORDS.size: text}, None),
        (lambda text: {WORDS.own_domains: text}, None),
        (lambda text: {WORDS.kind: "pods", WORDS.gang_name: text}, None),
        (None, affinity),
        (None, resources),
    ],
    ids=["terms", "stamp", "name of a gang", "affinity", "amounts"],
)
def test_a_text_of_a_pod_is_not_kept_once_the_pod_is_gone(annotations: Any, spec: Any) -> None:
    text = "x" * LONG if annotations else "example.com/only-here"
    before = sys.getrefcount(text)
    document = pod_with(annotations(text) if annotations else {}, spec(text) if spec else {})
    found: Any = parse(document)
    assert found.gated
    del found, document
    assert sys.getrefcount(text) == before

"""Pods without a group in namespaces that want nodes by the links between GPUs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.gangs.admission.patching import DOMAIN, RULES, WORDS, patched
from topo.gangs.admission.outcome import Result
from topo.gangs.admission.pods import admit_pod

HERE = replace(RULES, by_links=True, token="1f")
REPLICAS = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u"}


def lone(*, gpus: int = 2, annotations: dict[str, str] | None = None, **spec: Any) -> Any:
    """A pod of a Deployment, as its ReplicaSet makes it."""
    limits = {"limits": {f"{DOMAIN}/gpu": str(gpus)} if gpus else {}}
    return {
        "metadata": {
            "generateName": "web-",
            "ownerReferences": [{**REPLICAS, "controller": True}],
            **({"annotations": annotations} if annotations else {}),
        },
        "spec": {"containers": [{"resources": limits}], **spec},
    }


def test_it_is_gated_as_a_gang_of_its_own() -> None:
    outcome = admit_pod(lone(), HERE)
    assert outcome.result is Result.GATED
    after = patched(lone(), outcome.patch)
    assert after["spec"]["schedulingGates"] == [{"name": WORDS.gate}]
    annotations = after["metadata"]["annotations"]
    assert annotations[WORDS.by_links] == "true"
    assert (annotations[WORDS.gang_name], annotations[WORDS.pods]) == ("pod-1f", "1")
    assert (annotations[WORDS.size], annotations[WORDS.rank]) == ("2", "0")
    for rules in (RULES, HERE):  # Volcano's webhook may have both asked once more
        assert patched(after, admit_pod(after, rules).patch) == after


@pytest.mark.parametrize(
    "made",
    [
        lone(gpus=0),
        lone(nodeName="n1"),
        lone(annotations={WORDS.size: "16"}),
        lone(annotations={WORDS.ungrouped: "its job names a selector"}),
        lone(schedulingGroup={"podGroupName": "g"}),
    ],
)
def test_a_pod_with_a_group_a_node_or_without_gpus_is_left_as_it_is(made: Any) -> None:
    assert admit_pod(made, HERE) == admit_pod(made, RULES)
    assert admit_pod(made, HERE).result is not Result.GATED


def test_in_any_other_namespace_it_is_no_business_of_ours() -> None:
    assert admit_pod(lone(), RULES).result is Result.UNCHANGED

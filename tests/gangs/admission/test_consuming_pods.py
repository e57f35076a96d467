"""Pods that consume a ProvisioningRequest at their creation: gated where they are answered."""

from typing import Any

import pytest

from topo.gangs.admission.outcome import Result, Rules
from topo.gangs.admission.pods import admit_pod
from topo.gangs.annotation_keys import CONSUMES, AnnotationKeys

KEYS = AnnotationKeys("metax-tech.com")
RULES = Rules(keys=KEYS, takes_requests=True)
NAME, CLASS = CONSUMES[0]
OURS = {NAME: "train", CLASS: "whole-group.metax-tech.com"}


def a_pod(annotations: dict[str, str], gpus: int = 8, **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"metax-tech.com/gpu": gpus}}}
    metadata = {"namespace": "jobs", "name": "a", "annotations": annotations}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}}


@pytest.mark.parametrize("names", CONSUMES)
def test_a_pod_that_consumes_a_request_of_our_class_is_gated_whoever_owns_it(names):
    name, of_class = names
    outcome = admit_pod(a_pod({name: "train", of_class: KEYS.provisioning_class}), RULES)
    assert outcome.result is Result.GATED
    (gate,) = outcome.patch
    assert gate["value"] == [{"name": KEYS.gate}]


@pytest.mark.parametrize(
    ("made", "rules"),
    [
        (a_pod({NAME: "train", CLASS: "queued-provisioning.gke.io"}), RULES),
        (a_pod({NAME: "train"}), RULES),
        (a_pod({CLASS: "whole-group.metax-tech.com"}), RULES),
        (a_pod(OURS, gpus=0), RULES),
        (a_pod(OURS, nodeName="node-1"), RULES),
        (a_pod(OURS, schedulingGates=[{"name": KEYS.gate}]), RULES),
        (a_pod(OURS), Rules(keys=KEYS)),
    ],
)
def test_a_pod_of_another_class_or_that_nobody_would_open_is_left_alone(made, rules):
    assert admit_pod(made, rules).result is Result.UNCHANGED

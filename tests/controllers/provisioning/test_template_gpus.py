"""One answer to how many GPUs a pod takes: of its template, of a review of its job, of itself."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter

from master.kube.objects import PodObject, PodSpec
from master.kube.schedulers.template_gpus import template_gpus
from master.sources.kubernetes.pods import PodParser
from tests.controllers.nomination.objects import GPU, WORDS
from topo.gangs.job_kinds.templates import pod_gpus
from topo.gangs.terms import Way
from topo.placement.job.policy import Policy

RESOURCES = Policy().gpu_resources
POD, SPEC = TypeAdapter(PodObject), TypeAdapter(PodSpec)
NAMES = st.sampled_from([*RESOURCES[:3], GPU, "metax-tech.com/sgpu", "cpu"])
AMOUNTS = st.dictionaries(NAMES, st.integers(0, 16).map(str), max_size=3)
CONTAINERS = st.lists(
    st.builds(
        lambda requests, limits, policy: {
            "name": "c",
            "resources": {"requests": requests, "limits": limits},
            **({"restartPolicy": policy} if policy else {}),
        },
        AMOUNTS,
        AMOUNTS,
        st.sampled_from(["", "Always"]),
    ),
    max_size=3,
)
CLAIMS = st.lists(st.just({"name": "gpus", "resourceClaimTemplateName": "eight"}), max_size=2)
STAMPED = st.sampled_from(["", "0", "8", "none", "-1"])


@given(CONTAINERS, CONTAINERS, CLAIMS, STAMPED)
def test_a_template_has_the_gpus_of_the_pods_that_are_made_of_it(
    containers: Any, init: Any, claims: Any, stamped: str
) -> None:
    spec = {"containers": containers, "initContainers": init, "resourceClaims": claims}
    annotations = {WORDS.size: "16", **({WORDS.claimed_gpus: stamped} if stamped else {})}
    found = template_gpus(SPEC.validate_python(spec), annotations, RESOURCES, WORDS)
    metadata = {"name": "p", "namespace": "jobs", "annotations": annotations}
    made = POD.validate_python({"metadata": metadata, "spec": spec})
    pod = PodParser(Policy(), WORDS, Way.NOMINATION).parse(made)
    assert (found.resource, found.gpus) == (pod.resource, pod.gpus)
    asked = pod_gpus(spec, RESOURCES)
    assert asked == found.gpus - (8 if claims and stamped == "8" else 0)
    assert found.is_unknown == (bool(claims) and not stamped and not found.gpus)

"""Required anti-affinity to pods like itself is a place of which a node has one."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from master.kube.schema.affinity import Affinity
from master.sources.kubernetes.pods_apart import places_apart

AFFINITY = TypeAdapter(Affinity)
HOST = "kubernetes.io/hostname"
LABELS = {"app": "train", "job": "one"}


def places(*terms: dict[str, Any], namespace: str = "jobs", labels: Any = None) -> list[str]:
    """The places that a pod takes whose spec has these terms."""
    required = {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}
    affinity = AFFINITY.validate_python({"podAntiAffinity": required})
    return [*places_apart(namespace, LABELS if labels is None else labels, affinity)]


def term(selector: Any, **more: Any) -> dict[str, Any]:
    """A term over the host name."""
    return {"topologyKey": HOST, "labelSelector": selector, **more}


APP = {"matchLabels": {"app": "train"}}
WORDS = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["train", "a"]}]}


def test_equal_terms_are_one_place_and_others_are_others() -> None:
    """The order of values, and the other labels of the pods, say nothing."""
    turned = {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a", "train"]}]}
    assert places(term(WORDS)) == places(term(turned), labels={"app": "a"})
    found = {*places(term(APP)), *places(term(WORDS)), *places(term(APP), namespace="other")}
    assert len(found) == 3
    everywhere = term(APP, namespaceSelector={})
    assert places(everywhere) == places(everywhere, namespace="other")
    both = term(APP, namespaces=["jobs", "other"])
    assert places(both) == places(both, namespace="other")


@pytest.mark.parametrize(
    "unseen",
    [
        term({"matchLabels": {"app": "serve"}}),
        term(APP, namespaces=["other"]),
        term(APP, namespaceSelector={"matchLabels": {"team": "a"}}),
        term(APP, matchLabelKeys=["job"]),
        term(None),
        {**term(APP), "topologyKey": "topology.kubernetes.io/zone"},
    ],
    ids=["other pods", "other namespaces", "some namespaces", "keys", "no pods", "zones"],
)
def test_a_term_that_does_not_surely_match_the_pod_itself_is_no_place(unseen: Any) -> None:
    assert places(unseen) == []


def test_without_required_terms_there_is_no_place() -> None:
    assert [*places_apart("jobs", LABELS, None)] == []
    assert places() == []

"""A pod for which the parser raises an error counts on the safe side, and others are read."""

from typing import Any

import pytest
from pydantic import TypeAdapter

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import PodObject
from master.object_errors import ObjectErrors, ObjectKind
from master.sources.kubernetes.pod_reader import PodReader
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.errors import Refusal
from topo.model.quantity import MOST
from topo.placement.booking.events import PodPhase
from topo.placement.job.policy import Policy

POD = TypeAdapter(PodObject)
KEYS = AnnotationKeys("metax-tech.com")


def pod_object(*, node: str = "n1", gpus: int = 1, **spec: Any) -> PodObject:
    limits = {"metax-tech.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    containers = [{"name": "c", "resources": {"limits": limits}}]
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "J", "controller": True}
    metadata = {"name": "p", "namespace": "team-a", "uid": "P", "ownerReferences": [owner]}
    manifest = {"nodeName": node, "containers": containers, **spec}
    status = {"phase": "Running" if node else "Pending"}
    return POD.validate_python({"metadata": metadata, "spec": manifest, "status": status})


def raises(_: PodObject) -> ClusterPod:
    raise TypeError("unhashable type: 'list'")


@pytest.fixture
def reader() -> PodReader:
    return PodReader(parse=raises, policy=Policy(), keys=KEYS, errors=ObjectErrors())


def test_a_bound_pod_with_cards_takes_all_of_its_node(reader: PodReader) -> None:
    found = reader.read(pod_object())
    assert found.booking is not None
    assert (found.booking.pod.node, found.booking.pod.gpus) == ("n1", MOST)
    assert found.booking.phase is PodPhase.BOUND
    assert "counts as all GPUs of its node" in found.doubts[0]
    assert list(reader.errors.of(ObjectKind.OBJECT)) == ["pods team-a/p"]


def test_a_pod_without_cards_takes_none(reader: PodReader) -> None:
    found = reader.read(pod_object(gpus=0))
    assert (found.booking, found.gpus, found.names_cards) == (None, 0, False)


def test_a_gated_pod_is_a_gang_of_its_own_that_has_no_valid_terms(reader: PodReader) -> None:
    """So its gate is opened, and the gang of the owner that it names does not count it."""
    found = reader.read(pod_object(node="", schedulingGates=[{"name": KEYS.gate}]))
    assert isinstance(found, GangPod)
    assert found.gang_id == "P"
    assert found.gated
    assert found.is_placed_here
    assert isinstance(found.terms, Refusal)


def test_a_pod_that_has_ended_takes_nothing(reader: PodReader) -> None:
    found = pod_object()
    found = POD.validate_python(
        {"metadata": found.metadata, "spec": found.spec, "status": {"phase": "Failed"}}
    )
    assert reader.read(found).booking is None
    assert reader.read_ended(found).gang_id == ""

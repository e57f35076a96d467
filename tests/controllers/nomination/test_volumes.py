"""On which nodes the volumes of a gang's pods can be, and what is told where one is missing."""

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import TypeAdapter

from master.controllers.nomination.gangs.builder import build_gang
from master.controllers.nomination.volumes import Volumes
from master.kube.volumes import ClaimObject, StorageClassObject, VolumeObject
from tests.controllers.nomination.objects import GANG, gang_context, labelled_node, pod
from topo.gangs.machine.gang import Gang

ZONE = "topology.kubernetes.io/zone"
_CLAIM, _VOLUME = TypeAdapter(ClaimObject), TypeAdapter(VolumeObject)
_CLASS = TypeAdapter(StorageClassObject)


class Known:
    """Objects of one kind that are all known."""

    def __init__(self, objects: Mapping[tuple[str, str], Any], *, synced: bool = True) -> None:
        self.objects, self.synced = objects, synced


def claim(name: str, volume: str = "", of_class: str = "") -> ClaimObject:
    return _CLAIM.validate_python(
        {
            "metadata": {"name": name, "namespace": "jobs"},
            "spec": {"volumeName": volume, "storageClassName": of_class},
        }
    )


def volume(name: str, *expressions: Any, **labels: str) -> VolumeObject:
    terms = [{"matchExpressions": list(expressions)}] if expressions else []
    affinity = {"required": {"nodeSelectorTerms": terms}} if terms else None
    return _VOLUME.validate_python(
        {"metadata": {"name": name, "labels": labels}, "spec": {"nodeAffinity": affinity}}
    )


def volumes(*claims: ClaimObject, there: tuple[VolumeObject, ...] = (), **known: Any) -> Volumes:
    """These objects, and a class that waits for the first pod."""
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
    found: Any = {
        "claims": Known({("jobs", each.metadata.name): each for each in claims}, **known),
        "volumes": Known({("", each.metadata.name): each for each in there}),
        "classes": Known({("", "late"): _CLASS.validate_python(late)}),
    }
    return Volumes(**found)


def built(found: Volumes, *mounted: Any) -> Gang:
    """A gang of kube-scheduler, each of whose pods mounts what is given for it."""
    nodes = (
        labelled_node("n1", **{"disk": "a", ZONE: "z1"}),
        labelled_node("n2", **{"disk": "b", ZONE: "z2"}),
        labelled_node("n3"),
    )
    pods = [pod(rank, group="", volumes=each) for rank, each in enumerate(mounted)]
    context = gang_context(
        nodes=lambda: nodes, volume_nodes=found.nodes, missing_volume=found.missing
    )
    return build_gang(GANG, pods, context)


def mounts(*names: str) -> list[Any]:
    return [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in names]


def on(key: str, *values: str, operator: str = "In") -> Any:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_volume_on_one_label_is_a_selector_of_its_pods() -> None:
    found = volumes(claim("data", "pv"), there=(volume("pv", on("disk", "a")),))
    eligible = built(found, mounts("data"), mounts("data")).request.eligible
    assert (eligible.selector, eligible.exclude) == ((("disk", "a"),), frozenset())


@pytest.mark.parametrize(
    "there",
    [
        volume("pv", on("disk", "a", "b")),
        volume("pv", on("disk", operator="Exists")),
        volume("pv", on("disk", "a", "b"), on("disk", operator="Exists")),
        volume("pv", **{ZONE: "z1__z2"}),
    ],
)
def test_other_volumes_exclude_the_nodes_that_cannot_reach_them(there: VolumeObject) -> None:
    found = volumes(claim("data", "pv"), there=(there,))
    assert built(found, mounts("data")).request.eligible.exclude == {"n3"}


def test_a_volume_of_a_zone_keeps_its_pods_in_that_zone() -> None:
    found = volumes(claim("data", "pv"), there=(volume("pv", **{ZONE: "z1"}),))
    assert built(found, mounts("data")).request.eligible.selector == ((ZONE, "z1"),)


def test_pods_with_local_disks_are_tied_each_to_its_own_node() -> None:
    disks = (volume("pv-0", on("disk", "a")), volume("pv-1", on("disk", "b")))
    found = volumes(claim("d-0", "pv-0"), claim("d-1", "pv-1"), there=disks)
    request = built(found, mounts("d-0"), mounts("d-1")).request
    assert [each.selector for _, each in request.by_rank] == [(("disk", "a"),), (("disk", "b"),)]


@pytest.mark.parametrize(
    ("found", "awaits"),
    [
        (volumes(), "PersistentVolumeClaim data of train-worker-0 is not there"),
        (volumes(claim("data")), "PersistentVolumeClaim data of train-worker-0 is not bound"),
        (volumes(claim("data", of_class="late")), ""),
        (
            volumes(claim("data", "pv")),
            "PersistentVolume pv of its claim data of train-worker-0 is not there",
        ),
        (volumes(claim("data", "pv"), there=(volume("pv"),)), ""),
        (volumes(synced=False), ""),
    ],
    ids=["missing", "unbound", "delayed", "lost", "bound", "not-listed"],
)
def test_a_gang_waits_for_a_volume_without_which_no_pod_is_bound(
    found: Volumes, awaits: str
) -> None:
    assert built(found, mounts("data")).awaits == awaits


def test_the_claim_of_an_ephemeral_volume_bears_the_name_of_its_pod() -> None:
    scratch = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}}]
    assert "train-worker-0-scratch" in built(volumes(), scratch).awaits


def test_volumes_without_a_claim_say_nothing_of_nodes() -> None:
    gang = built(volumes(), [{"name": "token", "projected": {"sources": []}}])
    assert (gang.awaits, gang.request.eligible.selector) == ("", ())

"""Which claims of devices are claims of GPUs, and how many GPUs each has."""

from typing import Any

import pytest

from master.kube.dra.claims import RESOURCE_CLAIMS
from master.kube.dra.gpus import GpuClaims
from tests.support.devices import DRIVER, DeviceWorld, counts, exactly, nic
from topo.gangs.admission.outcome import ClaimedGpus

GPU = "nvidia.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpus"


@pytest.fixture
def world() -> DeviceWorld:
    """A node with GPUs of the class `gpus`, and NICs of another."""
    made = DeviceWorld()
    made.publish("node-1", [nic(f"gpu-{number}") for number in range(8)])
    made.define("gpus", f"device.driver == '{DRIVER}'", resource=GPU)
    made.define("nics", "device.driver == 'others'", resource="example.com/nic")
    made.template("eight", exactly("gpus", 8), exactly("nics", 2))
    return made


def of(world: DeviceWorld, name: str, *resources: str) -> ClaimedGpus | None:
    return GpuClaims(counts(world.api), resources or (GPU,)).of_template("jobs", name)


def test_devices_of_a_class_that_names_the_resource_of_gpus_are_gpus(world: DeviceWorld) -> None:
    assert of(world, "eight") == ClaimedGpus(8)
    assert of(world, "eight", "metax-tech.com/gpu", GPU) == ClaimedGpus(8)
    assert of(world, "eight", "metax-tech.com/gpu") == ClaimedGpus(0)


def test_every_class_can_be_named_by_the_resource_that_kubernetes_gives_it(
    world: DeviceWorld,
) -> None:
    assert of(world, "eight", IMPLICIT) == ClaimedGpus(8)
    world.define("gpus", f"device.driver == '{DRIVER}'")
    assert of(world, "eight") == ClaimedGpus(0)
    assert of(world, "eight", IMPLICIT) == ClaimedGpus(8)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        (exactly("gpus", allocationMode="All"), "request 'r' has allocationMode All"),
        (exactly("gpus", tolerations=[{"operator": "Exists"}]), "request 'r' has tolerations"),
        (
            {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpus"}]},
            "request 'r' has firstAvailable",
        ),
    ],
)
def test_a_request_without_a_number_of_gpus_is_undecided(
    world: DeviceWorld, request_: dict[str, Any], said: str
) -> None:
    world.template("other", exactly("gpus", 4), request_)
    assert of(world, "other") == ClaimedGpus(0, f"{said} of class gpus")
    assert of(world, "other", "example.com/nic") == ClaimedGpus(0)


def test_an_administrators_request_takes_no_gpu(world: DeviceWorld) -> None:
    world.template("watching", exactly("gpus", adminAccess=True, allocationMode="All"))
    assert of(world, "watching") == ClaimedGpus(0)


def test_gpus_that_are_not_counted_by_node_are_undecided(world: DeviceWorld) -> None:
    world.define("gpus", "device.driver.startsWith('gpu')", resource=GPU)
    assert of(world, "eight") == ClaimedGpus(8, "devices of class gpus are not counted")


def test_nothing_is_said_of_a_template_or_a_claim_that_is_not_known(world: DeviceWorld) -> None:
    assert of(world, "late") is None
    unserved = GpuClaims(counts(world.api, synced=False), (GPU,))
    assert unserved.of_template("jobs", "eight") is None
    assert unserved.of_claim("jobs", "late") is None


def test_a_claim_that_pods_may_share_tells_whether_it_is_of_gpus(world: DeviceWorld) -> None:
    for name, of_class in (("gpu", "gpus"), ("nic", "nics")):
        spec = {"devices": {"requests": [exactly(of_class)]}}
        world.api.add(RESOURCE_CLAIMS, name, metadata={"namespace": "jobs"}, spec=spec)
    claims = GpuClaims(counts(world.api), (GPU,))
    assert claims.of_claim("jobs", "gpu") == ClaimedGpus(0, "it is of class gpus")
    assert claims.of_claim("jobs", "nic") == ClaimedGpus(0)

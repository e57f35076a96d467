"""Devices that a driver publishes for nodes of the test cluster, and what jobs claim of them."""

from typing import Any

from tests.e2e.controlplane.client import Api

V1 = "/apis/resource.k8s.io/v1"
SLICES, CLASSES = f"{V1}/resourceslices", f"{V1}/deviceclasses"
TEMPLATES = f"{V1}/namespaces/default/resourceclaimtemplates"
DRIVER = "nic.example.com"


async def define(api: Api, *counts: int) -> None:
    """Make the class `nics`, and for each count a template `nics-COUNT` that asks for so many."""
    expression = f"device.driver == '{DRIVER}' && device.attributes['{DRIVER}'].rdma == true"
    chosen = [{"cel": {"expression": expression}}]
    await api.create(CLASSES, {"metadata": {"name": "nics"}, "spec": {"selectors": chosen}})
    for count in counts:
        asked = [{"name": "nic", "exactly": {"deviceClassName": "nics", "count": count}}]
        spec = {"spec": {"devices": {"requests": asked}}}
        await api.create(TEMPLATES, {"metadata": {"name": f"nics-{count}"}, "spec": spec})


async def publish(api: Api, node: str, nics: int) -> None:
    """Publish so many devices of the class on a node, and one of another kind."""
    devices = [
        {"name": f"nic-{number}", "attributes": {"rdma": {"bool": number < nics}}}
        for number in range(nics + 1)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    await api.create(SLICES, {"metadata": {"name": node}, "spec": spec})


def claim(spec: dict[str, Any], count: int) -> None:
    """Have the pods of a template claim so many devices each."""
    spec["resourceClaims"] = [{"name": "nic", "resourceClaimTemplateName": f"nics-{count}"}]
    spec["containers"][0].setdefault("resources", {})["claims"] = [{"name": "nic"}]


async def withdraw(api: Api, *counts: int) -> None:
    """Remove all of this."""
    for count in counts:
        await api.delete(f"{TEMPLATES}/nics-{count}")
    await api.delete(f"{CLASSES}/nics")
    for each in await api.items(SLICES):
        await api.delete(f"{SLICES}/{each['metadata']['name']}")

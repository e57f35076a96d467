"""Volumes that nodes of one shelf reach, and the claims that are bound to them."""

from tests.e2e.controlplane.client import Api

SHELF = "example.com/shelf"
VOLUMES = "/api/v1/persistentvolumes"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"


async def make(api: Api, name: str, shelf: str) -> None:
    """A volume that nodes of one shelf reach, and the claim of its name that is bound to it."""
    size, modes = {"storage": "1Gi"}, ["ReadWriteMany"]
    term = {"matchExpressions": [{"key": SHELF, "operator": "In", "values": [shelf]}]}
    of_volume = {
        "capacity": size,
        "accessModes": modes,
        "storageClassName": "",
        "hostPath": {"path": "/data"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    await api.create(VOLUMES, {"metadata": {"name": name}, "spec": of_volume})
    of_claim = {
        "accessModes": modes,
        "storageClassName": "",
        "volumeName": name,
        "resources": {"requests": size},
    }
    await api.create(CLAIMS, {"metadata": {"name": name}, "spec": of_claim})


async def remove(api: Api, name: str) -> None:
    """Both, whatever still protects them."""
    for path in (CLAIMS, VOLUMES):
        await api.merge(f"{path}/{name}", {"metadata": {"finalizers": None}})
        await api.delete(f"{path}/{name}")

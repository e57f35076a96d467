"""The kind of NFD's objects, for a cluster without NFD."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import DEFINITIONS
from tests.support.waiting import eventually

GROUP = "nfd.k8s-sigs.io"
_TEXTS = {"type": "object", "additionalProperties": {"type": "string"}}
_ATTRIBUTES = {"type": "object", "properties": {"elements": _TEXTS}}
_FEATURES = {
    "flags": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    "attributes": {"type": "object", "additionalProperties": _ATTRIBUTES},
    "instances": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
}
_SPEC = {"labels": _TEXTS, "features": {"type": "object", "properties": _FEATURES}}
_SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": _SPEC}}}
_DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"nodefeatures.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": "NodeFeature", "plural": "nodefeatures"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": _SCHEMA},
            }
        ],
    },
}
"""The fields that NFD's own definition has, of the kinds that masters write."""


@asynccontextmanager
async def node_features_served(api: Api) -> AsyncIterator[None]:
    """While the block runs, the API server has the kind."""
    await api.create(DEFINITIONS, _DEFINITION)

    async def is_served() -> bool:
        try:
            await api.items(f"/apis/{GROUP}/v1alpha1/nodefeatures")
        except ApiError:
            return False
        return True

    try:
        await eventually(is_served)
        yield
    finally:
        await api.delete(f"{DEFINITIONS}/nodefeatures.{GROUP}")


def collection(namespace: str) -> str:
    """Return the path of the objects of a namespace."""
    return f"/apis/{GROUP}/v1alpha1/namespaces/{namespace}/nodefeatures"


def node_feature(name: str, labels: dict[str, str], spec: dict[str, Any]) -> dict[str, Any]:
    """Return an object, called like this and with these labels."""
    kind = {"apiVersion": f"{GROUP}/v1alpha1", "kind": "NodeFeature"}
    return {**kind, "metadata": {"name": name, "labels": labels}, "spec": spec}

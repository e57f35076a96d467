"""The kinds that the simulated API server serves, and the paths under which clients ask for them.

Paths are those of kubernetes.io, "Kubernetes API Concepts", resource URIs:
`/api/v1/namespaces/jobs/pods/train-0/status` is the status of one pod.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote


@dataclass(frozen=True, slots=True)
class ServedKind:
    """A kind of object: `api_version` is `v1` or `<group>/<version>`."""

    api_version: str
    plural: str
    kind: str
    is_namespaced: bool = True

    @property
    def root(self) -> str:
        """The path of its objects in all namespaces."""
        return f"/{'apis' if '/' in self.api_version else 'api'}/{self.api_version}/{self.plural}"

    def collection(self, namespace: str) -> str:
        """Return the path of its objects in a namespace; of a cluster-wide kind that of all."""
        if not self.is_namespaced or not namespace:
            return self.root
        before, _, plural = self.root.rpartition("/")
        return f"{before}/namespaces/{namespace}/{plural}"


NODES = ServedKind("v1", "nodes", "Node", is_namespaced=False)
PODS = ServedKind("v1", "pods", "Pod")
JOBS = ServedKind("batch/v1", "jobs", "Job")
SECRETS = ServedKind("v1", "secrets", "Secret")
WEBHOOKS = ServedKind(
    "admissionregistration.k8s.io/v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    is_namespaced=False,
)
STOCK_KINDS = (
    NODES,
    PODS,
    JOBS,
    SECRETS,
    WEBHOOKS,
    ServedKind("v1", "namespaces", "Namespace", is_namespaced=False),
    ServedKind("v1", "configmaps", "ConfigMap"),
    ServedKind("v1", "resourcequotas", "ResourceQuota"),
    ServedKind("v1", "persistentvolumeclaims", "PersistentVolumeClaim"),
    ServedKind("v1", "persistentvolumes", "PersistentVolume", is_namespaced=False),
    ServedKind("storage.k8s.io/v1", "storageclasses", "StorageClass", is_namespaced=False),
    ServedKind("events.k8s.io/v1", "events", "Event"),
    ServedKind("coordination.k8s.io/v1", "leases", "Lease"),
)
"""What a cluster without definitions of others and without feature gates has, as far as used."""


@dataclass(frozen=True, slots=True)
class ObjectPath:
    """What a path names: a collection, or an object of it, or a subresource of that object."""

    kind: ServedKind
    namespace: str
    name: str = ""
    subresource: str = ""

    @property
    def collection(self) -> str:
        """The path of the collection."""
        return self.kind.collection(self.namespace)

    def covers(self, collection: str) -> bool:
        """Return whether the objects of a collection are among those of this path."""
        if self.namespace or not self.kind.is_namespaced:
            return collection == self.collection
        before, _, plural = self.kind.root.rpartition("/")
        return collection.startswith(f"{before}/namespaces/") and collection.endswith(f"/{plural}")


class ServedKinds:
    """The kinds by their paths."""

    def __init__(self, kinds: Iterable[ServedKind] = STOCK_KINDS) -> None:
        self._by_root = {each.root: each for each in kinds}

    def find(self, path: str) -> ObjectPath | None:
        """Return what the path names, None if no such kind is served. O(length of the path)."""
        parts = path.strip("/").split("/")
        head = {"api": 2, "apis": 3}.get(parts[0], len(parts))
        version, rest = parts[:head], [unquote(part) for part in parts[head:]]
        namespace = ""
        # `/api/v1/namespaces/jobs` is an object, `/api/v1/namespaces/jobs/pods` a collection.
        if len(rest) > 2 and rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if not 1 <= len(rest) <= 3:
            return None
        kind = self._by_root.get("/" + "/".join((*version, rest[0])))
        if kind is None or (namespace and not kind.is_namespaced):
            return None
        name, subresource = (*rest[1:], "", "")[:2]
        return ObjectPath(kind, namespace, name, subresource)

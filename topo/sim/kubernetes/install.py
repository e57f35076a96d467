"""What the simulated cluster has when it starts: the nodes of a world, and our webhook.

The webhook is the one of the chart (`master-admission.yaml`), for the jobs that stock Kubernetes
has; without its selectors and CEL conditions, which spare a real master calls about other objects.
"""

from collections.abc import Iterable

from topo.placement.job.policy import DOMAIN
from topo.sim.kubernetes.access import NAMESPACE
from topo.sim.kubernetes.apiserver.api import Document
from topo.sim.kubernetes.apiserver.resources import JOBS, NODES, PODS, SECRETS, WEBHOOKS, ServedKind
from topo.sim.kubernetes.cluster import SimulatedCluster
from topo.sim.worlds.presets import Hardware, SimNode

ADMISSION = "topo-master-admission"
"""The Service, the Secret and the configuration of the webhook, as the chart names them."""
_RESOURCES = {
    "metax": f"{DOMAIN}/gpu",
    "nvidia": "nvidia.com/gpu",
    "ascend": "huawei.com/Ascend910",
}


def gpu_resource(hardware: Hardware) -> str:
    """Return the resource that the vendor's device plugin gives to pods."""
    return _RESOURCES[hardware.maker]


def install(cluster: SimulatedCluster, nodes: Iterable[SimNode]) -> None:
    """Create what is missing: an earlier run may have kept it."""
    for node in nodes:
        cluster.add_missing(NODES.root, _node(node), node.name)
    cluster.add_missing(SECRETS.collection(NAMESPACE), _secret(), ADMISSION)
    cluster.add_missing(WEBHOOKS.root, webhook_configuration(), ADMISSION)


def _node(node: SimNode) -> Document:
    identity, hardware = node.identity, node.hardware
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady"}
    return {
        "apiVersion": NODES.api_version,
        "kind": NODES.kind,
        "metadata": {
            "name": node.name,
            "labels": {"kubernetes.io/hostname": identity.hostname, "kubernetes.io/os": "linux"},
            "annotations": _annotations(node),
        },
        "spec": {},
        "status": {
            "allocatable": {
                gpu_resource(hardware): str(hardware.gpus),
                "cpu": "128",
                "memory": "2Ti",
                "pods": "110",
            },
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": identity.internal_ip}],
            "nodeInfo": {"systemUUID": identity.system_uuid},
        },
    }


def _annotations(node: SimNode) -> dict[str, str]:
    """Return what a device plugin notes on the node: Ascend's its super pod (mind-cluster,
    `ascend-device-plugin`, `manager.go`).
    """
    if node.super_pod is None:
        return {}
    return {
        "superPodID": str(node.super_pod.number),
        "serverIndex": str(node.super_pod.server),
    }


def _secret() -> Document:
    """Return the Secret that the leading master fills with the webhook's certificate."""
    return {
        "apiVersion": SECRETS.api_version,
        "kind": SECRETS.kind,
        "metadata": {"name": ADMISSION, "namespace": NAMESPACE},
        "type": "Opaque",
    }


def webhook_configuration() -> Document:
    """Return the configuration of the webhook; the master adds the authority to trust."""
    return {
        "apiVersion": WEBHOOKS.api_version,
        "kind": WEBHOOKS.kind,
        "metadata": {"name": ADMISSION},
        "webhooks": [_webhook("jobs", JOBS), _webhook("pods", PODS)],
    }


def _webhook(name: str, kind: ServedKind) -> Document:
    group, _, version = kind.api_version.rpartition("/")
    rule = {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": [kind.plural],
        "operations": ["CREATE"],
        "scope": "Namespaced",
    }
    service = {"name": ADMISSION, "namespace": NAMESPACE, "path": "/admission", "port": 443}
    return {
        "name": f"{name}.placement.{DOMAIN}",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Fail",
        "timeoutSeconds": 5,
        "reinvocationPolicy": "IfNeeded",
        "clientConfig": {"service": service},
        "rules": [rule],
    }

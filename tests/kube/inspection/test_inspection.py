"""What `topo doctor` reads of a cluster, and what it says of calls that fail."""

from collections.abc import Mapping

import orjson

from master.inspection.cluster import Inspection
from master.kube.client import Call
from master.kube.errors import KubeError

APPS = "/apis/apps/v1/namespaces/topo"
POD = {
    "metadata": {"name": "topo-master-0", "namespace": "topo"},
    "spec": {"nodeName": "n1", "containers": [{"name": "master", "image": "topo:1"}]},
    "status": {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
        "containerStatuses": [
            {
                "ready": False,
                "restartCount": 3,
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
            }
        ],
    },
}
DEPLOYMENT = {
    "metadata": {"name": "topo-master", "namespace": "topo"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "master"}},
        "template": {
            "spec": {
                "serviceAccountName": "topo-master",
                "containers": [{"args": ["--placement=off", "--controllers=labels"]}],
            }
        },
    },
    "status": {"updatedReplicas": 2, "readyReplicas": 1},
}
LEASE = {
    "metadata": {"name": "topo-master"},
    "spec": {
        "holderIdentity": "topo-master-0",
        "leaseDurationSeconds": 15,
        "renewTime": "2026-01-01T00:00:00.000000Z",
    },
}


def hypernode(name: str, node: str, **labels: str) -> dict[str, object]:
    member = {"type": "Node", "selector": {"exactMatch": {"name": node}}}
    return {"metadata": {"name": name, "labels": labels}, "spec": {"tier": 1, "members": [member]}}


def listed(kind: str, *items: Mapping[str, object]) -> dict[str, object]:
    return {"kind": f"{kind}List", "metadata": {"resourceVersion": "1"}, "items": items}


IN_DOMAIN = {"resource.nvidia.com/computeDomain": "u-1"}
OURS = {"metax-tech.com/managed-by": "topo-master"}
ANSWERS = {
    "/apis/apps/v1/deployments": listed("Deployment", DEPLOYMENT),
    f"{APPS}/deployments/topo-master": DEPLOYMENT,
    "/api/v1/namespaces/topo/pods": listed("Pod", POD),
    "/apis/coordination.k8s.io/v1/namespaces/topo/leases/topo-master": LEASE,
    "/apis/authorization.k8s.io/v1/subjectaccessreviews": {"status": {"allowed": False}},
    "/apis/resource.nvidia.com/v1beta1/computedomains": listed(
        "ComputeDomain", {"metadata": {"name": "train", "namespace": "ml", "uid": "u-1"}}
    ),
    "/api/v1/nodes": listed(
        "Node",
        {"metadata": {"name": "n1", "labels": {**IN_DOMAIN, "nvidia.com/gpu.clique": "c.1"}}},
        {"metadata": {"name": "n2", "labels": IN_DOMAIN}},
        {"metadata": {"name": "n3", "labels": {"resource.nvidia.com/computeDomain": "gone"}}},
    ),
    "/apis/topology.volcano.sh/v1alpha1/hypernodes": listed(
        "HyperNode", hypernode("ours", "n1", **OURS), hypernode("theirs", "n1")
    ),
}


class Answers:
    """An API server with these answers; 404 for everything else, `faults` first."""

    def __init__(self, faults: Mapping[str, KubeError | bytes] | None = None) -> None:
        self.faults = faults or {}

    async def call(self, call: Call) -> bytes:
        fault = self.faults.get(call.path)
        if isinstance(fault, KubeError):
            raise fault
        if fault is not None:
            return fault
        if call.path not in ANSWERS:
            raise KubeError("not found", status=404)
        return orjson.dumps(ANSWERS[call.path])


async def test_workloads_pods_lease_rights_and_hypernodes_are_read_once() -> None:
    found = await Inspection(Answers(), second_look_s=0).inspect()
    assert found.problems == ()
    assert found.namespace == "topo"
    assert found.worker is None, "a missing workload is no problem of the call"
    assert found.master is not None
    assert (found.master.wanted, found.master.updated, found.master.ready) == (2, 2, 1)
    assert found.master.images == {"topo:1": 1}
    (trouble,) = found.master.troubles
    assert (trouble.node, trouble.why) == ("n1", "CrashLoopBackOff: back-off (3 restarts)")
    assert found.lease is not None
    assert (found.lease.holder, found.lease.renewing) == ("topo-master-0", False)
    assert found.denied
    assert {each.used_for for each in found.denied} >= {"capacity", "labels"}
    assert found.hypernodes is not None
    assert found.hypernodes.overlaps == {"n1": "theirs"}
    assert found.compute_domains is not None
    assert found.compute_domains.cliques == {"ml/train": {"c.1": 1, "": 1}}


async def test_what_is_refused_or_cannot_be_read_is_told_and_the_rest_is_read() -> None:
    lease = "/apis/coordination.k8s.io/v1/namespaces/topo/leases/topo-master"
    hypernodes = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
    forbidden = KubeError("hypernodes is forbidden", status=403)
    server = Answers({lease: b'{"metadata": []}', hypernodes: forbidden})
    found = await Inspection(server, second_look_s=0).inspect()
    assert found.master is not None
    assert found.lease is None
    assert found.hypernodes is None
    read, listed_ = found.problems
    assert read.startswith(f"GET {lease}: the answer is not understood at metadata")
    assert listed_ == f"GET {hypernodes}: hypernodes is forbidden"

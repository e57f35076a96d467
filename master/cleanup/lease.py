"""The lease of the masters, which a clean-up takes first and deletes last."""

import asyncio
from datetime import UTC, datetime

import structlog

from master.cleanup.cluster import CleanedCluster
from master.kube.errors import KubeError
from master.kube.leader_election.lease_object import LEASES, LeaseObject
from master.kube.objects import object_path
from master.kube.reading import read
from master.replicas.replicas import LEASE

HOLDER = "topo-master-cleanup"
HOLD_S = 300
"""The term of the lease: longer than the whole command takes."""
TERM_S = 15.0
"""The default term of a leader; at most four times this is awaited."""

_log = structlog.get_logger(__name__)


async def take_lease(cluster: CleanedCluster) -> None:
    """Take the lease; return when its last holder has ended."""
    path = object_path(LEASES, LEASE, cluster.namespace)
    try:
        found = await read(cluster, LEASES, LEASE, cluster.namespace, urgent=True)
    except KubeError as error:
        if not error.is_missing:
            raise
        await cluster.send("POST", path.rpartition("/")[0], _lease(None))
        return
    holder, duration_s = found.spec.holder_identity, found.spec.lease_duration_seconds
    await cluster.send("PUT", path, _lease(found))
    if holder:
        _log.info("the lease is taken; its leader ends", leader=holder)
        # A clean-up that was broken off may have taken it from a leader that still ends.
        wait_s = TERM_S if holder == HOLDER else float(duration_s or 0.0)
        await asyncio.sleep(min(wait_s, 4 * TERM_S))


def _lease(found: LeaseObject | None) -> object:
    """Return the lease held by this command, without the address of its former holder."""
    kept, transitions = {}, 0
    if found is not None:
        kept = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        transitions = found.spec.lease_transitions or 0
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": LEASE, **kept},
        "spec": {
            "holderIdentity": HOLDER,
            "leaseDurationSeconds": HOLD_S,
            "leaseTransitions": transitions + 1,
            "acquireTime": now,
            "renewTime": now,
        },
    }


async def remove_lease(cluster: CleanedCluster) -> None:
    """Delete the lease, unless somebody else took it meanwhile."""
    path = object_path(LEASES, LEASE, cluster.namespace)
    try:
        found = (await read(cluster, LEASES, LEASE, cluster.namespace, urgent=True)).metadata
        same = {"uid": found.uid, "resourceVersion": found.resource_version}
        await cluster.send("DELETE", path, {"preconditions": same})
    except KubeError as error:
        if not error.is_missing:
            raise

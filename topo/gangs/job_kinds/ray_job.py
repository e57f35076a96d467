"""Reader of a RayJob, of which KubeRay makes a RayCluster with its annotations, a new one each try.

The RayCluster is stamped at its own creation; KubeRay is told there of a size that cannot be. So
that whoever makes the RayJob is told at once, the cluster in it is read as it will be. The
submitter has no GPUs and no part in the gang. One that runs on a cluster that is there already
(`spec.clusterSelector`) makes none.

Source: github.com/ray-project/kuberay/ray-operator v1.6.2, `constructRayClusterForRayJob` of
controllers/ray/rayjob_controller.go.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.ray_cluster import cluster_parts
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.json_patch import Operation, mapping

_CLUSTER = "rayClusterSpec"


def ray_job(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of the RayCluster that is made of a RayJob; O(groups of workers)."""
    spec = mapping(found.get("spec"))
    if _CLUSTER not in spec:
        return JobParts(templates=(), is_complete=False)
    return cluster_parts(mapping(spec[_CLUSTER]), ("spec", _CLUSTER))


def relay(
    _job: Mapping[str, Any], _asked: Mapping[str, str], _slices: Mapping[str, str], _domain: str
) -> tuple[Operation, ...]:
    """Return nothing: KubeRay passes the annotations on."""
    return ()


RAY_JOB = JobKind(
    name="rayjob",
    title="RayJob",
    group="ray.io",
    version="v1",
    kind="RayJob",
    resource="rayjobs",
    index_key="",
    parts=ray_job,
    relay=relay,
)

"""Reader of a RayCluster: its head, where that has GPUs, then its groups of workers.

    a head without GPUs, workerGroupSpecs [{replicas: 4, numOfHosts: 2}] of 8 GPUs
    → a gang of 8 pods; the two hosts of a replica have ranks beside each other

Size: replicas x numOfHosts of the groups at its creation, which all start together; afterwards the
pods that there are, since an autoscaler adds and removes them. Identity: the RayCluster itself.
Rank: none that lasts, see `topo.gangs.ranks`; at the start in the order of the labels
worker-group-replica-index and replica-host-index, where Ray writes them.

Workers wait for the head only after they run. Of a RayJob (`ray_job`) one is made.

Source: github.com/ray-project/kuberay/ray-operator v1.6.2, apis/ray/v1, controllers/ray.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from topo.gangs.job_kinds.job_kind import JobKind
from topo.gangs.job_kinds.templates import MAX_COUNT, JobParts, Template, count
from topo.gangs.json_patch import Path, mapping, sequence, text

MAX_GROUPS = 1000
"""Groups of workers that are read; an object of a megabyte has no more."""


def ray_cluster(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a RayCluster; O(groups of workers)."""
    return cluster_parts(mapping(found.get("spec")), ("spec",))


def cluster_parts(spec: Mapping[str, Any], path: Path) -> JobParts:
    """Return the parts of the spec of a RayCluster, which is at a path; O(groups of workers)."""
    groups = [mapping(each) for each in sequence(spec.get("workerGroupSpecs"))[:MAX_GROUPS]]
    head = Template(
        path=(*path, "headGroupSpec", "template"),
        name="head",
        pods=1,
        body=mapping(mapping(spec.get("headGroupSpec")).get("template")),
    )
    return JobParts(templates=(head, *_workers(groups, path)))


def _workers(groups: Sequence[Mapping[str, Any]], path: Path) -> Iterator[Template]:
    for at, group in enumerate(groups):
        hosts = count(group.get("numOfHosts", 1)) or 1
        yield Template(
            path=(*path, "workerGroupSpecs", at, "template"),
            name=text(group.get("groupName"))[:63] or str(at),
            pods=_replicas(group) * hosts,
            body=mapping(group.get("template")),
            pods_of_repeat=hosts,
        )


def _replicas(group: Mapping[str, Any]) -> int:
    """Return the replicas that Ray makes at first: those asked for, within the group's bounds."""
    if group.get("suspend") is True:
        return 0
    least, most = count(group.get("minReplicas")), count(group.get("maxReplicas")) or MAX_COUNT
    return min(max(count(group.get("replicas")), least), most)


RAY_CLUSTER = JobKind(
    name="raycluster",
    title="RayCluster",
    group="ray.io",
    version="v1",
    kind="RayCluster",
    resource="rayclusters",
    index_key="ray.io/replica-host-index",
    repeat_key="ray.io/worker-group-replica-index",
    parts=ray_cluster,
    is_elastic=True,
)

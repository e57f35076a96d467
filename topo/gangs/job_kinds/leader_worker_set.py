"""Reader of a LeaderWorkerSet: each of its groups, a leader with its workers, is a gang.

    size 4, a leader of 8 GPUs and workers of 8 GPUs, replicas 3
    → three gangs of 4 pods; the leader has rank 0, worker 3 rank 3

Size: `spec.leaderWorkerTemplate.size`, less one where the leader has no GPUs; after it was changed
the annotation size of the pods, which differs from revision to revision. Identity: the labels
name, group-index and template-revision-hash; no controller owns exactly one group. At an update a
leader comes while workers of the revision before still leave: another gang. No label tells apart
two attempts of one revision (group-key is a hash of the leader's name); there the leader goes last
at a restart, so that the pods of two attempts meet only where the set itself is deleted. Rank: the
label worker-index, which LeaderWorkerSet's own webhook writes, 0 for the leader.

With startupPolicy LeaderReady the workers are made once the leader is ready, so they come late.
With exclusive-topology they are made once the leader is bound, and select its domain, in which an
anti-affinity of the leader suffers no pod of another group of its namespace. With
subgroup-exclusive-topology each pod of a subgroup has such an anti-affinity, and an affinity to the
others of its subgroup; none waits for another. Deleting one gated pod costs the whole group: it is
made again under the same names.

    size 9 in subgroups of 4 → the leader and workers 1 to 4, workers 5 to 8

Source: sigs.k8s.io/lws v0.9.0, api/leaderworkerset/v1, pkg/webhooks/pod_webhook.go,
pkg/controllers/pod_controller.go.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.templates import JobParts, Parts, Template, Wait, count
from topo.gangs.json_patch import Path, mapping, text
from topo.gangs.machine.gang import gang_of

NAME = "leaderworkerset"
_PREFIX = "leaderworkerset.sigs.k8s.io"
_EXCLUSIVE = f"{_PREFIX}/exclusive-topology"
_OF_SUBGROUPS = f"{_PREFIX}/subgroup-exclusive-topology"
_LEADER = "leader"


def leader_worker_set(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of one group of a LeaderWorkerSet; O(1)."""
    spec = mapping(found.get("spec"))
    both = mapping(spec.get("leaderWorkerTemplate"))
    size = count(both.get("size", 1))
    path: Path = ("spec", "leaderWorkerTemplate")
    leader, worker = mapping(both.get("leaderTemplate")), mapping(both.get("workerTemplate"))
    annotations = mapping(mapping(found.get("metadata")).get("annotations"))
    label, of_subgroups = (text(annotations.get(key)) for key in (_EXCLUSIVE, _OF_SUBGROUPS))
    late = _waits(spec, label)
    if leader:
        first = Template(path=(*path, "leaderTemplate"), name=_LEADER, pods=1, body=leader)
        workers = Template(
            path=(*path, "workerTemplate"),
            name="workers",
            pods=max(0, size - 1),
            body=worker,
            first_index=1,
            waits=late,
        )
        templates: tuple[Template, ...] = (first, workers)
    else:
        path = (*path, "workerTemplate")
        templates = (Template(path=path, name=_LEADER, pods=size, body=worker, waits=late),)
    pods = tuple((each.name, each.pods) for each in templates)
    subgroups = _subgroups(both, of_subgroups, templates[-1].name) if of_subgroups else ()
    return JobParts(
        templates=templates,
        own=f"both {_EXCLUSIVE} and {_OF_SUBGROUPS} are set" if label and of_subgroups else "",
        stamped_kind=NAME,
        own_domains=(Parts(1, label, pods),) if label else subgroups,
    )


def _subgroups(group: Mapping[str, Any], label: str, workers: str) -> tuple[Parts, ...]:
    """Return the subgroups of a group, as `getSubGroupIndex` of LeaderWorkerSet counts them.

    `workers` is the template of its workers. Where the workers alone fill subgroups, the leader is
    one more pod of the first.
    """
    policy, others = mapping(group.get("subGroupPolicy")), count(group.get("size", 1)) - 1
    size = count(policy.get("subGroupSize"))
    if not size or others < 0:
        return ()
    leader, whole = (_LEADER, 1), (workers, size)
    if policy.get("subGroupPolicyType") == "LeaderExcluded":
        return (Parts(1, "", (leader,)), Parts(others // size, label, (whole,)))
    first = min(others, size if others % size == 0 else size - 1)
    more = Parts((others - first) // size, label, (whole,))
    return (Parts(1, label, (leader, (workers, first))), more)


def _waits(spec: Mapping[str, Any], label: str) -> Wait | None:
    where, fix = "spec.startupPolicy", "set LeaderCreated"
    if spec.get("startupPolicy") != "LeaderReady":
        if not label:
            return None
        where, fix = f"metadata.annotations[{_EXCLUSIVE}]", "remove it"
    return Wait(frozenset({_LEADER}), until_ended=False, where=where, fix=fix)


def _gang(pod: PodFacts) -> GangName | None:
    keys = ("name", "group-index", "template-revision-hash")
    name, group, revision = (pod.labels.get(f"{_PREFIX}/{key}", "") for key in keys)
    if not name or not group:
        return None
    return GangName(gang_of(NAME, pod.namespace, name, group, revision), f"{name}-{group}")


LEADER_WORKER_SET = JobKind(
    name=NAME,
    title="LeaderWorkerSet",
    group="leaderworkerset.x-k8s.io",
    version="v1",
    kind="LeaderWorkerSet",
    resource="leaderworkersets",
    index_key=f"{_PREFIX}/worker-index",
    part_keys=(f"{_PREFIX}/group-key", f"{_PREFIX}/subgroup-key"),
    parts=leader_worker_set,
    gang=_gang,
    pod_size_key=f"{_PREFIX}/size",
)

"""What becomes of jobs after they were made: another size, stopped and started, failed in part.

    batch Job of 4, stopped      its pods end within 30 s
    of 2 from then on, started   two new pods, by the template that the webhook stamped for 4
    an index fails for good      no pod is made for it again

What API server and controllers do is written down here; what the webhook does to a change is the
real one's answer.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from master.admission.reviews import review
from master.kube.objects import BareObject, Resource, collection_path
from master.kube.schedulers.volcano import POD_GROUPS
from master.kube.schema.timestamps import timestamp
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, patched
from tests.tenancy.cluster import SharedCluster, is_live, node_of
from tests.tenancy.jobs import Document, UserJob

GRACE_S = 30.0
"""How long the pods of a job take to end after they were deleted."""
Key = tuple[str, str]
VOLCANO = "batch.volcano.sh/v1alpha1"
_CHILD = ("spec", "replicatedJobs", 0, "template", "spec")
SIZES: Mapping[str, Sequence[tuple[str | int, ...]]] = {
    "batch/v1": (("spec", "completions"), ("spec", "parallelism")),
    VOLCANO: (("spec", "tasks", 1, "replicas"),),
    "jobset.x-k8s.io/v1alpha2": ((*_CHILD, "completions"), (*_CHILD, "parallelism")),
}
"""The fields of a job that say how many pods it has, by its version."""
FIXED = {"jobset.x-k8s.io/v1alpha2"}
"""Jobs that get no other size."""


def changed_job(before: Document, after: Document) -> Document | str:
    """The job's object as the API server stores it, or why the webhook refuses the change."""
    request = {"operation": "UPDATE", "oldObject": before}
    answer = response(review(asked(after, **request), RULES, "warn").answer)
    if not answer["allowed"]:
        return str(answer["status"]["message"])
    return patched(after, answer.get("patch", ()))


@dataclass
class SecondLives:
    """Changes jobs of a shared cluster: those whose pods can be made again as their object says."""

    cluster: SharedCluster
    failed: dict[Key, set[int]] = field(default_factory=dict)
    """Ranks of jobs whose pods failed for good."""
    stopped: set[Key] = field(default_factory=set)
    ends_s: dict[str, float] = field(default_factory=dict)
    """When a pod that was deleted ends, by its uid."""
    _names: int = 0

    def jobs(self) -> list[Key]:
        """Return the jobs whose pods can be made again."""
        return [key for key, job in self.cluster.jobs.items() if job.make is not None]

    def resize(self, key: Key, pods: int) -> str:
        """The job has this many pods from now on; returns why it cannot, or may not."""
        job = self.cluster.jobs[key]
        if job.objects[0][0] in FIXED:
            return "its controller refuses it"
        after = copy.deepcopy(job.objects[0][3])
        for *path, last in SIZES[job.objects[0][0]]:
            _at(after, path)[last] = pods
        found = self._change(job, after)
        if isinstance(found, str):
            return found
        self._limit_pod_group(job, pods)
        ranks = {rank for rank, _ in job.pods.values()}
        for gone in [each for each, (rank, _) in job.pods.items() if rank >= pods]:
            self.evict(key, gone, is_made_again=False)
        if key not in self.stopped:
            self._make(key, set(range(pods)) - ranks)
        return ""

    def stop(self, key: Key) -> str:
        """All pods of the job are deleted, and none is made before it is started."""
        if refused := self._suspend(key, is_stopped=True):
            return refused
        self.stopped.add(key)
        for name in [*self.cluster.jobs[key].pods]:
            self.evict(key, name, is_made_again=False)
        return ""

    def start(self, key: Key) -> str:
        """The pods of a stopped job are made again; returns why the webhook refuses it."""
        if refused := self._suspend(key, is_stopped=False):
            return refused
        self.stopped.discard(key)
        self._make(key, set(range(self.size(key))))
        return ""

    def evict(self, key: Key, name: str, *, is_made_again: bool = True) -> None:
        """A pod is deleted, and ends after its grace; another one of its rank is made at once.

        One that is bound nowhere ends at once.
        """
        job = self.cluster.jobs[key]
        rank, _ = job.pods.pop(name)
        self.cluster.disturbed_s[key] = self.cluster.clock()
        pod = self._pod(key, name)
        if pod is not None and not node_of(pod):
            self.cluster.delete(pod)
        elif pod is not None:
            metadata = pod["metadata"]
            metadata["deletionTimestamp"] = timestamp(self.cluster.server_now() + GRACE_S)
            self.ends_s[metadata["uid"]] = self.cluster.clock() + GRACE_S
            self.cluster.touched_s[node_of(pod)] = self.cluster.clock()
            self.cluster.touch(pod)
        if is_made_again:
            self._make(key, {rank})

    def fail(self, key: Key, name: str) -> None:
        """A pod of a batch Job fails for good: its index is in the Job's status."""
        job = self.cluster.jobs[key]
        pod, (rank, _) = self._pod(key, name), job.pods[name]
        if pod is None or not is_live(pod) or not node_of(pod):
            return
        del job.pods[name]
        self.cluster.touched_s[node_of(pod)] = self.cluster.clock()
        self.cluster.disturbed_s[key] = self.cluster.clock()
        self.failed.setdefault(key, set()).add(rank)
        failed = ",".join(map(str, sorted(self.failed[key])))
        document = job.objects[0][3]
        document["spec"].setdefault("backoffLimitPerIndex", 0)
        document["status"] = {**document.get("status", {}), "failedIndexes": failed}
        self._store(job, document)
        pod["status"]["phase"] = "Failed"
        self.cluster.touch(pod)

    def end_pods(self) -> None:
        """The pods whose grace is over are gone."""
        for pod in self.cluster.pods():
            uid = pod["metadata"]["uid"]
            if self.ends_s.get(uid, self.cluster.clock() + 1.0) <= self.cluster.clock():
                del self.ends_s[uid]
                self.cluster.delete(pod)

    def forget(self, key: Key) -> None:
        """A job is gone, and its pods that have failed or still end with it."""
        self.stopped.discard(key)
        self.failed.pop(key, None)
        for pod in self.cluster.pods():
            owner, _ = self.cluster.ranks.get(pod["metadata"]["uid"], (None, 0))
            if owner == key:
                self.ends_s.pop(pod["metadata"]["uid"], None)
                self.cluster.delete(pod)

    def size(self, key: Key) -> int:
        """How many pods the job has when all of them are there."""
        version, _, _, document = self.cluster.jobs[key].objects[0]
        return int(_at(document, SIZES[version][0]))

    def _suspend(self, key: Key, *, is_stopped: bool) -> str:
        """A job says in its spec that it is stopped; one of Volcano gets a command instead."""
        job = self.cluster.jobs[key]
        version, _, _, document = job.objects[0]
        if version == VOLCANO:
            return ""
        after = copy.deepcopy(document)
        after["spec"]["suspend"] = is_stopped
        found = self._change(job, after)
        return found if isinstance(found, str) else ""

    def _change(self, job: UserJob, after: Document) -> Document | str:
        found = changed_job(job.objects[0][3], after)
        if not isinstance(found, str):
            self._store(job, found)
        return found

    def _store(self, job: UserJob, document: Document) -> None:
        version, plural, name, _ = job.objects[0]
        job.objects[0] = (version, plural, name, document)
        at = collection_path(Resource(version, document["kind"], plural, BareObject), job.namespace)
        stored = self.cluster.api.objects[at, name].document
        stored |= {"spec": document["spec"], "status": document.get("status", {})}
        self.cluster.api.touch(at, name)

    def _limit_pod_group(self, job: UserJob, pods: int) -> None:
        """Volcano: as many pods have to fit together as the job has."""
        for _, plural, name, _ in job.objects:
            if plural == POD_GROUPS.plural:
                at = collection_path(POD_GROUPS, job.namespace)
                self.cluster.api.objects[at, name].document["spec"]["minMember"] = pods
                self.cluster.api.touch(at, name)

    def _make(self, key: Key, ranks: set[int]) -> None:
        """Pods of these ranks by the template as it is now, but for those that failed for good."""
        job = self.cluster.jobs[key]
        assert job.make is not None, "it can be changed"
        for rank in sorted(ranks - self.failed.get(key, set())):
            pod = job.make(job.objects[0][3], rank)
            self._names += 1
            pod["metadata"]["name"] += f"-{self._names}"
            job.pods[pod["metadata"]["name"]] = (rank, pod)
            self.cluster.create(job, pod["metadata"]["name"])

    def _pod(self, key: Key, name: str) -> Document | None:
        stored = self.cluster.api.objects.get((f"/api/v1/namespaces/{key[0]}/pods", name))
        return None if stored is None else stored.document


def _at(document: Any, path: Sequence[str | int]) -> Any:
    """The value at a path of keys and indices."""
    for part in path:
        document = document[part]
    return document

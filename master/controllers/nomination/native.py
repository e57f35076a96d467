"""Gangs whose nodes Volcano chooses: nothing is written for them but what people should know.

Their groups are in the PodGroup, where the admission webhook put them; one that has no constraints
was made without it.
"""

from collections.abc import Iterator, Mapping

from master.controllers.nomination.gang_builder import POD_GROUP, owner_of
from master.kube.objects import Key, PodObject
from master.kube.volcano import PodGroupObject
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.gang import GangId
from topo.gangs.terms import GroupTerms, Way, read_terms


class NativeGangs:
    """Their pods, kept as the cluster tells them. Mutable; one owner."""

    def __init__(self, keys: AnnotationKeys, way: Way) -> None:
        self._keys, self._way = keys, way
        self._pods: dict[Key, PodObject] = {}
        self._jobs: dict[GangId, dict[Key, PodObject]] = {}
        self._marked: dict[GangId, None] = {}

    def __len__(self) -> int:
        """How many gangs there are."""
        return len(self._jobs)

    def pod(self, key: Key, pod: PodObject | None) -> None:
        """A pod came or changed, or is gone (None)."""
        before = self._pods.pop(key, None)
        if before is not None and (job := _job_of(before)) is not None:
            del self._jobs[job][key]
            if not self._jobs[job]:
                del self._jobs[job]
            self.mark(job)
        if pod is not None and self._is_native(pod):
            self._pods[key] = pod
            if (job := _job_of(pod)) is not None:
                self._jobs.setdefault(job, {})[key] = pod
                self.mark(job)

    def all_pods(self, pods: Mapping[Key, PodObject]) -> None:
        """All pods there are: others are gone."""
        self.mark_all()
        self._pods.clear()
        self._jobs.clear()
        for key, pod in pods.items():
            self.pod(key, pod)

    def mark(self, gang_id: GangId) -> None:
        """The gang changed, or is to be looked at again."""
        self._marked[gang_id] = None

    def mark_all(self) -> None:
        """All gangs are."""
        self._marked.update(dict.fromkeys(self._jobs))

    def take(self, pods: int) -> Iterator[GangId]:
        """Gangs that were marked, in that order, until so many pods are reached."""
        while self._marked and pods > 0:
            gang_id = next(iter(self._marked))
            del self._marked[gang_id]
            pods -= 1 + len(self._jobs.get(gang_id, ()))
            yield gang_id

    def jobs(self) -> Mapping[str, PodObject]:
        """A pod of each gang by the uid of its job; O(gangs)."""
        return {job: next(iter(pods.values())) for job, pods in self._jobs.items()}

    def pods(self, gang_id: GangId) -> tuple[PodObject, ...]:
        """The pods of a gang; none where it is not native."""
        return tuple(self._jobs.get(gang_id, {}).values())

    def passed_by(self, groups: Mapping[Key, PodGroupObject]) -> Iterator[tuple[Key, PodObject]]:
        """Those whose PodGroup asks for no groups, although they do; O(pods)."""
        for key, pod in self._pods.items():
            group = group_of(pod, groups)
            if group is None or self._keys.ungrouped in pod.metadata.annotations:
                continue
            if not group.spec.sub_group_policy and group.spec.network_topology is None:
                yield key, pod

    def _is_native(self, pod: PodObject) -> bool:
        terms = read_terms(pod.metadata.annotations, self._keys)
        return isinstance(terms, GroupTerms) and (terms.way or self._way) is Way.NATIVE


def _job_of(pod: PodObject) -> GangId | None:
    owner = owner_of(pod)
    return GangId(owner.uid) if owner is not None else None


def group_of(pod: PodObject, groups: Mapping[Key, PodGroupObject]) -> PodGroupObject | None:
    """Return the PodGroup of a pod; None without one."""
    metadata = pod.metadata
    return groups.get((metadata.namespace, metadata.annotations.get(POD_GROUP, "")))

"""Gangs whose nodes Volcano chooses: only their status is written.

The admission webhook writes the groups of such a gang into its PodGroup. A PodGroup without groups
was created without the webhook.
"""

from collections.abc import Iterator, Mapping

from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.schedulers.volcano import PodGroupObject
from topo.gangs.machine.gang import GangId


class NativeGangs:
    """The pods of native gangs, as last reported by the cluster. Mutable; one owner."""

    def __init__(self) -> None:
        self._pods: dict[Key, GangPod] = {}
        self._jobs: dict[GangId, dict[Key, GangPod]] = {}
        self._marked: dict[GangId, None] = {}
        self.is_read = True
        """Whether somebody takes the marks: a follower would collect those of weeks."""

    def __len__(self) -> int:
        """Return the number of gangs."""
        return len(self._jobs)

    def pod(self, key: Key, pod: ClusterPod | None) -> None:
        """Update for a pod that is new or changed, or deleted (None)."""
        before = self._pods.pop(key, None)
        if before is not None and before.owner is not None:
            job = before.gang_id
            del self._jobs[job][key]
            if not self._jobs[job]:
                del self._jobs[job]
            self.mark(job)
        if isinstance(pod, GangPod) and pod.is_native:
            self._pods[key] = pod
            if pod.owner is not None:
                self._jobs.setdefault(pod.gang_id, {})[key] = pod
                self.mark(pod.gang_id)

    def all_pods(self, pods: Mapping[Key, ClusterPod]) -> None:
        """Replace all pods by those of a complete list."""
        self.mark_all()
        self._pods.clear()
        self._jobs.clear()
        for key, pod in pods.items():
            self.pod(key, pod)

    def mark(self, gang_id: GangId) -> None:
        """Mark a gang to be checked again."""
        if self.is_read:
            self._marked[gang_id] = None

    def mark_known(self, gang_id: GangId) -> None:
        """Mark a gang to be built again if it has pods."""
        if gang_id in self._jobs:
            self.mark(gang_id)

    def mark_all(self) -> None:
        """Mark all gangs to be checked again."""
        for gang_id in self._jobs:
            self.mark(gang_id)

    def take(self, pods: int) -> Iterator[GangId]:
        """Yield and unmark gangs in the order of marking, until they have `pods` pods together."""
        while self._marked and pods > 0:
            gang_id = next(iter(self._marked))
            del self._marked[gang_id]
            pods -= 1 + len(self._jobs.get(gang_id, ()))
            yield gang_id

    def jobs(self) -> Mapping[GangId, GangPod]:
        """Return one pod of each gang; O(gangs)."""
        return {job: next(iter(pods.values())) for job, pods in self._jobs.items()}

    def pods(self, gang_id: GangId) -> tuple[GangPod, ...]:
        """Return the pods of a gang; empty if the gang is not native."""
        return tuple(self._jobs.get(gang_id, {}).values())

    def bypassed(self, groups: Mapping[Key, PodGroupObject]) -> Iterator[tuple[Key, GangPod]]:
        """Yield the pods that ask for groups while their PodGroup asks for none; O(pods)."""
        for key, pod in self._pods.items():
            group = groups.get(pod.pod_group) if pod.pod_group is not None else None
            if group is None or pod.ungrouped is not None:
                continue
            if not group.spec.sub_group_policy and group.spec.network_topology is None:
                yield key, pod

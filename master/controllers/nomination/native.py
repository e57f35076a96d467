"""Gangs whose nodes Volcano chooses: nothing is written for them but what people should know.

Their groups are in the PodGroup, where the admission webhook put them; one that has no constraints
was made without it.
"""

from collections.abc import Iterator, Mapping

from master.controllers.nomination.reading import POD_GROUP, owner_of
from master.kube.objects import Key, PodObject
from master.kube.volcano import PodGroupObject
from topo.gangs.terms import GroupTerms, Way, read_terms
from topo.gangs.words import Words


class NativeGangs:
    """Their pods, kept as the cluster tells them. Mutable; one owner."""

    def __init__(self, words: Words, way: Way) -> None:
        self._words, self._way = words, way
        self._pods: dict[Key, PodObject] = {}

    def __len__(self) -> int:
        return len(self._pods)

    def pod(self, key: Key, pod: PodObject | None) -> None:
        """A pod came or changed, or is gone (None)."""
        if pod is not None and self._is_native(pod):
            self._pods[key] = pod
        else:
            self._pods.pop(key, None)

    def all_pods(self, pods: Mapping[Key, PodObject]) -> None:
        """All pods there are: others are gone."""
        self._pods.clear()
        for key, pod in pods.items():
            self.pod(key, pod)

    def jobs(self) -> Mapping[str, PodObject]:
        """A pod of each gang by the uid of its job; O(pods)."""
        found: dict[str, PodObject] = {}
        for pod in self._pods.values():
            owner = owner_of(pod)
            if owner is not None:
                found.setdefault(owner.uid, pod)
        return found

    def passed_by(self, groups: Mapping[Key, PodGroupObject]) -> Iterator[tuple[Key, PodObject]]:
        """Those whose PodGroup asks for no groups, although they do; O(pods)."""
        for key, pod in self._pods.items():
            group = groups.get((key[0], pod.metadata.annotations.get(POD_GROUP, "")))
            if group is None:
                continue
            if not group.spec.sub_group_policy and group.spec.network_topology is None:
                yield key, pod

    def _is_native(self, pod: PodObject) -> bool:
        terms = read_terms(pod.metadata.annotations, self._words)
        return isinstance(terms, GroupTerms) and (terms.way or self._way) is Way.NATIVE

"""PodGroups of Kubernetes for gangs of kube-scheduler, so that it binds all of their pods or none.

The webhook names a PodGroup in the template of a job (`topo/gangs/admission/scheduling_groups`).
The leader makes that object when the first pod is there, and the job owns it. kube-scheduler tries
no pod whose PodGroup is not there.

Of a rank that has ended no pod is created again, and kube-scheduler does not count the one that
ended. So the minimum goes down with each of them: else a pod that is created again beside them
would wait for ever (seen on v1.37.2). It follows the size of the job as well.

Cost: O(pods of the group) for a group that changes, O(groups) a second for the minimum of each.

Example: a job of 4 pods.
    pod 0 is there                        → create the PodGroup, minCount 4
    rank 1 succeeds                       → minCount 3
    rank 2 is deleted and created again   → kube-scheduler sees 3 pods of 3, and binds it
"""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from master.controllers.composite_reports import CompositeReports
from master.controllers.hypernodes import PRODUCT, managed_by
from master.kube.gang_pod import ClusterPod, GangPod
from master.kube.objects import Key
from master.kube.reflector import Listed, StoreEvent
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS, SchedulingGroupObject
from master.kube.store import Grouped, Store, updates
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Create, Patch, Write, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.gangs.machine.gang import GangId
from topo.gangs.stamp import Stamp
from topo.model.conditions.master import MasterCondition
from topo.model.forest import Snapshot
from topo.model.isolation import ObjectError
from topo.model.rest.topology import WarningDocument
from topo.model.words import counted

MANAGER = f"{MANAGER_PREFIX}pod-groups"
LOOK_S = 1.0
GATHER_S = 0.02
"""Changes within this time are compared together."""
PATIENCE_S = 10.0
"""So long the API server may take to list PodGroups, and kube-scheduler to report on one."""


@dataclass(kw_only=True)
class PodGroups:
    """Keeps one PodGroup for each gang whose pods name one of ours.

    `awaited` returns how many pods of a gang are to run together now, None where it is not known.
    `composites` are only watched for
    reports.
    """

    store: Store[SchedulingGroupObject]
    composites: Store[CompositeGroupObject]
    pods: Store[ClusterPod]
    writer: Writer
    awaited: Callable[[GangId], int | None]
    domain: str
    clock: Callable[[], float] = time.monotonic
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _pods: Grouped[Key, GangPod] = field(default_factory=Grouped, init=False)
    """The pods of each PodGroup of ours."""
    _marked: dict[Key, None] = field(default_factory=dict, init=False)
    """PodGroups to compare soon; the others are compared once a second."""
    _unheeded_s: dict[Key, float] = field(default_factory=dict, init=False)
    """Since when all pods of a PodGroup are bound, of which kube-scheduler reported nothing."""
    _unconstrained: dict[Key, None] = field(default_factory=dict, init=False)
    """PodGroups whose constraint the API server dropped."""
    _began_s: float | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._wake = asyncio.Event()
        self._errors = self.errors.scope(ObjectKind.WRITE, "PodGroup")
        self._reports = CompositeReports(
            groups=self.store, composites=self.composites, pods=self.pods, errors=self.errors
        )
        self.writer.follow(self.store)
        self.pods.subscribe(self._follow_pods)
        self.store.subscribe(self._follow_groups)

    def on_forest(self, _snapshot: Snapshot) -> None:
        """Do nothing: a PodGroup says nothing of where its pods run."""

    async def run(self) -> None:
        """Compare and write until cancelled."""
        self._began_s = looked_s = self.clock()
        self._mark(*self._pods)
        while True:
            self._wake.clear()
            marked, self._marked = self._marked, {}
            if self.store.synced:
                self.writer.put(*self._writes(marked))
                if self.clock() - looked_s >= LOOK_S:
                    looked_s = self.clock()
                    self.writer.put(*self._writes(self._pods))
                    self._watch_for_reports()
                    self._reports.look(looked_s)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._wake.wait()
            await asyncio.sleep(GATHER_S)

    def warnings(self) -> tuple[WarningDocument, ...]:
        """Return that PodGroups are not served, not heeded, or lose their constraints."""
        now_s = self.clock()
        if self._began_s is None or now_s - self._began_s < PATIENCE_S:
            return ()
        if not self.store.synced:
            text = "the API server lists no PodGroups of scheduling.k8s.io/v1beta1"
            return (WarningDocument.of(MasterCondition.POD_GROUPS_UNSERVED, text),)
        return (*self._of_scheduler(now_s), *self._of_constraints())

    def _of_constraints(self) -> Iterator[WarningDocument]:
        """Yield that the API server keeps no constraints, so that native gangs may be split."""
        for namespace, name in tuple(self._unconstrained)[:1]:
            text = (
                f"the API server dropped the topology constraint of {namespace}/{name}: pods of "
                "native gangs are bound anywhere"
            )
            yield WarningDocument.of(MasterCondition.POD_GROUPS_UNCONSTRAINED, text)

    def _of_scheduler(self, now_s: float) -> Iterator[WarningDocument]:
        """Yield that kube-scheduler binds the pods of PodGroups one by one."""
        late = [key for key, at_s in self._unheeded_s.items() if now_s - at_s >= PATIENCE_S]
        if late:
            text = (
                f"kube-scheduler bound the pods of {counted(len(late), 'PodGroup')} "
                f"({late[0][0]}/{late[0][1]}) and reports nothing of it: it binds them one by one"
            )
            yield WarningDocument.of(MasterCondition.POD_GROUPS_UNHEEDED, text)
        composites = tuple(self._reports.unheeded(now_s, PATIENCE_S))
        if composites:
            number = counted(len(composites), "CompositePodGroup")
            text = (
                f"kube-scheduler bound some PodGroups of {number} "
                f"({composites[0][0]}/{composites[0][1]}) and not as many as start it: it binds "
                "each PodGroup for itself"
            )
            yield WarningDocument.of(MasterCondition.COMPOSITE_POD_GROUPS_UNHEEDED, text)

    def _follow_pods(self, event: StoreEvent[ClusterPod]) -> None:
        for key, pod in updates(event, self._pods.keys):
            self._follow_pod(key, pod)

    def _follow_pod(self, key: Key, pod: ClusterPod | None) -> None:
        before = self._pods.group_of(key)
        group = pod.scheduling_group if isinstance(pod, GangPod) and pod.makes_group else None
        if before is not None and before != group:
            self._pods.drop(key)
            if before not in self._pods:
                self._unheeded_s.pop(before, None)
                self._unconstrained.pop(before, None)
        if isinstance(pod, GangPod) and group is not None:
            if group not in self._pods:
                self._mark(group)
            self._pods.put(key, group, pod)

    def _follow_groups(self, event: StoreEvent[SchedulingGroupObject]) -> None:
        self._mark(*(self._pods if isinstance(event, Listed) else (event.key,)))

    def _mark(self, *groups: Key) -> None:
        if self._began_s is not None:  # a follower would collect them for weeks
            self._marked |= dict.fromkeys(groups)
            self._wake.set()

    def _writes(self, groups: Iterable[Key]) -> Iterator[Write]:
        """Yield those of these PodGroups to create, and those whose minimum is to change."""
        for key in groups:
            write = self._errors.run("/".join(key), partial(self._write_of, key))
            if write is not None and not isinstance(write, ObjectError):
                yield write

    def _write_of(self, key: Key) -> Write | None:
        pods = self._pods.values(key).values()
        first = next((pod for pod in pods if not pod.terminating), None)
        if first is None or not isinstance(first.stamp, Stamp) or first.owner is None:
            return None
        awaited = self.awaited(first.gang_id)
        least = max(1, awaited if awaited is not None else first.stamp.pods)
        present = self.store.objects.get(key)
        if present is None:
            return self._create(key, first, least)
        if not (self._is_ours(present) and present.is_gang and present.min_count != least):
            return None
        return Patch(
            target=WriteTarget(SCHEDULING_GROUPS, key[1], key[0]),
            manager=MANAGER,
            uid=present.metadata.uid,
            fields={"spec": {"schedulingPolicy": {"gang": {"minCount": least}}}},
        )

    def _is_ours(self, found: SchedulingGroupObject) -> bool:
        return found.metadata.labels.get(managed_by(self.domain)) == PRODUCT

    def _create(self, key: Key, first: GangPod, least: int) -> Create:
        assert first.owner is not None, "pods without a job make none"  # noqa: S101 - types
        # A group and its pods must have one priority; without a class both get the default.
        more: dict[str, Any] = {}
        if first.priority_class:
            more["priorityClassName"] = first.priority_class
        if first.topology_key:
            more["schedulingConstraints"] = {"topology": [{"key": first.topology_key}]}
        return Create(
            target=WriteTarget(SCHEDULING_GROUPS, key[1], key[0]),
            manager=MANAGER,
            fields={
                "metadata": {
                    "labels": {managed_by(self.domain): PRODUCT},
                    "ownerReferences": [first.owner.document],
                },
                "spec": {"schedulingPolicy": {"gang": {"minCount": least}}, **more},
            },
        )

    def _watch_for_reports(self) -> None:
        """Note the PodGroups whose pods are all bound without a report on the group; O(pods)."""
        self._errors.retain({"/".join(key) for key in self._pods})
        for key in self._pods:
            pods = self._pods.values(key).values()
            present = self.store.objects.get(key)
            first = next(iter(pods))
            if present is not None and first.topology_key != present.spec.topology_key:
                self._unconstrained[key] = None
            is_heeded = present is None or bool(present.status.conditions)
            if is_heeded or any(pod.node is None for pod in pods):
                self._unheeded_s.pop(key, None)
            else:
                self._unheeded_s.setdefault(key, self.clock())

"""The forest as topologies of other schedulers: a table of formats, and one way to keep them true.

A topology lists labels of nodes, so it changes only with the tiers of the forest, not with a node
that moves. Kueue's and KAI's never change once they are made: other tiers are another object under
another name (`topo/publish/topologies/chains.py`).

The order of the writes, each after the one before was seen:
    1. kinds in the order of the row: a flavor after its topology, so that no queue names a flavor
       whose topology is missing
    2. what is not wanted any more goes once nothing names it: a flavor stays while a ClusterQueue
       names it, a topology while a flavor does. So a running queue keeps its objects until its
       administrator names the new flavor; a warning says which that is.

An object of this name that somebody else made is left alone, and told.

Cost: O(nodes) for a new forest, in a thread; O(objects) for each change of an object.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from typing import Any, NamedTuple

import structlog

from master.controllers.controller import ChangedNames
from master.controllers.hypernodes import PRODUCT, managed_by
from master.controllers.names import KAI_FORMAT, KOORDINATOR_FORMAT, KUEUE_FORMAT
from master.controllers.retention_grace import RetentionGrace
from master.kube.objects import Resource
from master.kube.schedulers.topologies import (
    CLUSTER_QUEUES,
    KAI_TOPOLOGIES,
    KOORDINATOR_TOPOLOGIES,
    KUEUE_FLAVORS,
    KUEUE_TOPOLOGIES,
    ClusterQueueObject,
    TopologyObject,
)
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Create, Delete, Write, WriteTarget
from topo.kit.threads import off_loop
from topo.model.conditions.master import MasterCondition
from topo.model.forest import Forest
from topo.model.ids import Kind
from topo.model.rest.topology import WarningDocument
from topo.publish.node_labels import NO_FABRICS, Fabrics
from topo.publish.topologies.chains import TierChain, all_chains
from topo.publish.topologies.kai import kai_objects
from topo.publish.topologies.koordinator import koordinator_objects
from topo.publish.topologies.kueue import FLAVOR, TOPOLOGY, kueue_objects
from topo.publish.topologies.wanted import ObjectName, WantedObjects

_log = structlog.get_logger(__name__)


class Namer(NamedTuple):
    """A kind of object that names published ones, and how these names are read from it."""

    resource: Resource[Any]
    names: Callable[[Any], Iterable[ObjectName]]


@dataclass(frozen=True, slots=True)
class TopologyFormat:
    """The objects for one scheduler: their kinds, in the order in which they are made.

    `is_sole`: it knows one topology, which is that of the tree whatever other fabrics there are.
    """

    objects: Callable[[Iterable[TierChain]], WantedObjects]
    kinds: tuple[Resource[Any], ...]
    namers: tuple[Namer, ...] = ()
    is_sole: bool = False

    @property
    def followed(self) -> tuple[Resource[Any], ...]:
        """The kinds that are read."""
        return tuple(dict.fromkeys((*self.kinds, *(namer.resource for namer in self.namers))))


def _flavors_of(queue: ClusterQueueObject) -> Iterator[ObjectName]:
    for group in queue.spec.resource_groups:
        yield from (ObjectName(FLAVOR, flavor.name) for flavor in group.flavors)


def _topology_of(flavor: TopologyObject) -> Iterator[ObjectName]:
    yield ObjectName(TOPOLOGY, str(flavor.spec.get("topologyName", "")))


FORMATS: Mapping[str, TopologyFormat] = {
    KUEUE_FORMAT: TopologyFormat(
        kueue_objects,
        (KUEUE_TOPOLOGIES, KUEUE_FLAVORS),
        (Namer(KUEUE_FLAVORS, _topology_of), Namer(CLUSTER_QUEUES, _flavors_of)),
    ),
    KAI_FORMAT: TopologyFormat(kai_objects, (KAI_TOPOLOGIES,)),
    KOORDINATOR_FORMAT: TopologyFormat(
        koordinator_objects, (KOORDINATOR_TOPOLOGIES,), is_sole=True
    ),
}
"""By the name that `--controllers` takes."""
TopologyStores = Mapping[Resource[Any], Store[Any]]
"""What is followed for a format."""


def manager_of(name: str) -> str:
    """Return the field manager of a format."""
    return f"{MANAGER_PREFIX}{name}"


@dataclass(eq=False)
class TopologyComparer:
    """Keeps the objects of one format; see above. It does nothing where their API is not served.

    `name` is that of the format, `keys` has the label of each kind of group. `beside` returns the
    forests beside a tree, for threads. `nominates`: this program chooses the nodes of jobs with
    groups, unless they say otherwise.
    """

    name: str
    stores: TopologyStores
    writer: Writer
    forest: Callable[[], Forest]
    _: KW_ONLY
    beside: Callable[[Forest], Fabrics]
    keys: Mapping[Kind, str]
    domain: str
    grace: RetentionGrace
    nominates: bool = False
    conflicts: tuple[str, ...] = ()
    outdated: tuple[str, ...] = ()
    chosen_by_kueue: tuple[str, ...] = ()
    _compared: tuple[Forest | None, WantedObjects] = field(default=(None, {}))

    async def compare(self, _names: ChangedNames) -> None:
        """Request the next step. O(nodes) for a new forest, in a thread."""
        if not all(store.synced for store in self.stores.values()):
            return  # the scheduler is not installed; its kinds may come later
        forest = self.forest()
        if forest is not self._compared[0]:
            self._compared = forest, await off_loop(partial(self._wanted_by, forest))
        if not self.writer.is_busy(manager_of(self.name)):
            self.writer.put(*self._step(self._compared[1], is_whole=self._is_whole(forest)))

    def _wanted_by(self, forest: Forest) -> WantedObjects:
        made = FORMATS[self.name]
        beside = NO_FABRICS if made.is_sole else self.beside(forest)
        return made.objects(all_chains(forest, self.keys, self.domain, beside))

    def warnings(self) -> tuple[WarningDocument, ...]:
        """The objects of others in the way, and those of ours that only a queue keeps."""
        conflict, outdated = MasterCondition.TOPOLOGY_CONFLICT, MasterCondition.TOPOLOGY_OUTDATED
        return (
            *(WarningDocument.of(conflict, text) for text in self.conflicts),
            *(WarningDocument.of(outdated, text) for text in self.outdated),
            *(
                WarningDocument.of(MasterCondition.KUEUE_CHOOSES_NODES, text)
                for text in self.chosen_by_kueue
            ),
        )

    def _is_whole(self, forest: Forest) -> bool:
        """Whether each node of the cluster was heard: else its tiers may only be unknown."""
        return not self.grace.covered_nodes(forest)

    def _step(self, wanted: WantedObjects, *, is_whole: bool) -> Iterator[Write]:
        """Yield what may be written now. The conflicts are known once it is exhausted."""
        ours, others, leaving = self._found()
        conflicts = [name for name in wanted if name in others]
        kinds = [resource.kind for resource in FORMATS[self.name].kinds]
        for name, spec in wanted.items():
            before = [ObjectName(kind, name.name) for kind in kinds[: kinds.index(name.kind)]]
            if name in others or name in leaving or not ours.keys() >= {*before} & wanted.keys():
                continue
            if (found := ours.get(name)) is None:
                yield Create(
                    target=self._target(name), manager=self._manager, fields=self._of(spec)
                )
            elif any(found.spec.get(key) != value for key, value in spec.items()):
                yield self._apply(name, found, spec)
        unwanted = [name for name in ours if name not in wanted] if is_whole else []
        named = self._named()
        for name in unwanted:
            if name not in named:
                uid = ours[name].metadata.uid
                yield Delete(target=self._target(name), manager=self._manager, uid=uid)
        self._tell(conflicts, [(name, named[name]) for name in unwanted if name in named], wanted)

    def _found(
        self,
    ) -> tuple[Mapping[ObjectName, TopologyObject], set[ObjectName], set[ObjectName]]:
        """Return our objects, the names of others', and of ours that are being deleted."""
        ours, others, leaving = dict[ObjectName, TopologyObject](), set[ObjectName](), set()
        for resource in FORMATS[self.name].kinds:
            for (_, plain), each in self.stores[resource].objects.items():
                name = ObjectName(resource.kind, plain)
                if each.metadata.labels.get(managed_by(self.domain)) != PRODUCT:
                    others.add(name)
                elif each.metadata.deletion_timestamp:
                    leaving.add(name)
                else:
                    ours[name] = each
        return ours, others, leaving

    def _named(self) -> Mapping[ObjectName, str]:
        """Return each object that another one names, with the first that does."""
        found: dict[ObjectName, str] = {}
        for namer in FORMATS[self.name].namers:
            for (_, by), each in sorted(self.stores[namer.resource].objects.items()):
                for name in namer.names(each):
                    found.setdefault(name, f"{namer.resource.kind} {by}")
        return found

    def _chosen_by_kueue(self) -> Iterator[str]:
        """Yield a sentence for each queue whose jobs get their nodes from Kueue."""
        flavors, queues = self.stores.get(KUEUE_FLAVORS), self.stores.get(CLUSTER_QUEUES)
        if flavors is None or queues is None:
            return
        for (_, queue), each in sorted(queues.objects.items()):
            for _, flavor in _flavors_of(each):
                found = flavors.objects.get(("", flavor))
                if found is not None and found.spec.get("topologyName"):
                    yield (
                        f"ClusterQueue {queue} names ResourceFlavor {flavor}, which has the"
                        f" topology {found.spec['topologyName']}: Kueue chooses the nodes of its"
                        " jobs"
                    )
                    break

    def _apply(self, name: ObjectName, found: TopologyObject, spec: Mapping[str, Any]) -> Apply:
        # Forced: what made it was no apply, and counts as another manager of the same name.
        return Apply(
            target=self._target(name),
            manager=self._manager,
            uid=found.metadata.uid,
            fields=self._of(spec),
            force=True,
        )

    def _of(self, spec: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"metadata": {"labels": {managed_by(self.domain): PRODUCT}}, "spec": spec}

    def _target(self, name: ObjectName) -> WriteTarget:
        kinds = {resource.kind: resource for resource in FORMATS[self.name].kinds}
        return WriteTarget(kinds[name.kind], name.name)

    @property
    def _manager(self) -> str:
        return manager_of(self.name)

    def _tell(
        self,
        conflicts: Iterable[ObjectName],
        outdated: Iterable[tuple[ObjectName, str]],
        wanted: WantedObjects,
    ) -> None:
        known = {*self.conflicts, *self.outdated, *self.chosen_by_kueue}
        self.conflicts = tuple(
            f"there is a {kind} {name} which this master did not make; the tiers of this name are"
            " not published"
            for kind, name in conflicts
        )
        # The topology of such a flavor is told with it.
        first = ", ".join(sorted({name.name for name in wanted})) or "none"
        self.outdated = tuple(
            f"{by} names {name.kind} {name.name}, and no node has its tiers any more; what there is"
            f" now: {first}"
            for name, by in outdated
            if not by.startswith(f"{FLAVOR} ")
        )
        self.chosen_by_kueue = tuple(self._chosen_by_kueue()) if self.nominates else ()
        for text in {*self.conflicts, *self.outdated, *self.chosen_by_kueue} - known:
            _log.warning("a topology is not as the forest is", what=text)

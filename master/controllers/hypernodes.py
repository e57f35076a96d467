"""Volcano's HyperNodes: one for each group, and a consistent tree after every single write."""

from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial

import structlog

from master.controllers.controller import ChangedNames
from master.controllers.retention_grace import RetentionGrace
from master.kube.objects import Key
from master.kube.schedulers.hypernodes import HYPERNODES, HyperNodeObject
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, Create, Delete, Write, WriteTarget
from topo.kit.threads import off_loop
from topo.model.conditions.master import MasterCondition
from topo.model.forest import Forest
from topo.model.ids import NodeName
from topo.model.rest.topology import WarningDocument
from topo.publish.hypernode_steps import next_step
from topo.publish.hypernodes import (
    GROUP,
    HyperNode,
    HyperNodes,
    MemberRef,
    faults,
    hypernodes,
    members,
    spec,
    validate,
    with_kept_nodes,
    without_members,
)

MANAGER = f"{MANAGER_PREFIX}hypernodes"
PRODUCT = "topo-master"
SOURCE_LABEL = "volcano.sh/network-topology-source"
"""Volcano's own controller deletes HyperNodes of the sources that it discovers, and no others."""
MOST_TOLD = 20
"""Conflicts that are listed: another program's tree may have thousands."""

_log = structlog.get_logger(__name__)


def managed_by(domain: str) -> str:
    """Return the label of objects that this product made."""
    return f"{domain}/managed-by"


@dataclass(frozen=True, slots=True)
class FoundHyperNodes:
    """The existing HyperNodes: ours as values and as objects, and those of others.

    `leaving` are ours that are deleted and wait for a finalizer of another program, maybe for ever.
    Until then schedulers see them and their members, so these are in no other HyperNode.
    """

    ours: HyperNodes
    objects: Mapping[str, HyperNodeObject]
    others: HyperNodes
    leaving: HyperNodes


@dataclass(frozen=True, slots=True)
class HyperNodePlan:
    """The wanted HyperNodes beside those of others, and the writes of the next step."""

    wanted: HyperNodes
    writes: tuple[Write, ...]
    conflicts: tuple[str, ...]


@dataclass(eq=False)
class HyperNodeComparer:
    """Requests the next safe step from the existing HyperNodes to those of the forest.

    While a step is being written no other is requested, unless the forest changes: then writes that
    have not begun are withdrawn, and others awaited. `conflicts` lists HyperNodes of others in the
    way.
    """

    store: Store[HyperNodeObject]
    writer: Writer
    forest: Callable[[], Forest]
    _: KW_ONLY
    domain: str
    grace: RetentionGrace
    _wanted: HyperNodes = field(default_factory=dict)
    _planned_for: Forest | None = None
    conflicts: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        self._labels = {managed_by(self.domain): PRODUCT, SOURCE_LABEL: PRODUCT}

    async def compare(self, _names: ChangedNames) -> None:
        """Request a step, or wait for the one before. O(nodes), in a thread."""
        if not self.store.synced:
            return  # Volcano is not installed; its kind of object may come later
        forest, is_busy = self.forest(), self.writer.is_busy(MANAGER)
        if forest is self._planned_for and is_busy:
            return
        unheard, objects = self.grace.covered_nodes(forest), dict(self.store.objects)
        plan = await off_loop(partial(self._plan, forest, unheard, objects))
        self._planned_for = forest
        self._tell(plan.conflicts)
        if plan.wanted != self._wanted:
            self.writer.withdraw_all(MANAGER)
            self._wanted = plan.wanted
        if not is_busy:  # else what was planned for has changed in the meantime
            self.writer.put(*plan.writes)

    def warnings(self) -> tuple[WarningDocument, ...]:
        """The HyperNodes of others that keep a group from being published."""
        code = MasterCondition.HYPERNODE_CONFLICT
        return tuple(WarningDocument.of(code, text) for text in self.conflicts)

    def _plan(
        self,
        forest: Forest,
        unheard: frozenset[NodeName],
        objects: Mapping[Key, HyperNodeObject],
    ) -> HyperNodePlan:
        """Return the next step. Raises where the wanted HyperNodes are no sound tree."""
        found = self._found(objects)
        wanted = hypernodes(forest)
        names = wanted.keys() & found.others.keys()
        taken = _taken(found.others, wanted)
        if names or taken:
            wanted = without_members(wanted, names, taken.keys())
        if found.leaving:
            held = {member for each in found.leaving.values() for member in members(each)}
            wanted = without_members(wanted, found.leaving.keys(), held)
        validate(wanted)
        kept = with_kept_nodes(wanted, found.ours, unheard) if unheard else wanted
        if kept is not wanted and not any(faults(kept)):
            wanted = kept
        return HyperNodePlan(wanted, tuple(self._writes(found, wanted)), _conflicts(names, taken))

    def _writes(self, found: FoundHyperNodes, wanted: HyperNodes) -> Iterator[Write]:
        step = next_step(found.ours, wanted)
        for each in step.create.values():
            fields = {"metadata": {"labels": self._labels}, "spec": spec(each)}
            yield Create(target=WriteTarget(HYPERNODES, each.name), manager=MANAGER, fields=fields)
        for each in step.rewrite.values():
            fields = {"metadata": {"labels": self._labels}, "spec": spec(each)}
            target, uid = WriteTarget(HYPERNODES, each.name), found.objects[each.name].metadata.uid
            # Forced: what made it was no apply, and counts as another manager of the same name.
            yield Apply(target=target, manager=MANAGER, uid=uid, fields=fields, force=True)
        for name in sorted(step.delete):
            target, uid = WriteTarget(HYPERNODES, name), found.objects[name].metadata.uid
            yield Delete(target=target, manager=MANAGER, uid=uid)

    def _found(self, present: Mapping[Key, HyperNodeObject]) -> FoundHyperNodes:
        ours: dict[str, HyperNode] = {}
        others: dict[str, HyperNode] = {}
        leaving: dict[str, HyperNode] = {}
        objects: dict[str, HyperNodeObject] = {}
        for (_, name), each in present.items():
            labels = each.metadata.labels
            carried = [key for key, value in self._labels.items() if labels.get(key) == value]
            if not carried:
                others[name] = _value(each)
                continue
            if each.metadata.deletion_timestamp:
                leaving[name] = _value(each)
                continue
            objects[name], ours[name] = each, _value(each)
            if len(carried) < len(self._labels):  # one was taken off: it is to be written anew
                ours[name] = replace(ours[name], tier_name="")
        return FoundHyperNodes(ours, objects, others, leaving)

    def _tell(self, conflicts: tuple[str, ...]) -> None:
        for text in conflicts:
            if text not in self.conflicts:
                _log.warning("a HyperNode of somebody else is in the way", what=text)
        self.conflicts = conflicts


def _conflicts(names: AbstractSet[str], taken: Mapping[MemberRef, str]) -> tuple[str, ...]:
    """Return at most `MOST_TOLD` sentences about HyperNodes and members of others."""
    not_ours = "which this master did not make"
    texts = [
        f"there is a HyperNode {name} {not_ours}; the group of this name is not published"
        for name in sorted(names)
    ]
    texts += [
        f"{member.type} {member.name} is a member of HyperNode {taken[member]}, {not_ours}; it is"
        " published in no other one"
        for member in sorted(taken)
    ]
    return tuple(texts[:MOST_TOLD])


def _taken(others: HyperNodes, wanted: HyperNodes) -> Mapping[MemberRef, str]:
    """Return wanted members that others have: HyperNodes at any tier, nodes at the same tier."""
    if not others:
        return {}
    tiers = {member: each.tier for each in wanted.values() for member in members(each)}
    return {
        member: name
        for name, each in others.items()
        for member in members(each)
        if member in tiers and (member.type == GROUP or tiers[member] == each.tier)
    }


def _value(each: HyperNodeObject) -> HyperNode:
    """Return an object as a value; a member without an exact match has an empty name."""
    listed = [
        MemberRef(member.type, exact.name if (exact := member.selector.exact_match) else "")
        for member in each.spec.members
    ]
    return HyperNode(
        name=each.metadata.name,
        tier=each.spec.tier,
        tier_name=each.spec.tier_name,
        nodes=frozenset(name for kind, name in listed if kind != GROUP),
        groups=frozenset(name for kind, name in listed if kind == GROUP),
    )

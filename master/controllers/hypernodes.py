"""Volcano's HyperNodes: one for each group, and at no moment a tree that it would not trust."""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import structlog

from master.controllers.controller import Names
from master.controllers.unheard import Unheard
from master.kube.objects import HYPERNODES, HyperNodeObject
from master.kube.store import Store
from master.kube.writer import Writer
from master.kube.writes import MANAGER_PREFIX, Apply, Create, Delete, Target
from topo.model.forest import Forest
from topo.model.rest.topology import WarningDocument
from topo.publish.hypernode_steps import next_step
from topo.publish.hypernodes import (
    GROUP,
    HyperNode,
    HyperNodes,
    Member,
    faults,
    hypernodes,
    keeping,
    members,
    spec,
    validate,
    without,
)

MANAGER = f"{MANAGER_PREFIX}hypernodes"
PRODUCT = "topo-master"
SOURCE_LABEL = "volcano.sh/network-topology-source"
"""Volcano's own controller deletes HyperNodes of the sources that it discovers, and no others."""
MOST_TOLD = 20
"""Conflicts that are told: whole trees of others have thousands."""

_log = structlog.get_logger(__name__)


def managed_by(domain: str) -> str:
    """The label that says of an object that this product made it."""
    return f"{domain}/managed-by"


@dataclass(frozen=True, slots=True)
class Found:
    """The HyperNodes that there are: ours as values and as objects, and those of others."""

    ours: HyperNodes
    objects: Mapping[str, HyperNodeObject]
    others: HyperNodes


class HyperNodeComparer:
    """Asks for the next safe step from the HyperNodes that there are to those of the forest.

    While a step is being written nothing else is asked for, unless the forest changes: then what
    has not begun is taken back, and what has is waited for. `conflicts` says what others have.
    """

    def __init__(
        self,
        reflector: Store[HyperNodeObject],
        writer: Writer,
        forest: Callable[[], Forest],
        *,
        domain: str,
        unheard: Unheard,
    ) -> None:
        self._reflector = reflector
        self._writer = writer
        self._forest = forest
        self._unheard = unheard
        self._labels = {managed_by(domain): PRODUCT, SOURCE_LABEL: PRODUCT}
        self._wanted: HyperNodes = {}
        self._compared: Forest | None = None
        self.conflicts: tuple[str, ...] = ()

    def compare(self, _names: Names) -> None:
        """Asks the writer for a step, or waits for the one before. O(nodes)."""
        if not self._reflector.synced:
            return  # Volcano is not installed; its kind of object may come later
        forest = self._forest()
        if forest is self._compared and self._writer.is_busy(MANAGER):
            return
        self._compared = forest
        found = self._found()
        wanted = self._tree(forest, found)
        if wanted != self._wanted:
            self._writer.withdraw_all(MANAGER)
            self._wanted = wanted
        if self._writer.is_busy(MANAGER):
            return
        step = next_step(found.ours, wanted)
        for name, each in (*step.create.items(), *step.rewrite.items()):
            self._writer.put(self._write(each, found.objects.get(name)))
        for name in sorted(step.delete):
            uid = found.objects[name].metadata.uid
            self._writer.put(Delete(target=Target(HYPERNODES, name), manager=MANAGER, uid=uid))

    def warnings(self) -> tuple[WarningDocument, ...]:
        """What others have and keeps a group from being published."""
        fix = "remove it, or take these nodes out of it, so that Volcano has one tree"
        return tuple(
            WarningDocument(code="hypernode-conflict", text=text, fix=fix)
            for text in self.conflicts
        )

    def _write(self, each: HyperNode, there: HyperNodeObject | None) -> Apply | Create:
        target = Target(HYPERNODES, each.name)
        fields = {"metadata": {"labels": self._labels}, "spec": spec(each)}
        if there is None:
            return Create(target=target, manager=MANAGER, fields=fields)
        uid = there.metadata.uid
        # Forced: what made it here was no apply, and counts as another manager of the same name.
        return Apply(target=target, manager=MANAGER, uid=uid, fields=fields, force=True)

    def _found(self) -> Found:
        ours: dict[str, HyperNode] = {}
        others: dict[str, HyperNode] = {}
        objects: dict[str, HyperNodeObject] = {}
        for (_, name), each in self._reflector.objects.items():
            labels = each.metadata.labels
            carried = [key for key, value in self._labels.items() if labels.get(key) == value]
            if not carried:
                others[name] = _value(each)
                continue
            objects[name], ours[name] = each, _value(each)
            if len(carried) < len(self._labels):  # one was taken off: it is to be written anew
                ours[name] = replace(ours[name], tier_name="")
        return Found(ours, objects, others)

    def _tree(self, forest: Forest, found: Found) -> HyperNodes:
        """What there should be beside what others have. Ends the process if it is no sound tree."""
        wanted = hypernodes(forest)
        names = wanted.keys() & found.others.keys()
        taken = _taken(found.others, wanted)
        self._tell(names, taken)
        wanted = without(wanted, names, taken.keys())
        validate(wanted)
        kept = keeping(wanted, found.ours, self._unheard.nodes(forest))
        return wanted if any(faults(kept)) else kept

    def _tell(self, names: AbstractSet[str], taken: Mapping[Member, str]) -> None:
        texts = [
            f"there is a HyperNode {name} that this master did not make; the group of this name is"
            " not published"
            for name in sorted(names)
        ]
        texts += [
            f"{member.type} {member.name} is a member of HyperNode {taken[member]}, which this"
            " master did not make; it is published in no other one"
            for member in sorted(taken)
        ]
        told = tuple(texts[:MOST_TOLD])
        for text in told:
            if text not in self.conflicts:
                _log.warning("a HyperNode of somebody else is in the way", what=text)
        self.conflicts = told


def _taken(others: HyperNodes, wanted: HyperNodes) -> Mapping[Member, str]:
    """Members that we want and that others have: HyperNodes at all, nodes at the same tier."""
    tiers = {member: each.tier for each in wanted.values() for member in members(each)}
    return {
        member: name
        for name, each in others.items()
        for member in members(each)
        if member in tiers and (member.type == GROUP or tiers[member] == each.tier)
    }


def _value(each: HyperNodeObject) -> HyperNode:
    """An object as a value; a member that is not matched exactly is one that nobody wants."""
    listed = [
        Member(member.type, exact.name if (exact := member.selector.exact_match) else "")
        for member in each.spec.members
    ]
    return HyperNode(
        name=each.metadata.name,
        tier=each.spec.tier,
        tier_name=each.spec.tier_name,
        nodes=frozenset(name for kind, name in listed if kind != GROUP),
        groups=frozenset(name for kind, name in listed if kind == GROUP),
    )

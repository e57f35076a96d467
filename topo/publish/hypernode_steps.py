"""Safe steps from the present HyperNodes to the wanted ones.

Result: the writes of one step. Their order among themselves is free. When all of them are seen,
the next step follows from what is there then; no step left means that nothing differs.

What stays true before, between and after all writes, so that Volcano, which trusts no tree with a
fault, always has one: no member is in two HyperNodes, no HyperNode names a missing one as its
member, none is empty.

How: a HyperNode drops members that are not its own, and adds members that are free. One that would
be empty is deleted, after its parent has dropped it. One that waits for a member that another
HyperNode still has is not written yet, so that it is written once.

Why that is right: what a step adds was free before it, and is wanted by one HyperNode only, so no
other write of the step adds it. What a step deletes was named by none before it, and no write of
the step names what is not there. Why it ends: a member that is waited for is held by a HyperNode
that this step makes let go, or that waits for its own deletion, whose parent lets go in this step.

Cost: O(members) for a step; two for a node that moves, one for each tier that comes or goes.

Example: a moves from fly-1 {a, b} to fly-2 {c}. Step 1: fly-1 {b}. Step 2: fly-2 {a, c}.
"""

from dataclasses import dataclass

from topo.publish.hypernodes import (
    GROUP,
    HyperNode,
    HyperNodes,
    MemberRef,
    members,
    with_members,
)


@dataclass(frozen=True, slots=True)
class HyperNodeStep:
    """HyperNodes to create, to rewrite and to delete; the order of these writes is free."""

    create: HyperNodes
    rewrite: HyperNodes
    delete: frozenset[str]

    def __bool__(self) -> bool:
        return bool(self.create or self.rewrite or self.delete)


def next_step(present: HyperNodes, wanted: HyperNodes) -> HyperNodeStep:
    """Return what may be written now. `wanted` is valid; `present` may be in any state."""
    if present == wanted:
        return HyperNodeStep({}, {}, frozenset())
    view = _View(present, wanted)
    rewrite = {
        name: target
        for name, found in present.items()
        if (target := view.target(name)) is not None and target != found
    }
    create = {
        name: goal for name, goal in wanted.items() if name not in present and view.is_whole(name)
    }
    named = {child for found in present.values() for child in found.groups}
    # Only what no HyperNode names any more: Volcano trusts no tree with a missing member.
    delete = view.going - named
    if not (rewrite or create or delete):  # what is left was made to name each other in a circle
        delete = view.going
    return HyperNodeStep(create, rewrite, delete)


class _View:
    """The members that are available now, and the HyperNodes that have to be deleted first."""

    def __init__(self, present: HyperNodes, wanted: HyperNodes) -> None:
        self._wanted = wanted
        self._found = {name: frozenset(members(each)) for name, each in present.items()}
        self._goals = {name: frozenset(members(each)) for name, each in wanted.items()}
        self._held = frozenset[MemberRef]().union(*self._found.values())
        self.going = frozenset[str]()
        # What goes may leave its parent empty, which goes then, too.
        while more := self._emptied():
            self.going |= more

    def target(self, name: str) -> HyperNode | None:
        """Return what a present HyperNode should be made now; None for one that goes or waits."""
        if name in self.going:
            return None
        now = self._available(name)
        # Some members are still held elsewhere: waiting writes the HyperNode once, not twice.
        if self._found[name] <= now and now != self._goals[name]:
            return None
        return with_members(self._wanted[name], now)

    def is_whole(self, name: str) -> bool:
        """Return whether all members of a HyperNode that is not there can be had now."""
        return self._available(name) == self._goals[name]

    def _emptied(self) -> frozenset[str]:
        """Return the HyperNodes that are not wanted or would be empty; more may follow."""
        left = self._found.keys() - self.going
        return frozenset(name for name in left if not self._available(name))

    def _available(self, name: str) -> frozenset[MemberRef]:
        """Return the wanted members that it has already, or that are free."""
        found = self._found.get(name, frozenset[MemberRef]())
        goal = self._goals.get(name, frozenset[MemberRef]())
        return frozenset(
            m for m in goal if not self._is_going(m) and (m in found or self._is_free(m))
        )

    def _is_going(self, member: MemberRef) -> bool:
        return member.type == GROUP and member.name in self.going

    def _is_free(self, member: MemberRef) -> bool:
        is_there = member.type != GROUP or member.name in self._found
        return is_there and member not in self._held

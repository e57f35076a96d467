"""Which notes and ranks of pods count: what a pod states is a claim until a fact bears it out.

Whoever may create pods can write any annotation. So the note of a pod, by which a new leader
continues a plan, counts only where the machine can have written it:

- It names the group of the pod's rank.
- A pod that is bound to the node of its note has what the note says.
- Else its hold is one that was made for this gang and books its node, or its node bears the label
  of the gang with the value of the note. Holds and node labels only masters write. One hold on a
  node bears out no note of another node: a gang could else take any node of the cluster.
- A note over pods of lower priority has no hold: it counts once its node bears the label.
- A note that was withdrawn takes nothing, so that nothing has to bear it out.

A plan is never read from another note: the machine withdraws it, as it does with one that it gave
up, so that the pod takes nothing by it. `note_doubt` says why a note does not count.

A rank belongs to one pod: of several that state it, and of pods beyond the size of the gang, the
others are surplus. They get no place and move nothing; `surplus_pods` says which they are. A bound
pod keeps its rank before one that waits, and an opened one before a gated one, because what runs
or may run at any moment is there, whatever came later.

Cost: O(members).

Example: a gang of two pods with the hold h1 of n1 and n2, and the label h1 on n1.
    p0, rank 0, note (n1, group 0, h1, selection h1)     counts
    p1, rank 1, note (n2, group 0, h7, selection h7)     h7 is no hold of the gang: ignored
    p2, rank 1, bound; p1 waits                          p1 is surplus
"""

from collections.abc import Iterable, Mapping

from topo.gangs.machine.gang import Gang, HeldPlaces, Member, Note, PodUid, Selection
from topo.model.ids import NodeName


def doubtful_notes(gang: Gang) -> dict[PodUid, str]:
    """Return the pods whose notes do not count, and why; O(members)."""
    found: dict[PodUid, str] = {}
    for member in gang.members:
        if member.note is not None and (why := note_doubt(gang, member, member.note)):
            found[member.uid] = why
    return found


def note_doubt(gang: Gang, member: Member, note: Note) -> str:
    """Return why a note of a pod does not count; empty if the machine can have written it."""
    if note.group != gang.group_of(member.rank):
        return f"it names group {note.group}, and its rank {member.rank} is of another one"
    if note.withdrawn or member.node == note.node:
        return ""
    if is_borne_out(note, gang.holds, gang.labelled):
        return ""
    return (
        f"its gang has no hold {note.hold} of node {note.node}, and the node has no label of the"
        f" gang with the value {note.selection}"
    )


def is_borne_out(note: Note, holds: HeldPlaces, labelled: Mapping[NodeName, Selection]) -> bool:
    """Return whether a hold or a node label of the gang, which only masters write, bears it out."""
    return labelled.get(note.node) == note.selection or is_held(note, holds)


def is_held(note: Note, holds: HeldPlaces) -> bool:
    """Return whether a hold books the place of a note; never one over pods of lower priority."""
    return not note.over and note.node in holds.get(note.hold, ())


def surplus_pods(members: Iterable[Member], pods: int) -> frozenset[PodUid]:
    """Return the live pods whose rank another pod has, or that a gang of `pods` pods has not."""
    keepers: dict[int, Member] = {}
    surplus: set[PodUid] = set()
    for member in members:
        if not member.live:
            continue
        other = keepers.get(member.rank)
        if not 0 <= member.rank < pods:
            surplus.add(member.uid)
        elif other is None or _claim(member) < _claim(other):
            keepers[member.rank] = member
            surplus |= {other.uid} if other is not None else set()
        else:
            surplus.add(member.uid)
    return frozenset(surplus)


def _claim(member: Member) -> tuple[bool, bool, bool, str]:
    """Return how strong the claim of a pod to its rank is; the smallest is the strongest."""
    return member.node is None, member.gated, member.note is None, member.uid

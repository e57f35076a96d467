"""What one node claims of its inter-node links, remembered while a cable is out.

Result: the claims that count after a reading. A claim is "my slot 1 leads to server U".

Why a claim is remembered: the wiring of a cluster does not change because a link is down. A claim
that vanishes from the readings stays, as a bad reading, until its slot leads somewhere else or the
link has been dead for long. So a group stays together, marked NotReady, until the
cable is found.

Why a new server waits: a node has as many cables as it has shown at once. While the claim that it
would displace is not judged dead, both may be one cable in the act of moving, and counting both
would wire three nodes together.

Why cables are counted: both slots of a server may lead to the same other one. While one of them is
there the link holds; that the other is lost is a bad reading of its own, `CABLES`, which makes no
node NotReady. A slot that a new server took is not lost.

Cost: O(slots), and there are at most a few.

Example, two cables: a shows {1: B, 2: D}, then {1: D}. B is kept, not seen; D is found in another
slot (drivers compact their list) and stays. Once B is judged dead, a shows {1: D, 2: X}: X takes
the place of B.
"""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import NamedTuple

from topo.discovery.node.health import Subject
from topo.model.conditions.tree import ConflictCondition, NodeCondition
from topo.model.forest import Reason
from topo.model.ids import ServerUuid
from topo.model.machine import Peer, ServerPeers
from topo.model.words import counted, listed


class Claim(NamedTuple):
    """A remote server that a node sees, or saw, behind one slot, and behind `more` of them.

    `lost`: slots that led there, too, and are not seen or not connected.
    """

    uuid: ServerUuid
    slot: int
    seen: bool = True
    connected: bool = True
    more: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()

    @property
    def slots(self) -> tuple[int, ...]:
        """All of its slots, in order."""
        return tuple(sorted((self.slot, *self.more))) if self.more else (self.slot,)


Claims = dict[ServerUuid, Claim]


LINK = "link"
CABLES = "cables"
"""The kind of a link that has fewer cables than it had."""
_SLOT = attrgetter("slot")


def link_subject(uuid: ServerUuid) -> Subject:
    """Return the subject under which the health of this claim is counted."""
    return LINK, uuid


def cables_subject(uuid: ServerUuid) -> Subject:
    """Return the subject under which it is counted whether all cables of a claim are there."""
    return CABLES, uuid


def merge(
    claims: Claims, peers: ServerPeers | None, dead: Iterable[ServerUuid], cables: int
) -> Claims:
    """Return the claims after a reading that showed `peers`; `dead` are claims already judged down.

    `cables` is the most remotes that this node has shown at once. A new server takes the place of a
    claim that is judged dead, first of the one in its own slot, then of any. A server behind two
    slots is one claim, under the lower slot.
    """
    shown = _by_uuid(peers)
    # The same servers as before, or the first ones: nothing is displaced.
    if shown.keys() == claims.keys() or not claims:
        return {uuid: _shown(ends, claims.get(uuid)) for uuid, ends in shown.items()}
    missing = {c.slot: c for uuid, c in sorted(claims.items()) if uuid not in shown}
    taken = {peer.slot for uuid, ends in shown.items() if uuid not in claims for peer in ends}
    merged = {u: _shown(ends, claims[u], taken) for u, ends in shown.items() if u in claims}
    gone = set(dead)
    for peer, *more in (ends for uuid, ends in shown.items() if uuid not in claims):
        # While all cables are accounted for, a new server may be one cable on the move: it waits.
        slot = _slot_for(peer, missing, gone, full=len(merged) + len(missing) >= cables)
        if slot is None:
            continue
        missing.pop(slot, None)
        merged[peer.uuid] = _shown([peer, *more])
    # A claim that is no longer seen stays, as a bad link, until another server takes its place.
    for claim in missing.values():
        merged[claim.uuid] = claim._replace(seen=False, connected=False, lost=())
    return merged


def _slot_for(
    peer: Peer, missing: Mapping[int, Claim], gone: set[ServerUuid], *, full: bool
) -> int | None:
    """Return the slot whose missing claim a new server displaces (or a free one); None while it
    waits.
    """
    own = missing.get(peer.slot)
    if own is not None:
        return peer.slot if own.uuid in gone else None
    if not full:
        return peer.slot
    return next((slot for slot, claim in sorted(missing.items()) if claim.uuid in gone), None)


def _shown(
    ends: Sequence[Peer], before: Claim | None = None, taken: AbstractSet[int] = frozenset()
) -> Claim:
    """Return the claim of a peer that is named, at these slots in order; others have `taken` some.

    It is connected where one of its cables is. Where nothing is said of its connection, what was
    said last holds, unless it was gone in between.
    """
    first, stated = ends[0], {peer.connected for peer in ends}
    connected = True in stated
    if not connected and None in stated:
        connected = before is None or not before.seen or before.connected
    if len(ends) == 1 and (before is None or not before.more):
        return Claim(first.uuid, first.slot, True, connected)
    now = {peer.slot for peer in ends}
    known = () if before is None else before.slots
    # No more cables than were seen at once: a driver may change their numbers.
    gone = [slot for slot in known if slot not in now | taken][: max(0, len(known) - len(now))]
    out = {peer.slot for peer in ends if peer.connected is False}
    more = tuple(sorted({*now, *gone} - {first.slot}))
    lost = tuple(sorted({*gone, *out})) if connected else ()
    return Claim(first.uuid, first.slot, True, connected, more, lost)


def _by_uuid(peers: ServerPeers | None) -> dict[ServerUuid, list[Peer]]:
    if peers is None:
        return {}
    shown: dict[ServerUuid, list[Peer]] = {}
    remotes = peers.remotes if len(peers.remotes) < 2 else sorted(peers.remotes, key=_SLOT)
    for peer in remotes:
        if peer.uuid != peers.local:
            shown.setdefault(peer.uuid, []).append(peer)
    return shown


def judge_links(claims: Claims) -> dict[Subject, Reason]:
    """Return the bad subjects among the claims of one reading."""
    bad: dict[Subject, Reason] = {}
    for claim in claims.values():
        if claim.seen and claim.connected:
            if claim.lost:
                bad[cables_subject(claim.uuid)] = _fewer_cables(claim)
            continue
        how = "is named but not connected" if claim.seen else "is no longer seen"
        text = f"remote {claim.slot} (server {claim.uuid}) {how}"
        bad[link_subject(claim.uuid)] = Reason(NodeCondition.LINK_DOWN, text)
    return bad


def _fewer_cables(claim: Claim) -> Reason:
    slots = listed([str(slot) for slot in claim.lost])
    has = f"{len(claim.slots) - len(claim.lost)} of {counted(len(claim.slots), 'cable')}"
    text = f"the link to server {claim.uuid} has {has}: remote {slots} is not there"
    return Reason(ConflictCondition.LINK_DEGRADED, text)

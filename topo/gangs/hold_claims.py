"""Which pods may take shares of a hold that they name: those for which it was made.

A pod names its hold in an annotation, which its user can write, and everybody can list the ids of
holds. So the name is a claim. Whose a hold is follows from its own request, which no pod can
change:

    key gang/<gang>/<hold>               the pods of that gang
    key extender/<gang>/<first>/<mask>   the pods of that gang at the ranks of the mask
    key provisioning/…, workload/…       none by a claim: they have to consume that request
    any other key, or none               the pods of the namespace that the request names
"""

from dataclasses import dataclass

from topo.gangs.extender.needs import held_ranks
from topo.gangs.machine.gang import GangId
from topo.model.limits import GANG_KEYS, OWN_KEYS
from topo.placement.booking.holds import Hold, HoldId


@dataclass(frozen=True, slots=True, kw_only=True)
class Claimant:
    """A pod that names a hold; `rank` is None for a pod that asks for no groups."""

    namespace: str
    gang: GangId
    rank: int | None = None


def may_take(hold: Hold, pod: Claimant) -> bool:
    """Return whether a pod takes a share of the hold that it names; O(ranks of the hold)."""
    if not _is_of_master(hold):
        return hold.wish.namespace != "" and hold.wish.namespace == pod.namespace
    if (gang := gang_of_hold(hold)) is not None:
        return gang == pod.gang
    held = held_ranks(hold)
    return held is not None and held.gang == pod.gang and pod.rank in held.ranks


def describe_claimants(hold: Hold) -> str:
    """Return a phrase that says whose pods may take shares of a hold: `for pods of …`."""
    if not _is_of_master(hold):
        return f"for pods of {f'namespace {whose}' if (whose := hold.wish.namespace) else 'none'}"
    if gang_of_hold(hold) is not None:
        return "for the pods of another gang"
    if held_ranks(hold) is not None:
        return "for pods of other ranks or of another gang"
    return "for pods that consume its request"


def gang_key(gang: GangId, hold: HoldId) -> str:
    """Return the key of a hold that is made for a gang."""
    return f"{GANG_KEYS}{gang}/{hold}"


def gang_of_hold(hold: Hold) -> GangId | None:
    """Return the gang that a hold was made for; None for a hold of another client."""
    key = hold.wish.key or ""
    return GangId(key.split("/")[1]) if key.startswith(GANG_KEYS) and key.count("/") == 2 else None


def _is_of_master(hold: Hold) -> bool:
    """Return whether a master made the hold by itself, for what its key says."""
    return (hold.wish.key or "").startswith(OWN_KEYS)

"""The reasons to refuse a hold: a limit, a key used for another request, no room any more."""

from collections.abc import Mapping

from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.limits import MAX_KEY_CHARS
from topo.placement.booking.holds import (
    Hold,
    HoldRefused,
    HoldRequest,
    Limits,
    Obstacle,
    difference,
    shortage,
)
from topo.placement.capacity.capacity_view import CapacityView


def beyond_limits(wish: HoldRequest, limits: Limits, holds: int) -> HoldRefused | None:
    """Refuse a request beyond the limits: time, pods, key, number of holds; O(1)."""
    pods = wish.request.pods
    if not 0 < wish.hold_s <= limits.hold_s:
        what = f"hold_s is {wish.hold_s:g}"
        return _beyond(what, "hold_s", f"give seconds, more than 0, at most {limits.hold_s:g}")
    if wish.key is not None and not 0 < len(wish.key) <= MAX_KEY_CHARS:
        what = f"the key has {len(wish.key)} characters"
        return _beyond(what, "key", f"give 1 to {MAX_KEY_CHARS}")
    if wish.key is not None and not wish.key.isprintable():  # no half of a code point either
        what = "the key has characters that cannot be shown"
        return _beyond(what, "key", "give letters, digits and punctuation")
    if pods > limits.pods:
        what = f"a hold of {pods} pods"
        return _beyond(what, "pods", f"hold at most {limits.pods} pods at once")
    if holds >= limits.holds:
        what = f"there are {holds} holds already"
        fix = "release one, or commit less and release sooner"
        return HoldRefused(Obstacle.FULL, Refusal(what, "holds", fix))
    return None


def of_another(hold: Hold, wish: HoldRequest) -> HoldRefused:
    """Refuse a request whose key belongs to a hold for another request."""
    what = f"the key {wish.key!r} belongs to hold {hold.id} of another request: "
    what += difference(hold.wish, wish)
    fix = f"use a new key, or repeat that request, or release {hold.id} first"
    return HoldRefused(Obstacle.KEY, Refusal(what, "key", fix))


def no_longer_fits(gpus: Mapping[NodeName, int], capacity: CapacityView) -> HoldRefused | None:
    """Refuse a plan if one of its nodes is gone, closed or too full; O(its nodes)."""
    for node in capacity.nodes_short_of(gpus):
        fix = "place the job again"
        what = shortage(capacity, node, gpus[node])
        return HoldRefused(Obstacle.NO_LONGER_FITS, Refusal(what, "groups", fix))
    return None


def _beyond(what: str, where: str, fix: str) -> HoldRefused:
    return HoldRefused(Obstacle.TERMS, Refusal(what, where, fix))

"""The GPUs that Volcano's plugin `proportion` lets each queue have: its share by weight.

Result: for each queue its *deserved*. All GPUs are divided by weight, but no queue gets more than
its limit or than it asks for; the rest is divided again among the queues that got less.

Why it is right: it repeats the plugin's loop for one resource (v1.14, `OnSessionOpen` in
pkg/scheduler/plugins/proportion/proportion.go), which admits a pod while the queue's GPUs plus the
pod's do not exceed that share (`queueAllocatable`). The plugin divides all resources in the same
rounds; the final amount of each resource is the same, except for fractions.

Cost: O(queues²), because each round satisfies at least one queue.

Example: 128 GPUs, weights 1 and 1. A asks for 128, gated pods included, B for 96: each gets 64.
With B asking for 32: B gets 32, A the 96 that are left.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QueueClaim:
    """A queue's weight, requested GPUs, limit and guaranteed GPUs."""

    weight: int
    wanted: int
    limit: int
    guaranteed: int = 0


def shares(claims: Mapping[str, QueueClaim], total: int) -> dict[str, int]:
    """Return each queue's share of `total` in whole GPUs; O(queues²)."""
    found = dict.fromkeys(claims, 0.0)
    hungry = {name for name, claim in claims.items() if claim.weight > 0}
    left = float(total)
    while hungry and left > 0:
        weights = sum(claims[name].weight for name in hungry)
        given = 0.0
        # Every queue gets its part of what was left when the round began, as in the plugin.
        for name in sorted(hungry):
            claim, before = claims[name], found[name]
            most = min(claim.limit, claim.wanted)
            deserved = max(min(before + left * claim.weight / weights, most), claim.guaranteed)
            found[name] = deserved
            given += deserved - before
            if claim.wanted <= deserved or deserved == before:
                hungry.discard(name)
        left = max(0.0, left - given)
        if given == 0.0:
            break  # no queue gained anything: another round would change nothing
    return {name: int(deserved + 1e-6) for name, deserved in found.items()}

"""What whoever runs the product chooses for all gangs."""

from dataclasses import dataclass

from topo.gangs.machine.pending_queue import QueueOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """The order of the line; how long a write may be under way, and a refused one waits.

    It waits `retry_s` after the first refusal of a version, then twice as long each time, up to
    `retry_ceiling_s`. After `preempt_s` in line a gang may be planned over pods of lower priority;
    None: never.
    """

    order: QueueOrder = QueueOrder.RESERVE
    given_s: float = 30.0
    retry_s: float = 2.0
    retry_ceiling_s: float = 60.0
    preempt_s: float | None = None

    def refused_s(self, refusals: int) -> float:
        """How long a write waits that was refused so often."""
        return min(self.retry_ceiling_s, self.retry_s * 2.0 ** min(refusals - 1, 10))


BY_DEFAULT = GangSettings()

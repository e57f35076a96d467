"""The settings of the machine, for all gangs."""

from dataclasses import dataclass

from topo.gangs.machine.pending_queue import QueueOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class GangSettings:
    """The order of the queue, and the times of writes.

    A write is late after `given_s`. A refused one is issued again after `retry_s`, then after twice
    as long each time, up to `retry_ceiling_s`. After `preempt_s` in the queue a gang may be planned
    over pods of lower priority; None for never. If its scheduler refuses opened pods for `bind_s`,
    the gang is placed elsewhere, and not on these nodes for `avoid_s`. The gates of a gang that an
    error sets aside are opened after `gate_s`; 0 for never.
    """

    order: QueueOrder = QueueOrder.RESERVE
    given_s: float = 30.0
    retry_s: float = 2.0
    retry_ceiling_s: float = 60.0
    preempt_s: float | None = None
    bind_s: float = 30.0
    avoid_s: float = 300.0
    gate_s: float = 300.0

    def refused_s(self, refusals: int) -> float:
        """Return how long a write waits after so many refusals of one version."""
        return min(self.retry_ceiling_s, self.retry_s * 2.0 ** min(refusals - 1, 10))


BY_DEFAULT = GangSettings()

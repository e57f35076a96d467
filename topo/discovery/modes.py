"""What the operator chose: which sources build which tiers, and the numbers of the judgement."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, get_args

from topo.discovery.label_families import UNLABELLED, LabelSource
from topo.model.ids import SourceName
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, FABRIC
from topo.model.wire import RECONNECT_S


class Mode(StrEnum):
    """How groups are found; the first three are the vendor's words (`--mode`).

    `config`: the file. `dragonfly`: what the workers see of their peers. `switchbox`: switchboxes
    from the cluster manager, dragonflies inside them from the workers. `nvlink`: what GPUs state,
    clusterUuid, then clique, or Ascend's super pod. `auto`: whatever the workers see. `labels`:
    labels of the cluster's nodes. `fabric`: dumps of a switched fabric.
    """

    CONFIG = "config"
    DRAGONFLY = "dragonfly"
    SWITCHBOX = "switchbox"
    NVLINK = "nvlink"
    AUTO = "auto"
    LABELS = "labels"
    FABRIC = "fabric"


WITHOUT_WORKERS = frozenset({Mode.CONFIG, Mode.LABELS, Mode.FABRIC})
"""Modes that know the groups, and whether a node is Ready, without a worker on it."""

STATING: Mapping[str, SourceName] = {
    "manager": CLUSTER_MANAGER,
    "fabric": FABRIC,
    "labels": CLUSTER_NODES,
    "config": CONFIG_FILE,
}
"""The sources that write groups down, by the words of `--precedence`; workers measure theirs."""
_STATED: Mapping[Mode, tuple[SourceName, ...]] = {
    Mode.CONFIG: (CONFIG_FILE, CLUSTER_NODES),
    Mode.SWITCHBOX: (CLUSTER_MANAGER, CLUSTER_NODES),
    Mode.FABRIC: (FABRIC, CLUSTER_NODES),
}
"""The order of the sources that write groups down where nobody gives another."""


def stated_order(mode: Mode, precedence: tuple[SourceName, ...]) -> tuple[SourceName, ...]:
    """Return the sources that write groups down, the one that is followed first at the front."""
    return precedence or _STATED.get(mode, (CLUSTER_NODES,))


JoinKey = Literal[
    "node_name", "hostname", "internal_ip", "provider_id", "system_uuid", "server_uuid"
]
"""A name under which a worker or Kubernetes knows a node; nothing else could be joined."""
JOIN_KEYS: tuple[str, ...] = get_args(JoinKey)
"""The names under which a manager may know a node, in the order they are tried."""


MISSED = ("gpus", "ports", "links", "nics")
"""The kinds of hardware whose vanishing can make a node NotReady; also the subjects' kinds."""


@dataclass(frozen=True, slots=True)
class DiscoverySettings:
    """The numbers of the judgement. Times in seconds; readings are messages of one worker.

    `beat_s` times `stale_beats` without a word makes a worker stale; `reconnect_s` more where we
    were away, for it waits between its tries to reach us. A subject (a GPU, a link) goes
    down after `bad_readings` in a row and comes up after `good_readings`. A link confirmed for
    `incumbent_s` wins over a newcomer that claims the same server UUID: longer than any restart of
    ours takes, so that two claims met during a restart cancel each other instead of racing. A
    machine that the manager drops, or a label that vanishes, is kept for `machine_forget_s`, a
    silent node or a dead link for `forget_s`, a refused report is listed for `refusal_s`.
    `missed`: the kinds of hardware whose vanishing makes a node NotReady. `labels`: the labels of
    nodes that name groups. `precedence`: the order of the sources that write groups down, empty for
    that of the mode.
    """

    mode: Mode = Mode.CONFIG
    precedence: tuple[SourceName, ...] = ()
    node_number: int = 2
    gpus_per_node: int = 0
    beat_s: float = 10.0
    stale_beats: int = 3
    reconnect_s: float = RECONNECT_S
    missed: tuple[str, ...] = MISSED
    bad_readings: int = 2
    good_readings: int = 3
    join_keys: tuple[str, ...] = JOIN_KEYS
    labels: LabelSource = UNLABELLED
    incumbent_s: float = 60.0
    machine_forget_s: float = 600.0
    forget_s: float = 86_400.0
    refusal_s: float = 60.0

    @property
    def stated(self) -> tuple[SourceName, ...]:
        """The sources that write groups down, in the order in which they are followed.

        Labels are one only where any are read.
        """
        order = stated_order(self.mode, self.precedence)
        return tuple(s for s in order if s != CLUSTER_NODES or self.labels.families)

    @property
    def stale_s(self) -> float:
        """Silence after which a worker counts as stale."""
        return self.beat_s * self.stale_beats

    @property
    def standstill_s(self) -> float:
        """A pause of our own that could make a worker stale which beats as agreed: half of what a
        beat leaves.
        """
        return self.beat_s * max(1, self.stale_beats - 1) / 2

    @property
    def heard_s(self) -> float:
        """Time in which every running worker has spoken, once it can reach us: the longest wait
        between its tries, and a beat.
        """
        return self.reconnect_s + self.beat_s

    @property
    def return_s(self) -> float:
        """Silence after which a worker counts as stale that has not found us since we were away."""
        return self.reconnect_s + self.stale_s

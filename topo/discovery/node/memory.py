"""What of one node survives a restart."""

from dataclasses import dataclass

from topo.model.forest import Reason
from topo.model.ids import ServerUuid
from topo.model.machine import FabricDomain, NodeIdentity


@dataclass(frozen=True, slots=True)
class NodeMemory:
    """One node as last judged.

    `claims` are (server UUID, slot), `slots` (server UUID, further slots, lost ones) of a server
    behind several; a domain without a kind is one of NVLink, as 1.0 wrote it.
    `room` is how many cables the node has, `stale` whether its worker was silent for too long.
    What it has shown at most: GPUs (None where that is not known yet), (GPU, wired link ports),
    (GPU, GPUs reached by fast links), network ports.
    `joined_by`: (adapter, the switch at the end of its cable) by which it is joined to the fabric;
    `were_up`: the adapters that were up, where none of these is known.
    """

    identity: NodeIdentity
    gpus: int
    local: ServerUuid | None
    claims: tuple[tuple[ServerUuid, int], ...]
    room: int
    domain: FabricDomain | None
    stated: tuple[FabricDomain, ...]
    reasons: tuple[tuple[str, str, Reason], ...]
    gpu_type: str = ""
    stale: bool = False
    most_gpus: int | None = None
    most_ports: tuple[tuple[int, int], ...] = ()
    most_links: tuple[tuple[str, int], ...] = ()
    most_nics: int = 0
    slots: tuple[tuple[ServerUuid, tuple[int, ...], tuple[int, ...]], ...] = ()
    joined_by: tuple[tuple[str, str], ...] = ()
    were_up: tuple[str, ...] = ()

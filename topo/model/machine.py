"""The parts of one node, as its worker reports them.

Every class here is a frozen value; pydantic validates the same classes at the wire
(`topo.model.wire`), so the bounds stand beside the fields.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, NamedTuple

from annotated_types import Ge, Le, MaxLen, MinLen

from topo.model.ids import (
    NVLINK_DOMAIN,
    SUPER_POD,
    Bdf,
    BootId,
    GpuUuid,
    NodeName,
    ServerUuid,
)

Text = Annotated[str, MaxLen(256)]
"""A short free text: a model name, a reason."""

MAX_GPUS = 128
"""More entries than any host has: a C600 host shows 16 dies, the largest known box 32."""
MAX_PORTS = 2048
MAX_LINK_ERRORS = 4096
"""Counters of one host; eight GPUs with 18 links and ten kinds each have 1,440."""
MAX_LINK_COUNTS = 2048
"""Counters of one host that are not zero: ten kinds of each link of 8 GPUs and of 16 ports."""
MAX_COUNT = (1 << 53) - 1
"""Of a counter; readers of our JSON have whole numbers up to it (RFC 8259, section 6)."""
MAX_NICS = 256
MAX_NEIGHBOURS = 1024
"""Neighbours that LLDP names: one for each network interface, two while a cable moves."""
MAX_DEVICES = MAX_GPUS + MAX_NICS
"""Rows and columns of a link matrix."""
MAX_NUMA = 1023
"""Linux can be built for 1024 nodes (CONFIG_NODES_SHIFT is at most 10)."""
MAX_MEMORY_BYTES = 1 << 60
"""An EiB; what fits here fits into the 64 bits of whoever reads our JSON."""
MAX_SPEED = 1e6
"""In GT/s or Gb/s; no link has a hundredth."""
MAX_CLIQUE = (1 << 32) - 1
"""`cliqueId` is 32 bits wide (nvml.h, nvmlGpuFabricInfo_v2_t)."""
MAX_SERVERS = 1023
"""An SDID has ten bits for the server of an Ascend super pod."""
MAX_SUPER_POD = 1 << 20
"""NPUs of a super pod; the largest announced one has 15,488."""

NumaNode = Annotated[int, Ge(0), Le(MAX_NUMA)]
Address = Annotated[Bdf, MaxLen(64)]


class LinkKind(StrEnum):
    """How two devices of one host reach each other, in the words of the vendors' legends.

    A word of a later release is `UNKNOWN`: one cell must not cost the rest of a report.
    """

    SELF = "X"
    METAXLINK = "MX"
    NVLINK = "NV"
    HCCS = "HCCS"
    HCCS_SW = "HCCS_SW"
    SIO = "SIO"
    UNIFIED_BUS = "UB"
    ETHERNET = "ETH"
    PIX = "PIX"
    PXB = "PXB"
    PHB = "PHB"
    NUMA_NODE = "NODE"
    SYSTEM = "SYS"
    NONE = "NA"
    UNKNOWN = "?"

    @classmethod
    def _missing_(cls, value: object) -> "LinkKind | None":
        return cls.UNKNOWN if isinstance(value, str) else None


@dataclass(frozen=True, slots=True)
class Link:
    """One cell of a link matrix: its kind, bonded links where counted, and the code as printed."""

    kind: LinkKind
    code: Annotated[str, MaxLen(16)]
    count: Annotated[int, Ge(0), Le(1024)] = 0


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The intra-node link matrix: `links[row][column]`.

    Rows and columns are `gpus` followed by `nics`; a source that prints no NIC rows leaves them
    out, so `len(links)` is `len(gpus)` or `len(gpus) + len(nics)`. `numa` and `cpus` have one entry
    per GPU; `None` and `""` mean that the source did not say. `unknown_codes` counts the cells
    whose code is in no legend known to us.
    """

    gpus: Annotated[tuple[Text, ...], MaxLen(MAX_GPUS)]
    nics: Annotated[tuple[Text, ...], MaxLen(MAX_NICS)]
    links: Annotated[
        tuple[Annotated[tuple[Link, ...], MaxLen(MAX_DEVICES)], ...], MaxLen(MAX_DEVICES)
    ]
    numa: Annotated[tuple[NumaNode | None, ...], MaxLen(MAX_GPUS)] = ()
    cpus: Annotated[tuple[Annotated[str, MaxLen(512)], ...], MaxLen(MAX_GPUS)] = ()
    unknown_codes: Annotated[int, Ge(0), Le(MAX_DEVICES**2)] = 0


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU (or one die, where the vendor counts dies). `healthy=None`: nobody said."""

    index: Annotated[int, Ge(0), Le(MAX_GPUS)]
    uuid: Annotated[GpuUuid, MaxLen(128)] | None = None
    bdf: Address | None = None
    model: Text | None = None
    memory_bytes: Annotated[int, Ge(0), Le(MAX_MEMORY_BYTES)] | None = None
    numa: NumaNode | None = None
    healthy: bool | None = None
    trouble: Text = ""


class PortState(StrEnum):
    """A GPU link port: `unused` is wired to nothing and says nothing about health."""

    UP = "up"
    DOWN = "down"
    UNUSED = "unused"


@dataclass(frozen=True, slots=True)
class LinkPort:
    """One interconnect port of one GPU; `port` counts from 0 as the libraries do.

    A port that is up and has a `trouble` carries data, but not as it should (a degraded link).
    """

    gpu: Annotated[int, Ge(0), Le(MAX_GPUS)]
    port: Annotated[int, Ge(0), Le(1024)]
    state: PortState
    speed_gts: Annotated[float, Ge(0), Le(MAX_SPEED)] | None = None
    width: Annotated[int, Ge(0), Le(1024)] | None = None
    remote: Text | None = None
    trouble: Text = ""


class LinkErrorKind(StrEnum):
    """What a counter of a link counts.

    NVLink to Hopper has the first three, MetaXLink corrected and uncorrected ones, InfiniBand the
    last.
    """

    REPLAY = "replay"
    RECOVERY = "recovery"
    CRC = "crc"
    RECOVERY_FAILED = "recovery-failed"
    MALFORMED_PACKET = "malformed-packet"
    BUFFER_OVERRUN = "buffer-overrun"
    RECEIVE = "receive"
    RECEIVE_REMOTE = "receive-remote"
    RECEIVE_GENERAL = "receive-general"
    LINK_INTEGRITY = "link-integrity"
    TRANSMIT_DISCARD = "transmit-discard"
    EFFECTIVE = "effective"
    SYMBOL = "symbol"
    CORRECTED = "corrected"
    UNCORRECTED = "uncorrected"
    LINK_DOWNED = "link-downed"


@dataclass(frozen=True, slots=True)
class LinkErrors:
    """The errors that a driver has counted on a link of a GPU since it was loaded.

    No part of `NodeFacts`: a count that rises changes nothing about where a node belongs, and each
    rise would be a report.
    """

    gpu: Annotated[int, Ge(0), Le(MAX_GPUS)]
    link: Annotated[int, Ge(0), Le(1024)]
    kind: LinkErrorKind
    count: Annotated[int, Ge(0)]


@dataclass(frozen=True, slots=True)
class PortErrors:
    """The errors that an adapter has counted on one of its ports; no part of `NodeFacts` either."""

    hca: Text
    port: Annotated[int, Ge(0), Le(256)]
    kind: LinkErrorKind
    count: Annotated[int, Ge(0), Le(MAX_COUNT)]


def gpu_link(gpu: int, link: int) -> str:
    """Return the name of a link of a GPU within its node."""
    return f"GPU {gpu} link {link}"


def hca_port(hca: str, port: int) -> str:
    """Return the name of a port of an adapter within its node."""
    return f"{hca} port {port}"


def adapter_of(link: str) -> str:
    """Return the adapter of a link that is named as `hca_port` does; empty for others."""
    return link.rpartition(" port ")[0]


@dataclass(frozen=True, slots=True)
class LinkCount:
    """A counter of errors that is not zero, as a worker reports it beside its facts.

    `link` is the name of a link end within its node, see `gpu_link` and `hca_port`. `kind` is a
    `LinkErrorKind`; a reader passes over words of a later release.
    """

    link: Text
    kind: Text
    count: Annotated[int, Ge(1), Le(MAX_COUNT)]


@dataclass(frozen=True, slots=True)
class Peer:
    """One remote slot of a server: who is at the other end, and whether the connection is up.

    `connected=None` means that the source names the peer but not its state.
    """

    slot: Annotated[int, Ge(1), Le(64)]
    uuid: Annotated[ServerUuid, MaxLen(128)]
    connected: bool | None = None


@dataclass(frozen=True, slots=True)
class ServerPeers:
    """This server's identity on the inter-node links and the servers it sees there."""

    local: Annotated[ServerUuid, MaxLen(128)]
    remotes: Annotated[tuple[Peer, ...], MaxLen(64)] = ()


class FabricKind(StrEnum):
    """What the GPUs of several nodes are joined in, by the kind of the outermost group."""

    NVLINK = NVLINK_DOMAIN
    SUPER_POD = SUPER_POD


class FabricDomain(NamedTuple):
    """(clusterUuid, cliqueId) of an NVLink domain, or `superpod-0` and the rack, if known."""

    cluster: str
    clique: int = 0
    kind: FabricKind = FabricKind.NVLINK
    rack: Text = ""

    def __str__(self) -> str:
        """Return the domain as people write it: `UUID.CLIQUE`, `superpod-0 rack 3`."""
        if self.kind is FabricKind.SUPER_POD:
            return f"{self.cluster} rack {self.rack}" if self.rack else self.cluster
        return f"{self.cluster}.{self.clique}"


@dataclass(frozen=True, slots=True)
class GpuFabric:
    """One GPU's state in the fabric between nodes: NVLink, or that of an Ascend super pod.

    The GPU belongs to a multi-node domain if and only if `state` is `Completed`, `status` is
    `Success` and `cluster_uuid` is set (all zeros is parsed as `None`); health is separate.
    `rack`, `tray` come from platformInfo. Of a super pod `cluster_uuid` is its kind and number,
    `superpod-0`; `server` is the node's index in it, `size` its NPUs.
    """

    gpu: Annotated[int, Ge(0), Le(MAX_GPUS)]
    state: Text
    status: Text = ""
    cluster_uuid: Text | None = None
    clique: Annotated[int, Ge(0), Le(MAX_CLIQUE)] | None = None
    healthy: bool | None = None
    trouble: Text = ""
    rack: Text | None = None
    tray: Text | None = None
    server: Annotated[int, Ge(0), Le(MAX_SERVERS)] | None = None
    size: Annotated[int, Ge(1), Le(MAX_SUPER_POD)] | None = None
    kind: FabricKind = FabricKind.NVLINK

    @property
    def member_of(self) -> FabricDomain | None:
        """The multi-node domain, or None outside one."""
        if self.state != "Completed" or self.status != "Success" or self.cluster_uuid is None:
            return None
        if self.kind is FabricKind.SUPER_POD:
            return FabricDomain(self.cluster_uuid, kind=self.kind, rack=self.rack or "")
        return FabricDomain(self.cluster_uuid, self.clique or 0, self.kind)


@dataclass(frozen=True, slots=True)
class NetworkPort:
    """One InfiniBand or RoCE port of the host; a `virtual` one comes and goes with the pods."""

    hca: Text
    port: Annotated[int, Ge(0), Le(256)]
    up: bool
    state: Text = ""
    phys_state: Text = ""
    rate_gbps: Annotated[float, Ge(0), Le(MAX_SPEED)] | None = None
    link_layer: Text = ""
    node_guid: Text | None = None
    bdf: Address | None = None
    numa: NumaNode | None = None
    virtual: bool = False
    interfaces: Annotated[tuple[Text, ...], MaxLen(16)] = ()
    """What the host calls its network devices: `eth2`. Of an adapter with several ports, of all."""


@dataclass(frozen=True, slots=True)
class NicNeighbour:
    """The device at the other end of a network interface's cable, as it names itself by LLDP.

    `chassis` identifies the device: the kind of its identity and the identity, `mac 1c:34:da:…`.
    `name` is what people call it. `port` is unique within the chassis only.
    """

    nic: Text
    chassis: Text
    name: Text = ""
    port: Text = ""
    port_description: Text = ""


@dataclass(frozen=True, slots=True)
class NodeIdentity:
    """The names under which others may know this node.

    `topo.discovery.modes.JOIN_KEYS` says which of them join it with a manager's machine.
    """

    name: Annotated[NodeName, MinLen(1), MaxLen(253)]
    boot_id: Annotated[BootId, MaxLen(64)]
    hostname: Annotated[str, MaxLen(253)] = ""
    internal_ip: Annotated[str, MaxLen(64)] = ""
    provider_id: Annotated[str, MaxLen(512)] = ""
    system_uuid: Annotated[str, MaxLen(64)] = ""


class ProbeState(StrEnum):
    """`absent` is a source that this host does not have; it says nothing about health."""

    OK = "ok"
    ABSENT = "absent"
    FAILED = "failed"
    TIMED_OUT = "timed-out"


@dataclass(frozen=True, slots=True)
class ProbeHealth:
    """The result of one probe's last run."""

    probe: Text
    state: ProbeState
    detail: Text = ""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """All facts of a worker about its node at one reading."""

    identity: NodeIdentity
    gpus: Annotated[tuple[Gpu, ...], MaxLen(MAX_GPUS)] = ()
    matrix: LinkMatrix | None = None
    ports: Annotated[tuple[LinkPort, ...], MaxLen(MAX_PORTS)] = ()
    peers: ServerPeers | None = None
    fabrics: Annotated[tuple[GpuFabric, ...], MaxLen(MAX_GPUS)] = ()
    nics: Annotated[tuple[NetworkPort, ...], MaxLen(MAX_NICS)] = ()
    nic_neighbours: Annotated[tuple[NicNeighbour, ...], MaxLen(MAX_NEIGHBOURS)] = ()
    probes: Annotated[tuple[ProbeHealth, ...], MaxLen(64)] = ()

"""Facts of a small host, for tests that need some and not which."""

from dataclasses import replace

from topo.model.ids import BootId, NodeName, ServerUuid
from topo.model.machine import (
    Gpu,
    LinkPort,
    NodeFacts,
    NodeIdentity,
    Peer,
    PortState,
    ProbeHealth,
    ProbeState,
    ServerPeers,
)

NODE = NodeName("node-1")
FACTS = NodeFacts(
    NodeIdentity(NODE, BootId("boot-1")),
    gpus=(Gpu(0, healthy=True), Gpu(1, healthy=True)),
    ports=(LinkPort(0, 0, PortState.UP), LinkPort(1, 0, PortState.UP)),
    peers=ServerPeers(ServerUuid("uuid-1"), (Peer(1, ServerUuid("uuid-2")),)),
    probes=(ProbeHealth("mxsml", ProbeState.OK),),
)
CUT = replace(FACTS, peers=ServerPeers(ServerUuid("uuid-1")))
SLOW = replace(FACTS, probes=(ProbeHealth("mxsml", ProbeState.TIMED_OUT),))
EMPTY = NodeFacts(FACTS.identity)
OTHER_BOOT = replace(FACTS, identity=replace(FACTS.identity, boot_id=BootId("boot-2")))

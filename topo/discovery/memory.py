"""What survives a restart: the judgement so far, without the bulk that workers send again."""

from dataclasses import dataclass

from topo.discovery.groups.naming import NameRecord
from topo.discovery.node.memory import NodeMemory
from topo.model.ids import Generation, NodeName
from topo.model.observation import DeclaredForest, ListedNode, ManagedTopology

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Everything that `Discovery.restore` needs; about 500 bytes of JSON a node."""

    format: int
    generation: Generation
    nodes: tuple[NodeMemory, ...]
    links: tuple[tuple[NodeName, NodeName], ...]
    names: tuple[NameRecord, ...]
    topology: ManagedTopology | None
    declared: DeclaredForest | None
    cluster_nodes: tuple[ListedNode, ...] = ()
    label_family: str = ""

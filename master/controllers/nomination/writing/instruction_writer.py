"""Writes the machine's instructions to pods and nodes, and collects the refusals."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter

from master.controllers.nomination.gang_reader import GangReader
from master.controllers.nomination.index import GangIndex
from master.controllers.nomination.metrics import NominationMetrics
from master.controllers.nomination.sources import Sources
from master.controllers.nomination.writing import gang_writes
from master.controllers.nomination.writing.inflight import InflightWrites
from master.controllers.nomination.writing.node_labels import NodeLabels
from master.kube.writing.writer import Settled, Writer
from master.kube.writing.writes import Patch, WriteTarget
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.machine.events import WriteRefused
from topo.gangs.machine.gang import GangId, Selection
from topo.gangs.machine.instructions import OpenInDomain, PodInstruction
from topo.gangs.scale_in import deletion_costs
from topo.model.ids import NodeName


@dataclass(kw_only=True)
class InstructionWriter:
    """Writes the machine's instructions. `wake` starts an iteration that handles a refusal.

    `is_hybrid`: whether a node is of the pool that both kinds of jobs share.
    """

    sources: Sources
    writer: Writer
    keys: AnnotationKeys
    reader: GangReader
    index: GangIndex
    inflight: InflightWrites
    labels: NodeLabels
    metrics: NominationMetrics
    is_hybrid: Callable[[NodeName], bool]
    wake: Callable[[], None]
    clock: Callable[[], float]
    _asked: dict[WriteTarget, GangId] = field(default_factory=dict, init=False)
    _refused: list[WriteRefused] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.writer.listen(gang_writes.PODS_MANAGER, self._pod_settled)
        self.writer.listen(gang_writes.NODES_MANAGER, self._node_settled)

    def write_pods(self, asked: Sequence[PodInstruction]) -> None:
        """Write instructions about pods; one whose domain is not known any more is refused."""
        writes: list[Patch] = []
        asked = [each for each in asked if self._has_domain(each)]
        for gang_id, each_of_gang in groupby(asked, key=attrgetter("id")):
            of_gang, namespace = tuple(each_of_gang), self.reader.namespace(gang_id)
            costs = deletion_costs(of_gang, self.is_hybrid)
            patches = [
                gang_writes.pod_patch(
                    each,
                    namespace,
                    self.keys,
                    deletion_cost=costs.get(each.pod.uid),
                    domain=self._domain(each) if isinstance(each, OpenInDomain) else "",
                )
                for each in of_gang
            ]
            self._asked |= {patch.target: gang_id for patch in patches}
            self.inflight.add(gang_id, *((namespace, patch.target.name) for patch in patches))
            writes += patches
        self.writer.put(*writes)

    def _has_domain(self, asked: PodInstruction) -> bool:
        if not isinstance(asked, OpenInDomain) or self._domain(asked):
            return True
        why = f"node {asked.node} has no label {asked.label} any more"
        self._refuse(WriteRefused(asked.id, asked.pod.uid, why, asked.pod.version))
        return False

    def _domain(self, asked: OpenInDomain) -> str:
        node = self.sources.nodes.objects.get(("", asked.node))
        return node.metadata.labels.get(asked.label, "") if node is not None else ""

    def label(self, gang_id: GangId, wanted: Mapping[NodeName, Selection | None]) -> None:
        """Write gang labels to nodes; None removes a label."""
        self.inflight.add(gang_id, *(("", name) for name in wanted))
        for refused in self.labels.write(gang_id, wanted):
            self.inflight.remove(("", refused.subject))
            self._refused.append(refused)
            self.wake()

    def take_refused(self) -> list[WriteRefused]:
        """Return and clear the writes refused since the last call."""
        refused, self._refused = self._refused, []
        return refused

    def _pod_settled(self, settled: Settled) -> None:
        write = settled.write
        gang_id = self._asked.pop(write.target, None)
        if not isinstance(write, Patch):
            return
        self.inflight.settled(settled, self.sources.pods.objects)
        if settled.error is None:
            if "spec" in write.fields:  # also written by the gate timeout of this process
                self._count_opened(write)
        # A write of the gate timeout is in no table: the machine did not ask for it.
        elif gang_id is not None:
            self.metrics.lost.labels("pod").inc()
            key = write.target.namespace, write.target.name
            self.inflight.refused(gang_id, key, write.version)
            why = settled.error.message
            self._refuse(WriteRefused(gang_id, write.uid, why, write.version))

    def _count_opened(self, write: Patch) -> None:
        how = "planned" if "nodeSelector" in write.fields["spec"] else "unplanned"
        self.metrics.opened.labels(how).inc()
        pod = self.sources.pods.objects.get((write.target.namespace, write.target.name))
        gang = self.reader.known.get(pod.gang_id) if pod is not None else None
        if gang is not None:
            self.metrics.gate_s.observe(max(0.0, self.clock() - gang.created_s))

    def _node_settled(self, settled: Settled) -> None:
        self.inflight.settled(settled, self.sources.nodes.objects)
        if settled.error is not None:
            self.metrics.lost.labels("node").inc()
            for refused in self.labels.refused(settled.write.target, settled.error.message):
                self._refuse(refused)

    def _refuse(self, refused: WriteRefused) -> None:
        self._refused.append(refused)
        self.index.mark(refused.id)
        self.wake()

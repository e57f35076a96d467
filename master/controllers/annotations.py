"""Annotations of nodes for HAMi: how well each pair of GPUs is connected."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

import prometheus_client as prom
import structlog

from master.controllers.controller import ChangedNames
from master.kube.objects import NODES, NodeObject
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.metrics import gauge
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.publish.gpu_annotations import gpu_annotations, is_foreign

MANAGER = f"{MANAGER_PREFIX}annotations"
FRESH_AT_ONCE = 500
"""Nodes whose annotations are computed in one go: about 15 ms, in which the event loop waits."""

_Wanted = Mapping[str, str]
_log = structlog.get_logger(__name__)


@dataclass(eq=False)
class AnnotationComparer:
    """Requests a write for each node whose annotations are not those of its GPUs.

    A node without a report or link matrix keeps its annotations; so does one whose annotations
    another program wrote. `wake` schedules further nodes after other tasks of the event loop.
    """

    nodes: Store[NodeObject]
    writer: Writer
    facts: Callable[[NodeName], NodeFacts | None]
    _: KW_ONLY
    domain: str
    registry: prom.CollectorRegistry
    wake: Callable[..., None]
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""
    _known: dict[str, tuple[NodeFacts, _Wanted | None]] = field(default_factory=dict)
    _foreign: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        gauge(self.registry, "topo_master_foreign_gpu_annotations", lambda: len(self._foreign))
        self._errors = self.errors.scope(ObjectKind.WRITE, "annotations of node")

    async def compare(self, names: ChangedNames) -> None:
        """Request the writes of what differs. O(names), or O(nodes)."""
        present = self.nodes.objects
        if names is None:
            there = {name for _, name in present}
            self._foreign &= there
            self._errors.retain(there)
            self._known = {name: known for name, known in self._known.items() if name in there}
        chosen: Iterable[str] = [name for _, name in present] if names is None else names
        left, later = FRESH_AT_ONCE, list[str]()
        for name in chosen:
            node, facts = present.get(("", name)), self.facts(NodeName(name))
            if node is None or facts is None:
                continue
            known = self._known.get(name)
            if known is None or known[0] is not facts:
                if not left:
                    later.append(name)
                    continue
                left -= 1
            self._errors.run(name, partial(self._compare_with, node, facts))
        if later:
            self.wake(*later)

    def _compare_with(self, node: NodeObject, facts: NodeFacts) -> None:
        """Compare a node with what its facts say, which is computed once."""
        name = node.metadata.name
        known = self._known.get(name)
        if known is None or known[0] is not facts:
            known = self._known[name] = facts, self._wanted(facts)
        if known[1] is not None:
            self._compare(node, known[1])

    def _wanted(self, facts: NodeFacts) -> "_Wanted | None":
        found = gpu_annotations(facts)
        return None if found is None else found.named(self.domain)

    def _compare(self, node: NodeObject, wanted: "_Wanted") -> None:
        name, annotations = node.metadata.name, node.metadata.annotations
        target = WriteTarget(NODES, name)
        if wanted.items() <= annotations.items():
            self._foreign.discard(name)
            self.writer.withdraw(target, MANAGER)
        elif is_foreign(annotations, self.domain):
            self._leave(name)
        else:
            self._foreign.discard(name)
            fields, uid = {"metadata": {"annotations": wanted}}, node.metadata.uid
            self.writer.put(Apply(target=target, manager=MANAGER, uid=uid, fields=fields))

    def _leave(self, name: str) -> None:
        if not self._foreign:
            _log.info(
                "somebody else writes the scores and losses of GPUs; they stay",
                node=name,
                fix="remove both annotations where ours are wanted",
            )
        self._foreign.add(name)
        self.writer.withdraw(WriteTarget(NODES, name), MANAGER)

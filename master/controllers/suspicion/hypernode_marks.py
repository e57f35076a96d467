"""Annotations of our HyperNodes that name the nodes below which cannot be trusted."""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from functools import partial

from master.controllers.controller import ChangedNames
from master.controllers.hypernodes import PRODUCT, managed_by
from master.controllers.suspicion.node_marks import Held
from master.kube.schedulers.hypernodes import HYPERNODES, HyperNodeObject
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.kit.threads import off_loop
from topo.model.forest import Forest
from topo.publish.hypernodes import hypernodes
from topo.publish.suspected_members import suspected_members, suspicion_keys

MANAGER = f"{MANAGER_PREFIX}hypernode-annotations"


@dataclass(eq=False)
class HyperNodeMarkComparer:
    """Requests a write for each HyperNode of ours whose annotations differ.

    They are applied by a manager of their own, so the controller that writes members and labels
    leaves them, and an apply without them takes them away.
    """

    store: Store[HyperNodeObject]
    writer: Writer
    forest: Callable[[], Forest]
    _: KW_ONLY
    held: Held
    domain: str
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""

    def __post_init__(self) -> None:
        self._errors = self.errors.scope(ObjectKind.WRITE, "annotations of HyperNode")

    async def compare(self, _names: ChangedNames) -> None:
        """Request the writes of what differs. O(nodes) in a thread while a node is suspected."""
        if not self.store.synced:
            return
        held, forest = dict(self.held()), self.forest()
        tree = await off_loop(partial(hypernodes, forest)) if held else {}
        wanted = suspected_members(tree, held, self.domain)
        for (_, name), each in self.store.objects.items():
            if each.metadata.labels.get(managed_by(self.domain)) == PRODUCT:
                self._errors.run(name, partial(self._compare, each, wanted.get(name, {})))
        self._errors.retain({name for _, name in self.store.objects})

    def _compare(self, found: HyperNodeObject, wanted: Mapping[str, str]) -> None:
        metadata, keys = found.metadata, suspicion_keys(self.domain)
        target = WriteTarget(HYPERNODES, metadata.name)
        if {k: v for k, v in metadata.annotations.items() if k in keys} == wanted:
            self.writer.withdraw(target, MANAGER)
        else:
            fields = {"metadata": {"annotations": wanted}}
            self.writer.put(Apply(target=target, manager=MANAGER, uid=metadata.uid, fields=fields))

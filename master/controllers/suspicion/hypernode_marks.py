"""Annotations of our HyperNodes that name the nodes below which cannot be trusted."""

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial

from master.controllers.controller import ChangedNames
from master.controllers.hypernodes import PRODUCT, managed_by
from master.controllers.suspicion.node_marks import Held
from master.kube.schedulers.hypernodes import HYPERNODES, HyperNodeObject
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
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

    async def compare(self, _names: ChangedNames) -> None:
        """Request the writes of what differs. O(nodes) in a thread while a node is suspected."""
        if not self.store.synced:
            return
        held, forest = dict(self.held()), self.forest()
        tree = await off_loop(partial(hypernodes, forest)) if held else {}
        wanted = suspected_members(tree, held, self.domain)
        keys = suspicion_keys(self.domain)
        for (_, name), each in self.store.objects.items():
            metadata, target = each.metadata, WriteTarget(HYPERNODES, name)
            if metadata.labels.get(managed_by(self.domain)) != PRODUCT:
                continue
            annotations = wanted.get(name, {})
            if {k: v for k, v in metadata.annotations.items() if k in keys} == annotations:
                self.writer.withdraw(target, MANAGER)
                continue
            fields = {"metadata": {"annotations": annotations}}
            self.writer.put(Apply(target=target, manager=MANAGER, uid=metadata.uid, fields=fields))

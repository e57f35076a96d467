"""A suspected node as Kubernetes shows it: a taint and a condition.

The taint `<domain>/quarantine` keeps every new pod off a node that an operator put in quarantine,
also pods that no master places. `NodeSpec.taints` is one list without keys (`listType=atomic`), so
it is replaced whole, in the version that was read: a taint that somebody adds meanwhile makes the
write a conflict, and the node is looked at again. Ours has a value of ours; one of the same key
with another value is somebody else's, and stays.

The condition has the form of NVSentinel's (`platform_connectors`, `process_node_events.go`, 1.x):
its type is the name of a check, True means unhealthy, the reason is `<check>IsNotHealthy`, and the
message has `<kind>:<name> <text> Recommended Action=<action>` for each entity, ended by `;`. It is
merged by its type and taken away when nothing is suspected, so that nothing of ours stays.

Cost: O(nodes) after a change of the forest, O(1) after one of a node.

Example: n1 has a suspected link and is put in quarantine.
    → taint metax-tech.com/quarantine=topo-master:NoSchedule, condition TopoLinkCheck True
    `topo nodes clear n1` → both go; taints and conditions of others are as they were
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from functools import partial
from typing import Any, Protocol

from master.controllers.controller import ChangedNames
from master.kube.objects import LINK_CHECK, NODES, NodeObject
from master.kube.schema.timestamps import timestamp
from master.kube.store import Store
from master.kube.writing.writer import Writer
from master.kube.writing.writes import MANAGER_PREFIX, Patch, WriteTarget
from master.object_errors import ObjectErrors, ObjectKind
from topo.model.cluster import quarantine_taint
from topo.model.forest import NodeSuspicion
from topo.model.ids import NodeName

AT_ONCE = 500
"""Nodes that are compared before other tasks of the event loop run: about 1 ms."""
UNHEALTHY = f"{LINK_CHECK}IsNotHealthy"
ACTION = "CONTACT_SUPPORT"
"""NVSentinel's word for what a person has to look at."""
MESSAGE_CHARS = 1024
"""As NVSentinel's are."""

Held = Callable[[], Mapping[NodeName, NodeSuspicion]]
"""Returns what is held against nodes, without those against which there is nothing."""


class NodeMark(Protocol):
    """One kind of mark on nodes; `needs_version`: a write is for the node as it was read."""

    @property
    def manager(self) -> str:
        """The field manager of its writes."""
        ...

    @property
    def subresource(self) -> str:
        """The part of a node that has it, empty for the node itself."""
        ...

    @property
    def needs_version(self) -> bool:
        """Whether a write is for the node as it was read, and for no other version."""
        ...

    def difference(self, node: NodeObject, held: NodeSuspicion | None) -> Mapping[str, Any] | None:
        """Return the fields that make the mark what it should be; None where it is."""
        ...


@dataclass(frozen=True, slots=True)
class QuarantineTaint:
    """The taint of a node in quarantine."""

    domain: str
    manager: str = f"{MANAGER_PREFIX}node-taints"
    subresource: str = ""
    needs_version: bool = True

    def difference(self, node: NodeObject, held: NodeSuspicion | None) -> Mapping[str, Any] | None:
        """Return all taints that the node should have, where one of ours is to come or to go."""
        ours = asdict(quarantine_taint(self.domain))
        present = [each.document for each in node.spec.taints]
        others = [each for each in present if each != ours]
        if held is None or held.quarantine is None:
            return _taints(others) if len(others) < len(present) else None
        place = ours["key"], ours["effect"]
        is_taken = any((each["key"], each["effect"]) == place for each in others)
        return None if is_taken or ours in present else _taints([*others, ours])


@dataclass(frozen=True, slots=True)
class LinkCondition:
    """The condition of a node with suspected links; `now` is Unix time by the servers' clock."""

    now: Callable[[], float]
    manager: str = f"{MANAGER_PREFIX}node-conditions"
    subresource: str = "status"
    needs_version: bool = False

    def difference(self, node: NodeObject, held: NodeSuspicion | None) -> Mapping[str, Any] | None:
        """Return the condition as it should be; its removal where no link is suspected."""
        found = next((each for each in node.status.conditions if each.type == LINK_CHECK), None)
        links = held.links if held is not None else ()
        if found is not None and found.reason != UNHEALTHY:
            return None  # it is somebody else's
        if not links:
            return None if found is None else _conditions({"$patch": "delete"})
        message = _message(links)
        if found is not None and (found.status, found.message) == ("True", message):
            return None
        now = timestamp(self.now())
        changed = found is None or found.status != "True"
        return _conditions(
            {
                "status": "True",
                "reason": UNHEALTHY,
                "message": message,
                "lastHeartbeatTime": now,
                **({"lastTransitionTime": now} if changed else {}),
            }
        )


@dataclass(eq=False)
class NodeMarkComparer:
    """Requests a write for each node whose mark differs from what is held against it."""

    nodes: Store[NodeObject]
    writer: Writer
    mark: NodeMark
    _: KW_ONLY
    held: Held
    errors: ObjectErrors = field(default_factory=ObjectErrors)
    """Takes the objects whose comparison raised an error."""

    def __post_init__(self) -> None:
        of = self.mark.manager.removeprefix(MANAGER_PREFIX)
        self._errors = self.errors.scope(ObjectKind.WRITE, f"{of} of node")

    async def compare(self, names: ChangedNames) -> None:
        """Request the writes of what differs; withdraw those that are wanted no more."""
        chosen = [name for _, name in self.nodes.objects] if names is None else list(names)
        for number, name in enumerate(chosen, 1):
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)
            node = self.nodes.objects.get(("", name))
            if node is not None:
                self._errors.run(name, partial(self._compare, node))
        if names is None:
            self._errors.retain(set(chosen))

    def _compare(self, node: NodeObject) -> None:
        name = node.metadata.name
        write = _write(self.mark, node, self.held().get(NodeName(name)))
        if write is not None:
            self.writer.put(write)
        else:
            self.writer.withdraw(WriteTarget(NODES, name), self.mark.manager)


def removals(node: NodeObject, domain: str) -> Iterator[Patch]:
    """Yield the writes that take all marks off a node."""
    for mark in (QuarantineTaint(domain), LinkCondition(lambda: 0.0)):
        if (write := _write(mark, node, None)) is not None:
            yield write


def _write(mark: NodeMark, node: NodeObject, held: NodeSuspicion | None) -> Patch | None:
    fields = mark.difference(node, held)
    if fields is None:
        return None
    return Patch(
        target=WriteTarget(NODES, node.metadata.name),
        manager=mark.manager,
        uid=node.metadata.uid,
        version=node.metadata.resource_version if mark.needs_version else "",
        subresource=mark.subresource,
        fields=fields,
    )


def _taints(wanted: Sequence[Mapping[str, str]]) -> Mapping[str, Any]:
    return {"spec": {"taints": wanted}}


def _conditions(changed: Mapping[str, Any]) -> Mapping[str, Any]:
    return {"status": {"conditions": [{"type": LINK_CHECK, **changed}]}}


def _message(links: Sequence[tuple[str, str]]) -> str:
    """Return the entities that still fit; a `;` ends each, so none is within one."""
    text = ""
    for name, evidence in links:
        about = f"Link:{name or 'several'} {evidence} Recommended Action={ACTION}"
        about = about.replace(";", ",") + ";"
        if len(text) + len(about) > MESSAGE_CHARS:
            break
        text += about
    return text or f"Link:{len(links)} Recommended Action={ACTION};"

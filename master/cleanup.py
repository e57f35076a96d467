"""`topo-master cleanup`: takes away all that masters wrote in the cluster, and nothing else.

It works while masters still run, as they do when a chart is uninstalled, and wins: it takes the
lease first. The leader ends when it sees another holder, by its own rule before the old term is
over, so that term is waited for. Followers, and masters that start anew, respect the new term as
they would any leader's, and go on respecting it for its time when the lease is deleted at the end.

Then the webhook goes: followers would gate pods as long as they run, and nobody would open them.
Gates are opened, and the labels that their pods select go once these are bound.

What is ours is what Kubernetes says we wrote: fields of nodes that a manager of ours owns, and
HyperNodes and ConfigMaps with our label. A field that somebody else owns, too, stays theirs.

It looks again until it finds nothing more, so it may be run again, and ends what an earlier run
began.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import orjson
import structlog

from master.admission import ADMISSION
from master.controllers.hypernodes import PRODUCT, SOURCE_LABEL, managed_by
from master.controllers.nomination import gang_writes
from master.kube.client import Call, Caller, KubeClient, unlimited
from master.kube.errors import KubeError
from master.kube.objects import (
    CONFIG_MAPS,
    HYPERNODES,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    PODS,
    HyperNodeObject,
    KubeObject,
    LeaseObject,
    Metadata,
    PodObject,
    Resource,
    object_path,
    slim,
)
from master.kube.rate import RequestRate
from master.kube.reading import read, read_all
from master.kube.writing.writes import (
    MANAGER_PREFIX,
    Apply,
    Delete,
    Patch,
    Write,
    WriteTarget,
    call_of,
)
from master.replicas.replicas import LEASE
from master.settings import MasterSettings
from topo.gangs import note_codec
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.errors import BadInputError

HOLDER = "topo-master-cleanup"
LIMIT_S = 280.0
"""Helm waits five minutes for a hook by default."""
HOLD_S = 300
"""The term of the lease: longer than all of this takes."""
TERM_S = 15.0
"""The term of a leader, if it is not told to be another one; four times that is waited at most."""
TOGETHER = 16
"""Writes under way at once: nothing else limits how often they ask."""
REPAIR_S = 2.0
"""Within this a master that still writes repairs what is taken away, and each time in twice the
time, as it does with all who change it back."""
SAME_AGAIN = 4
"""Looks that find what was taken away just before: somebody writes it again."""
UNHEARD_S = 2.0
"""Within this every API server has heard that the webhook is gone, and gates nothing more."""
BINDING_S = 20.0
"""Pods that were opened are bound in seconds; labels that they select are waited for so long."""
RETRY_S = 1.0
MOST_NAMED = 5

T = TypeVar("T", bound=KubeObject)

_log = structlog.get_logger(__name__)


class CleanupError(Exception):
    """It is not finished; the text says why, and the next step."""


@slim
class ManagedFields:
    """Which client wrote fields of an object, and by which operation."""

    manager: str = ""
    operation: str = ""


@slim
class OwnedMetadata(Metadata):
    """The metadata of an object with its writers."""

    managed_fields: tuple[ManagedFields, ...] = ()


@slim
class OwnedNode:
    """A node of which the labels and the writers are read."""

    metadata: OwnedMetadata


_OWNED_NODES = Resource("v1", "Node", "nodes", OwnedNode, namespaced=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedCluster:
    """Which cluster is cleaned, and how it is asked. `rate` waits until a request is allowed."""

    client: Caller
    namespace: str
    domain: str
    webhook: str
    """The name of the MutatingWebhookConfiguration."""
    rate: Callable[[], Awaitable[None]] = unlimited

    async def call(self, call: Call) -> bytes:
        """Return the body of the 2xx answer, once the rate allows the call. Raises `KubeError`."""
        await self.rate()
        return await self.client.call(call)

    async def send(self, method: str, path: str, body: object) -> None:
        """Send a document. Raises `KubeError`."""
        content = orjson.dumps(body)
        await self.call(Call(method=method, path=path, body=content, urgent=True, timeout_s=30))

    async def write(self, write: Write) -> None:
        """Send a write; one whose object is gone or replaced counts as done. Raises `KubeError`."""
        try:
            await self.call(call_of(write))
        except KubeError as error:
            if not (error.is_missing or error.is_conflict):
                raise

    async def objects(
        self, resource: Resource[T], namespace: str = "", **query: str
    ) -> tuple[T, ...]:
        """Return all objects of a resource, none where the server lacks the kind."""
        try:
            return await read_all(self, resource, namespace, query=query)
        except KubeError as error:
            if error.is_missing:
                return ()
            raise


@dataclass(slots=True)
class RemovedObjects:
    """What was taken away so far, each once."""

    nodes: set[str] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)
    hypernodes: set[str] = field(default_factory=set)
    config_maps: set[str] = field(default_factory=set)
    selected: set[str] = field(default_factory=set)
    """Nodes that keep a label which a pod selects that nobody has bound yet."""
    leaving: set[str] = field(default_factory=set)
    """Objects that are deleted and wait for a finalizer of somebody else."""

    def __str__(self) -> str:
        stays = (
            f"; {len(self.selected)} nodes keep the label of a gang whose pods wait to be bound:"
            " run again once they run"
        )
        leaving = (
            f"; {', '.join(sorted(self.leaving)[:MOST_NAMED])} is deleted and waits for a finalizer"
            " of somebody else: end what set it, or take it out of metadata.finalizers"
        )
        return (
            f"labels and annotations of {len(self.nodes)} nodes, {len(self.hypernodes)} HyperNodes"
            f" and {len(self.config_maps)} ConfigMaps are taken away, and the lease;"
            f" the gates of {len(self.gates)} pods are open;"
            " Events end by themselves within an hour or so"
            f"{stays if self.selected else ''}{leaving if self.leaving else ''}"
        )


async def command(settings: MasterSettings) -> int:
    """Does it and says so; the exit code.

    0 when nothing of ours is left, 1 when something is, 2 for settings that cannot be used.
    """
    config = settings.kube_config
    if config is None or not settings.pod_namespace:
        missing = "--kubeconfig" if config is None else "--pod-namespace"
        sys.stderr.write(f"error: which cluster and namespace is cleaned? give {missing}\n")
        return 2
    rate = RequestRate(settings.kube_qps, settings.kube_burst).take
    client = KubeClient(config)
    try:
        await client.open()
        found = CleanedCluster(
            client=client,
            namespace=settings.pod_namespace,
            domain=settings.domain,
            webhook=ADMISSION,
            rate=rate,
        )
        sys.stdout.write(f"{await clean_up(found)}\n")
    except BadInputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    except CleanupError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    finally:
        await client.close()
    return 0


async def clean_up(cluster: CleanedCluster, limit_s: float = LIMIT_S) -> RemovedObjects:
    """Takes everything away. Raises `CleanupError` where something is left after `limit_s`."""
    removed, reason = RemovedObjects(), "it took too long"
    steps = [partial(_lead, cluster), partial(_remove_webhook, cluster)]
    steps += [partial(_remove_all, cluster, removed), partial(_await_binding, cluster, removed)]
    steps.append(partial(_remove_lease, cluster))
    try:
        async with asyncio.timeout(limit_s):
            while steps:
                try:
                    await steps[0]()
                except KubeError as error:
                    if not (error.is_passing or error.is_conflict):
                        raise CleanupError(_refused(error)) from error
                    reason = str(error)
                    await asyncio.sleep(max(RETRY_S, error.retry_after_s or 0.0))
                else:
                    del steps[0]
    except TimeoutError:
        raise CleanupError(f"not all is taken away after {limit_s:g} s: {reason}") from None
    return removed


def _refused(error: KubeError) -> str:
    fix = "allow this account what the clean-up needs; see docs/master.md"
    return f"Kubernetes refuses a call: {error.message}; {fix if error.is_denied else 'run again'}"


async def _lead(cluster: CleanedCluster) -> None:
    """Holds the lease; returns when whoever held it before has ended."""
    path = object_path(LEASES, LEASE, cluster.namespace)
    try:
        found = await read(cluster, LEASES, LEASE, cluster.namespace, urgent=True)
    except KubeError as error:
        if not error.is_missing:
            raise
        await cluster.send("POST", path.rpartition("/")[0], _lease(None))
        return
    holder, duration_s = found.spec.holder_identity, found.spec.lease_duration_seconds
    await cluster.send("PUT", path, _lease(found))
    if holder:
        _log.info("the lease is taken; its leader ends", leader=holder)
        # A clean-up that was broken off may have taken it from a leader that still ends.
        wait_s = TERM_S if holder == HOLDER else float(duration_s or 0.0)
        await asyncio.sleep(min(wait_s, 4 * TERM_S))


def _lease(found: LeaseObject | None) -> object:
    """Return the lease held by this command, without the address of its former holder."""
    kept, transitions = {}, 0
    if found is not None:
        kept = {"uid": found.metadata.uid, "resourceVersion": found.metadata.resource_version}
        transitions = found.spec.lease_transitions or 0
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {"name": LEASE, **kept},
        "spec": {
            "holderIdentity": HOLDER,
            "leaseDurationSeconds": HOLD_S,
            "leaseTransitions": transitions + 1,
            "acquireTime": now,
            "renewTime": now,
        },
    }


async def _remove_webhook(cluster: CleanedCluster) -> None:
    """Followers answer it as long as they run: what they gate later nobody would open.

    Where this account may not take it away, masters of this release have none.
    """
    path = object_path(MUTATING_WEBHOOKS, cluster.webhook)
    try:
        await cluster.send("DELETE", path, {})
    except KubeError as error:
        if error.is_missing or error.is_denied:
            return
        raise
    _log.info("the webhook is taken away", name=cluster.webhook)
    await asyncio.sleep(UNHEARD_S)


async def _await_binding(cluster: CleanedCluster, removed: RemovedObjects) -> None:
    """Takes the labels that pods select once these are bound, if that is soon."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BINDING_S):
            while removed.selected:
                await asyncio.sleep(RETRY_S)
                await _remove_from_nodes(cluster, removed, await _waiting_pods(cluster))


async def _remove_all(cluster: CleanedCluster, removed: RemovedObjects) -> None:
    """Looks and takes away until nothing is found, each time after a master would have written."""
    for again in range(SAME_AGAIN):
        await asyncio.sleep(REPAIR_S * 2 ** (again - 1) if again else 0)
        pods = await _waiting_pods(cluster)
        found = await _open_gates(cluster, pods, removed.gates)
        found += await _remove_from_nodes(cluster, removed, pods)
        removed.leaving.clear()
        found += await _remove_hypernodes(cluster, removed)
        found += await _remove_config_maps(cluster, removed)
        if not found:
            return
    fix = "end every topo-master, also those that run with --leader-elect=false, and run again"
    raise CleanupError(f"what is taken away comes again: a master still writes; {fix}")


async def _waiting_pods(cluster: CleanedCluster) -> Sequence[PodObject]:
    """The pods that are not bound yet; none where this account may not know them: then no master
    of this release was allowed to put them anywhere.
    """
    try:
        return await cluster.objects(PODS, fieldSelector="spec.nodeName=")
    except KubeError as error:
        if not error.is_denied:
            raise
        _log.info("pods are not looked at: masters of this release place no gangs")
        return ()


async def _open_gates(cluster: CleanedCluster, pods: Sequence[PodObject], opened: set[str]) -> int:
    """Our gates off, so that nothing waits for who will not come any more."""
    keys = AnnotationKeys(cluster.domain)
    why = note_codec.encode_unplanned("what places gangs was taken away")
    writes = [
        Patch(
            target=WriteTarget(PODS, each.metadata.name, each.metadata.namespace),
            manager=f"{MANAGER_PREFIX}cleanup",
            uid=each.metadata.uid,
            fields={
                "metadata": {"annotations": {keys.placement: why}},
                "spec": gang_writes.without_gate(keys),
            },
        )
        for each in pods
        if any(gate.name == keys.gate for gate in each.spec.scheduling_gates)
    ]
    await _together(cluster, writes)
    opened.update(str(write.target) for write in writes)
    return len(writes)


def _selected(cluster: CleanedCluster, pods: Sequence[PodObject]) -> frozenset[str]:
    """Labels of gangs whose pods are to be bound yet: without them these could go nowhere."""
    prefix = AnnotationKeys(cluster.domain).node_label("")
    keys = (key for pod in pods for key in pod.spec.node_selector)
    return frozenset(key for key in keys if key.startswith(prefix))


async def _remove_from_nodes(
    cluster: CleanedCluster, removed: RemovedObjects, waiting: Sequence[PodObject]
) -> int:
    """Labels of gangs go by their name, whoever wrote them; all else goes with its manager."""
    selected, writes = _selected(cluster, waiting), list[Write]()
    prefix = AnnotationKeys(cluster.domain).node_label("")
    removed.selected.clear()
    for each in await cluster.objects(_OWNED_NODES):
        name, uid = each.metadata.name, each.metadata.uid
        for manager in sorted(_ours(each.metadata.managed_fields) - {gang_writes.NODES_MANAGER}):
            writes.append(Apply(target=WriteTarget(NODES, name), manager=manager, uid=uid))
        labels = {label for label in each.metadata.labels if label.startswith(prefix)}
        if labels & selected:
            removed.selected.add(name)
        if gone := dict.fromkeys(sorted(labels - selected)):
            writes.append(
                Patch(
                    target=WriteTarget(NODES, name),
                    manager=f"{MANAGER_PREFIX}cleanup",
                    uid=uid,
                    fields={"metadata": {"labels": gone}},
                )
            )
    await _together(cluster, writes)
    removed.nodes.update(write.target.name for write in writes)
    return len(writes)


def _ours(managers: Iterable[ManagedFields]) -> set[str]:
    """The managers of this product that own a field by an apply."""
    return {
        each.manager
        for each in managers
        if each.manager.startswith(MANAGER_PREFIX) and each.operation == "Apply"
    }


async def _remove_hypernodes(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    """Parents before their children, so that no tree names what is missing."""
    tiers: dict[int, list[HyperNodeObject]] = {}
    labels = {managed_by(cluster.domain), SOURCE_LABEL}
    for each in await cluster.objects(HYPERNODES):
        if any(each.metadata.labels.get(label) == PRODUCT for label in labels):
            tiers.setdefault(each.spec.tier, []).append(each)
    found = 0
    for tier in sorted(tiers, reverse=True):
        writes = _deletions(HYPERNODES, tiers[tier], removed)
        await _together(cluster, writes)
        removed.hypernodes.update(write.target.name for write in writes)
        found += len(writes)
    return found


async def _remove_config_maps(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    ours = f"{managed_by(cluster.domain)}={PRODUCT}"
    found = await cluster.objects(CONFIG_MAPS, cluster.namespace, labelSelector=ours)
    writes = _deletions(CONFIG_MAPS, found, removed, cluster.namespace)
    await _together(cluster, writes)
    removed.config_maps.update(write.target.name for write in writes)
    return len(writes)


def _deletions(
    resource: Resource[T], found: Iterable[T], removed: RemovedObjects, namespace: str = ""
) -> list[Delete]:
    """Of what is not deleted yet; the rest is told."""
    writes = []
    for each in found:
        metadata = each.metadata
        target = WriteTarget(resource, metadata.name, namespace)
        if metadata.deletion_timestamp:
            removed.leaving.add(str(target))
        else:
            manager = f"{MANAGER_PREFIX}cleanup"
            writes.append(Delete(target=target, manager=manager, uid=metadata.uid))
    return writes


async def _together(cluster: CleanedCluster, writes: Iterable[Write]) -> None:
    """Does the writes, a few at a time; the first one that fails ends it."""
    room = asyncio.Semaphore(TOGETHER)

    async def one(write: Write) -> None:
        async with room:
            await cluster.write(write)

    tasks = [asyncio.ensure_future(one(write)) for write in writes]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _remove_lease(cluster: CleanedCluster) -> None:
    path = object_path(LEASES, LEASE, cluster.namespace)
    try:
        found = (await read(cluster, LEASES, LEASE, cluster.namespace, urgent=True)).metadata
        same = {"uid": found.uid, "resourceVersion": found.resource_version}
        await cluster.send("DELETE", path, {"preconditions": same})
    except KubeError as error:
        if not error.is_missing:
            raise

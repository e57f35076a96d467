"""`topo-master cleanup`: removes everything that masters wrote in the cluster, and nothing else.

It works while masters still run, as they do when a chart is uninstalled: it takes the lease first.
The leader ends when it sees another holder, at the latest at the end of its term, so that term is
awaited. Followers, and masters that start later, respect the new term as any leader's, also for its
time after the lease is deleted at the end.

Then the webhook is removed: followers would gate pods as long as they run, and nothing would open
them. Gates are opened, and the labels that their pods select are removed once these are bound. On
the node of a bound pod its label stays: a kubelet that restarts fails pods whose node lacks it.

Kubernetes records what this product wrote: fields of nodes that a manager of ours owns, and
HyperNodes and ConfigMaps with our label. A field with another owner, too, stays theirs.

It repeats until it finds nothing more, so it may be run again, and completes an earlier run.
"""

import asyncio
import sys
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

import orjson
import structlog

from master.admission import ADMISSION
from master.controllers.hypernodes import PRODUCT, SOURCE_LABEL, managed_by
from master.controllers.nomination.writing import gang_writes
from master.controllers.provisioning.workload_form import is_held, letting_go
from master.controllers.suspicion.node_marks import removals
from master.kube.client import Call, Caller, KubeClient, unlimited
from master.kube.dra.taint_rules import DEVICE_TAINT_RULES
from master.kube.errors import KubeError
from master.kube.objects import (
    CONFIG_MAPS,
    HYPERNODES,
    LEASES,
    MUTATING_WEBHOOKS,
    NODES,
    OWNED_NODES,
    PODS,
    SELECTING_PODS,
    UNFINISHED,
    HyperNodeObject,
    KubeObject,
    LeaseObject,
    Resource,
    SelectingPod,
    WrittenFields,
    object_path,
)
from master.kube.rate import RequestRate
from master.kube.reading import read, read_all
from master.kube.schedulers.node_features import NODE_FEATURES
from master.kube.schedulers.topologies import PUBLISHED_TOPOLOGIES
from master.kube.schedulers.workloads import HELD
from master.kube.writing.removed_objects import RemovedObjects
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
"""The term of the lease: longer than the whole command takes."""
TERM_S = 15.0
"""The default term of a leader; at most four times this is awaited."""
TOGETHER = 16
"""Concurrent writes: nothing else limits their number."""
REPAIR_S = 2.0
"""Within this time a master that still writes restores what was removed, and each time in twice the
time, as for any other client that reverts it."""
SAME_AGAIN = 4
"""Rounds that find what was removed just before: a master writes it again."""
UNHEARD_S = 2.0
"""Within this time every API server knows that the webhook is gone."""
BINDING_S = 20.0
"""Opened pods are bound in seconds; labels that they select are kept for this long."""
RETRY_S = 1.0
_MORE = (DEVICE_TAINT_RULES, *PUBLISHED_TOPOLOGIES, NODE_FEATURES)

T = TypeVar("T", bound=KubeObject)

_log = structlog.get_logger(__name__)


class CleanupError(Exception):
    """The cleanup is not complete; the text has the reason and the next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedCluster:
    """The cluster that is cleaned. `rate` waits until a request is allowed."""

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
        self, resource: Resource[T], namespace: str = "", *, may_lack: bool = False, **query: str
    ) -> tuple[T, ...]:
        """Return all objects of a resource, none where the server lacks the kind.

        With `may_lack` also none without the right to them: no master of the release has one.
        """
        try:
            return await read_all(self, resource, namespace, query=query)
        except KubeError as error:
            if error.is_missing or (may_lack and error.is_denied):
                return ()
            raise


async def command(settings: MasterSettings) -> int:
    """Clean up and print the result; return the exit code.

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
    """Remove everything. Raises `CleanupError` where something is left after `limit_s`."""
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
    """Take the lease; return when its last holder has ended."""
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
    """Remove the webhook: followers answer it, and nothing would open pods that they gate.

    Where this account has no right to it, masters of this release have no webhook.
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
    """Remove the labels that pods select once these are bound, if that is soon."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BINDING_S):
            while removed.selected:
                await asyncio.sleep(RETRY_S)
                await _remove_from_nodes(cluster, removed, await _pods(cluster))


async def _remove_all(cluster: CleanedCluster, removed: RemovedObjects) -> None:
    """Remove everything, in rounds that are further apart than a master's repairs."""
    for again in range(SAME_AGAIN):
        await asyncio.sleep(REPAIR_S * 2 ** (again - 1) if again else 0)
        pods = await _pods(cluster)
        found = await _open_gates(cluster, pods, removed.gates)
        found += await _let_go(cluster, removed.jobs)
        found += await _remove_from_nodes(cluster, removed, pods)
        removed.leaving.clear()
        found += await _remove_hypernodes(cluster, removed)
        found += await _remove_more(cluster, removed)
        found += await _remove_labelled(cluster, removed, CONFIG_MAPS, removed.config_maps)
        if not found:
            return
    fix = "end every topo-master, also those that run with --leader-elect=false, and run again"
    raise CleanupError(f"what is taken away comes again: a master still writes; {fix}")


async def _pods(cluster: CleanedCluster) -> Sequence[SelectingPod]:
    """Return the pods that have not ended; without a right to them no master places gangs."""
    return await cluster.objects(SELECTING_PODS, may_lack=True, **UNFINISHED)


async def _open_gates(
    cluster: CleanedCluster, pods: Sequence[SelectingPod], opened: set[str]
) -> int:
    """Remove our gates: nothing will place these pods any more."""
    keys = AnnotationKeys(cluster.domain)
    why = note_codec.encode_unplanned("what places gangs was taken away")
    writes = [
        Patch(
            target=WriteTarget(PODS, each.metadata.name, each.metadata.namespace),
            manager=f"{MANAGER_PREFIX}cleanup",
            uid=each.metadata.uid,
            fields={
                "metadata": {"annotations": {keys.placement: why}},
                "spec": gang_writes.gate_removal(keys),
            },
        )
        for each in pods
        if any(gate.name == keys.gate for gate in each.spec.scheduling_gates)
    ]
    await _together(cluster, writes)
    opened.update(str(write.target) for write in writes)
    return len(writes)


async def _let_go(cluster: CleanedCluster, jobs: set[str]) -> int:
    """Hold no job before its quota any more."""
    keys = AnnotationKeys(cluster.domain)
    writes = [
        letting_go(
            WriteTarget(resource, each.metadata.name, each.metadata.namespace),
            each.metadata.uid,
            each.metadata.annotations,
            keys,
            manager=f"{MANAGER_PREFIX}cleanup",
        )
        for resource in HELD
        for each in await cluster.objects(resource, may_lack=True)
        if is_held(each.metadata.annotations, keys)
    ]
    await _together(cluster, writes)
    jobs.update(str(write.target) for write in writes)
    return len(writes)


def _selected(prefix: str, pods: Sequence[SelectingPod]) -> Mapping[str, Tally[str]]:
    """Return how many pods select a label of a gang, by their node; "" for those without one.

    Without the label those could run nowhere.
    """
    found: dict[str, Tally[str]] = {}
    for pod in pods:
        keys = (key for key in pod.spec.node_selector if key.startswith(prefix))
        found.setdefault(pod.spec.node_name, Tally()).update(keys)
    return found


async def _remove_from_nodes(
    cluster: CleanedCluster, removed: RemovedObjects, pods: Sequence[SelectingPod]
) -> int:
    """Remove labels of gangs by name, whoever wrote them; everything else by its manager."""
    prefix = AnnotationKeys(cluster.domain).node_label_prefix
    selected, writes = _selected(prefix, pods), list[Write]()
    removed.selected.clear()
    removed.bound.clear()
    for each in await cluster.objects(OWNED_NODES):
        name, uid = each.metadata.name, each.metadata.uid
        for manager in sorted(_ours(each.metadata.managed_fields) - {gang_writes.NODES_MANAGER}):
            writes.append(Apply(target=WriteTarget(NODES, name), manager=manager, uid=uid))
        writes.extend(removals(each, cluster.domain))
        labels = {label for label in each.metadata.labels if label.startswith(prefix)}
        waiting, bound = (selected.get(at, Tally[str]()) for at in ("", name))
        if labels & waiting.keys():
            removed.selected.add(name)
        if number := sum(bound[label] for label in labels):
            removed.bound[name] = number
        if gone := dict.fromkeys(sorted(labels - waiting.keys() - bound.keys())):
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


def _ours(managers: Iterable[WrittenFields]) -> set[str]:
    """Return the managers of this product that own a field by an apply."""
    return {
        each.manager
        for each in managers
        if each.manager.startswith(MANAGER_PREFIX) and each.operation == "Apply"
    }


async def _remove_hypernodes(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    """Delete parents before their children, so that no tree names a missing member."""
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


async def _remove_more(cluster: CleanedCluster, removed: RemovedObjects) -> int:
    """Delete our objects of `_MORE`."""
    found = 0
    for each in _MORE:
        names = set[str]()
        found += await _remove_labelled(cluster, removed, each, names)
        if names:
            removed.more.setdefault(each.kind, set()).update(names)
    return found


async def _remove_labelled(
    cluster: CleanedCluster,
    removed: RemovedObjects,
    resource: Resource[KubeObject],
    names: set[str],
) -> int:
    """Delete the objects that our label marks, of this namespace if they have one; note `names`."""
    ours = f"{managed_by(cluster.domain)}={PRODUCT}"
    namespace = cluster.namespace if resource.namespaced else ""
    may_lack = resource is not CONFIG_MAPS
    found = await cluster.objects(resource, namespace, may_lack=may_lack, labelSelector=ours)
    writes = _deletions(resource, found, removed)
    await _together(cluster, writes)
    names.update(write.target.name for write in writes)
    return len(writes)


def _deletions(resource: Resource[T], found: Iterable[T], removed: RemovedObjects) -> list[Delete]:
    """Return the deletions of what is not deleted yet; record the rest in `removed.leaving`."""
    writes = []
    for each in found:
        metadata = each.metadata
        target = WriteTarget(resource, metadata.name, metadata.namespace)
        if metadata.deletion_timestamp:
            removed.leaving.add(str(target))
        else:
            manager = f"{MANAGER_PREFIX}cleanup"
            writes.append(Delete(target=target, manager=manager, uid=metadata.uid))
    return writes


async def _together(cluster: CleanedCluster, writes: Iterable[Write]) -> None:
    """Send the writes, a few at a time; the first failure ends it."""
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

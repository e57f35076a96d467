"""The command `topo-master cleanup`: its steps, how long they take, and what it tells."""

import asyncio
import sys
from contextlib import suppress
from functools import partial

import structlog

from master.admission import ADMISSION
from master.cleanup.cluster import CleanedCluster
from master.cleanup.gangs import open_gates, release_jobs, unfinished_pods
from master.cleanup.lease import remove_lease, take_lease
from master.cleanup.nodes import remove_from_nodes
from master.cleanup.objects import remove_hypernodes, remove_labelled, remove_published
from master.cleanup.removed_objects import RemovedObjects
from master.kube.client import KubeClient
from master.kube.errors import KubeError
from master.kube.objects import CONFIG_MAPS, MUTATING_WEBHOOKS, object_path
from master.kube.rate import RequestRate
from master.settings import MasterSettings
from topo.model.errors import BadInputError

LIMIT_S = 280.0
"""Helm waits five minutes for a hook by default."""
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

_log = structlog.get_logger(__name__)


class CleanupError(Exception):
    """The cleanup is not complete; the text has the reason and the next step."""


async def clean_up_and_tell(settings: MasterSettings) -> int:
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
    steps = [
        partial(take_lease, cluster),
        partial(_remove_webhook, cluster),
        partial(_remove_all, cluster, removed),
        partial(_await_binding, cluster, removed),
        partial(remove_lease, cluster),
    ]
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


async def _remove_all(cluster: CleanedCluster, removed: RemovedObjects) -> None:
    """Remove everything, in rounds that are further apart than a master's repairs."""
    for again in range(SAME_AGAIN):
        await asyncio.sleep(REPAIR_S * 2 ** (again - 1) if again else 0)
        pods = await unfinished_pods(cluster)
        found = await open_gates(cluster, pods, removed.gates)
        found += await release_jobs(cluster, removed.jobs)
        found += await remove_from_nodes(cluster, removed, pods)
        removed.leaving.clear()
        found += await remove_hypernodes(cluster, removed)
        found += await remove_published(cluster, removed)
        found += await remove_labelled(cluster, removed, CONFIG_MAPS, removed.config_maps)
        if not found:
            return
    fix = "end every topo-master, also those that run with --leader-elect=false, and run again"
    raise CleanupError(f"what is taken away comes again: a master still writes; {fix}")


async def _await_binding(cluster: CleanedCluster, removed: RemovedObjects) -> None:
    """Remove the labels that pods select once these are bound, if that is soon."""
    with suppress(TimeoutError):
        async with asyncio.timeout(BINDING_S):
            while removed.selected:
                await asyncio.sleep(RETRY_S)
                await remove_from_nodes(cluster, removed, await unfinished_pods(cluster))

"""A tenant of one namespace: an account that may make pods and jobs there, and nothing else.

All that it does goes through its own account. What it could not read with that, a uid or the stamps
of a stranger's pods, is given to it: uids and labels are no secrets.
"""

import asyncio
import contextlib
import copy
import itertools
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientError

from tests.e2e.controlplane.client import MERGE, Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, account_access, service_account
from tests.e2e.scheduling.jobs import GPU, WORDS

ACCOUNT = "tenant"
_VERBS = ["create", "get", "list", "watch", "patch", "delete"]
_RULES = (
    {"apiGroups": [""], "resources": ["pods"], "verbs": _VERBS},
    {"apiGroups": ["batch"], "resources": ["jobs"], "verbs": _VERBS},
)
_AGAIN_S = 0.3
"""Between two looks whether pods of the tenant are there still."""
FINALIZER = "example.com/stays"
NOWHERE = {"example.com/no-node-has": "this"}
"""A selector by which no scheduler binds a pod: it waits, and takes no GPU by right."""
_numbers = itertools.count(1)


@dataclass
class Tenant:
    """The tenant's client, its namespace, and how many pods it made."""

    api: Api
    namespace: str
    made: int = 0
    _insists: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def pods(self) -> str:
        """The path of its pods."""
        return f"/api/v1/namespaces/{self.namespace}/pods"

    @property
    def jobs(self) -> str:
        """The path of its Jobs."""
        return f"/apis/batch/v1/namespaces/{self.namespace}/jobs"

    async def pod(self, body: Mapping[str, Any]) -> Any:
        """Make a pod as the webhook leaves it; return what the server made of it."""
        made = await self.api.create(self.pods, body)
        self.made += 1
        return made

    async def open(self, pod: Mapping[str, Any]) -> None:
        """Take all gates off a pod of its own, as whoever may patch it can."""
        path = f"{self.pods}/{pod['metadata']['name']}"
        with contextlib.suppress(ApiError):  # the garbage collector may have taken it
            await self.api.merge(path, {"spec": {"schedulingGates": None}})

    async def job_nobody_runs(self, name: str) -> Mapping[str, Any]:
        """Make a Job that no controller touches; return the reference of a pod to it.

        So its pods are what the tenant makes of them, and the garbage collector leaves them, as
        their owner is there.
        """
        container = {"name": "main", "image": "alpine:3.19"}
        spec = {
            "managedBy": "example.com/nobody",
            "completionMode": "Indexed",
            "completions": 2,
            "parallelism": 2,
            "backoffLimit": 0,
            "template": {"spec": {"restartPolicy": "Never", "containers": [container]}},
        }
        made = await self.api.create(self.jobs, {"metadata": {"name": name}, "spec": spec})
        return reference("batch/v1", "Job", name, made["metadata"]["uid"])

    def insist(self, bodies: Sequence[Any], *, opens: bool) -> None:
        """Make these pods, and make them again whenever one is gone, until the tenant ends."""
        self._insists.append(asyncio.create_task(self._insist(bodies, opens=opens)))

    async def _insist(self, bodies: Sequence[Any], *, opens: bool) -> None:
        while True:
            for body in bodies:
                # A pod of the name may be there still: then there is none to make.
                with contextlib.suppress(ApiError, ClientError, TimeoutError):
                    made = await self.pod(body)
                    if opens:
                        await self.open(made)
            await asyncio.sleep(_AGAIN_S)

    async def relent(self) -> None:
        """Make nothing again any more; raises what ended one that made pods again."""
        tasks, self._insists = self._insists, []
        for task in tasks:
            task.cancel()
        for ended in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def leave(self) -> None:
        """All of its pods and jobs end, with whatever finalizers they have."""
        await self.relent()
        for path in (self.jobs, self.pods):
            for each in await self.api.items(path):
                own = f"{path}/{each['metadata']['name']}"
                with contextlib.suppress(ApiError):
                    if each["metadata"].get("finalizers"):
                        gone: Any = {"metadata": {"finalizers": None}}
                        await self.api.call("PATCH", own, gone, content_type=MERGE)
                    await self.api.delete(own, grace_s=0)


@asynccontextmanager
async def a_tenant(cluster: Cluster, api: Api) -> AsyncIterator[Tenant]:
    """A namespace and its tenant, until the block ends."""
    namespace = f"evil-{next(_numbers)}"
    await api.namespace(namespace)
    await service_account(api, namespace, ACCOUNT, _RULES, is_namespaced=True)
    async with cluster.api(await account_access(cluster, namespace, ACCOUNT)) as own:
        tenant = Tenant(own, namespace)
        try:
            yield tenant
        finally:
            await tenant.leave()


def reference(api_version: str, kind: str, name: str, uid: str) -> dict[str, Any]:
    """Return the reference of a pod to its controller."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": name,
        "uid": uid,
        "controller": True,
    }


def claim(
    owner: Mapping[str, Any] | None,
    index: int,
    annotations: Mapping[str, str],
    *,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> dict[str, Any]:
    """Return a pod that claims an owner, an index in its job, and whatever its annotations say."""
    key = "batch.kubernetes.io/job-completion-index"
    container = {
        "name": "main",
        "image": "alpine:3.19",
        "resources": {"requests": {GPU: "8"}, "limits": {GPU: "8"}},
    }
    return {
        "metadata": {
            "name": f"claim-{next(_numbers)}",
            "annotations": {key: str(index), **annotations},
            "labels": {key: str(index), **(labels or {})},
            "ownerReferences": [] if owner is None else [dict(owner)],
        },
        "spec": {"nodeSelector": dict(NOWHERE), "containers": [container], **spec},
    }


def copied(pod: Mapping[str, Any], **annotations: str) -> dict[str, Any]:
    """Return a pod with all stamps, labels and owners of another one, in the tenant's namespace."""
    metadata, spec = pod["metadata"], pod["spec"]
    kept = {key: copy.deepcopy(metadata.get(key, {})) for key in ("annotations", "labels")}
    container = {
        key: copy.deepcopy(spec["containers"][0][key]) for key in ("name", "image", "resources")
    }
    return {
        "metadata": {
            **kept,
            "name": f"copied-{next(_numbers)}",
            "annotations": {**kept["annotations"], **annotations},
            "ownerReferences": copy.deepcopy(metadata.get("ownerReferences", [])),
        },
        "spec": {
            "schedulerName": spec["schedulerName"],
            "nodeSelector": {**spec.get("nodeSelector", {}), **NOWHERE},
            "containers": [container],
        },
    }


def stamped(size: int, pods: int, pods_per_group: int, offset: int = 0) -> dict[str, str]:
    """Return the annotations of a template that the webhook stamped."""
    return {
        WORDS.size: str(size),
        WORDS.pods: str(pods),
        WORDS.rank_offset: str(offset),
        WORDS.pods_per_group: str(pods_per_group),
    }


def note(gang: str, node: str, group: int = 0, *, name: str = "by-hand") -> dict[str, str]:
    """Return the annotation of a plan that no master wrote, in a master's words."""
    words = {"gang": gang, "node": node, "hold": name, "selection": name, "group": group}
    return {WORDS.placement: json.dumps({**words, "generation": 1, "certified": True})}

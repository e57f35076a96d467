"""Reads a cluster for `topo doctor`: workloads, pods, the lease, rights, HyperNodes.

Each is read once, with the rights of the user; refusals are reported, and the rest is read. Nothing
is written: a review of rights is a question that the API server does not keep.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import orjson

from master.controllers.names import BY_DEFAULT, NAMES
from master.inspection.objects import (
    CLIQUE_LABEL,
    COMPUTE_DOMAIN_LABEL,
    COMPUTE_DOMAINS,
    LABELLED_NODES,
    OWN_DAEMON_SETS,
    OWN_DEPLOYMENTS,
    OWN_PODS,
    Review,
    WorkloadResource,
)
from master.inspection.rights import (
    CERTIFICATES,
    DEVICE_CONFIG_MAP,
    GPU_QUOTA,
    PLACEMENT,
    QUOTA_CONFIG_MAP,
    SHARED_CARDS,
    VOLCANO_CONFIG,
    VOLCANO_CONFIG_MAP,
    Right,
    rights,
)
from master.kube.client import Call, Caller
from master.kube.decoding import decode
from master.kube.errors import KubeError
from master.kube.leader_election.lease_object import LEASES
from master.kube.objects import KubeObject, Resource, collection_path, key_of, object_path
from master.kube.reading import read, read_all
from master.kube.schedulers.hypernodes import HYPERNODES, HyperNodeObject
from master.kube.schema.timestamps import unix_s
from topo.model.rest.cluster import (
    ClusterDocument,
    ComputeDomainsDocument,
    DeniedDocument,
    HyperNodesDocument,
    LeaseDocument,
    PodTrouble,
    WorkloadDocument,
)

MASTER, WORKER = "topo-master", "topo-worker"
_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
_SHOWN = 20
"""Failing pods that are listed one by one."""
_SECOND_LOOK_S = 5.0
"""A leader renews its lease every 2 s."""

T = TypeVar("T", bound=KubeObject)
M = TypeVar("M")


@dataclass(slots=True)
class Inspection:
    """One inspection of one cluster; without a `namespace` it searches all for the master."""

    client: Caller
    namespace: str = ""
    second_look_s: float = _SECOND_LOOK_S
    _problems: list[str] = field(default_factory=list)

    async def inspect(self) -> ClusterDocument:
        """Return the state of the cluster; refusals of the API server are among its problems."""
        namespace = self.namespace or await self._find_namespace()
        if not namespace:
            return ClusterDocument(problems=tuple(self._problems))
        master = await self._one(OWN_DEPLOYMENTS, MASTER, namespace)
        worker = await self._one(OWN_DAEMON_SETS, WORKER, namespace)
        found = ClusterDocument(
            namespace=namespace,
            master=None if master is None else await self._deployment(master),
            worker=None if worker is None else await self._daemon_set(worker),
            lease=await self._lease(namespace),
            flags=() if master is None else master.flags,
            account="" if master is None else master.account,
            denied=None if master is None else await self._denied(master),
            hypernodes=await self._hypernodes(() if master is None else master.flags),
            compute_domains=await self._compute_domains(),
        )
        return replace(found, problems=tuple(self._problems))

    async def _find_namespace(self) -> str:
        query = {"fieldSelector": f"metadata.name={MASTER}"}
        found = await self._all(OWN_DEPLOYMENTS, query=query) or ()
        names = sorted(each.metadata.namespace for each in found)
        if len(names) > 1:
            self._problems.append(f"there is a {MASTER} in each of {', '.join(names)}")
        return names[0] if len(names) == 1 else ""

    async def _deployment(self, found: WorkloadResource) -> WorkloadDocument:
        status = found.status
        counts = (found.spec.replicas, status.updated_replicas, status.ready_replicas)
        return await self._workload(found, "Deployment", counts)

    async def _daemon_set(self, found: WorkloadResource) -> WorkloadDocument:
        status = found.status
        updated = status.updated_number_scheduled
        counts = (status.desired_number_scheduled, updated, status.number_ready)
        return await self._workload(found, "DaemonSet", counts)

    async def _workload(
        self, found: WorkloadResource, kind: str, counts: tuple[int, int, int]
    ) -> WorkloadDocument:
        labels = found.spec.selector.match_labels.items()
        query = {"labelSelector": ",".join(f"{key}={value}" for key, value in labels)}
        pods = await self._all(OWN_PODS, found.metadata.namespace, query) or ()
        troubles = [
            PodTrouble(name=pod.metadata.name, node=pod.spec.node_name, why=pod.why)
            for pod in pods
            if not pod.is_ready
        ]
        wanted, updated, ready = counts
        return WorkloadDocument(
            kind=kind,
            name=found.metadata.name,
            wanted=wanted,
            updated=updated,
            ready=ready,
            images=dict(Counter(image for pod in pods for image in pod.images)),
            troubles=tuple(troubles[:_SHOWN]),
            node_labels=found.spec.template.spec.node_selector,
        )

    async def _lease(self, namespace: str) -> LeaseDocument | None:
        found = await self._one(LEASES, MASTER, namespace)
        if found is None:
            return None
        spec, age_s, renewing = found.spec, None, False
        duration_s = spec.lease_duration_seconds or 0.0
        renewed_s = unix_s(spec.renew_time or "")
        if renewed_s is not None:
            age_s = time.time() - renewed_s
            renewing = 0 <= age_s <= duration_s
            if not renewing:
                # Whose clock is wrong does not matter to one who sees the lease change.
                await asyncio.sleep(self.second_look_s)
                later = await self._one(LEASES, MASTER, namespace)
                renewing = later is not None and later.spec.renew_time != spec.renew_time
        return LeaseDocument(
            name=MASTER,
            holder=spec.holder_identity or "",
            duration_s=duration_s,
            age_s=age_s,
            renewing=renewing,
        )

    async def _denied(self, master: WorkloadResource) -> tuple[DeniedDocument, ...] | None:
        """Return the calls that the master's account may not make; None where that is unknown."""
        namespace, denied = master.metadata.namespace, []
        for right in rights(enabled_parts(master.flags)):
            for verb in right.verbs:
                review = await self._review(right, verb, (namespace, master.account))
                if review is None:
                    return None
                if not review.status.allowed:
                    group = f".{right.group}" if right.group else ""
                    denied.append(
                        DeniedDocument(
                            verb=verb,
                            resource=f"{right.resource.plural}{group}",
                            namespace=right.namespace(namespace),
                            used_for=right.used_for,
                        )
                    )
        return tuple(denied)

    async def _review(self, right: Right, verb: str, account: tuple[str, str]) -> Review | None:
        namespace, name = account
        everybody = "system:serviceaccounts"
        asked = {
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{name}",
                "groups": [everybody, f"{everybody}:{namespace}", "system:authenticated"],
                "resourceAttributes": {
                    "group": right.group,
                    "resource": right.resource.plural,
                    "verb": verb,
                    "namespace": right.namespace(namespace),
                    "name": right.name,
                },
            }
        }
        call = Call(method="POST", path=_REVIEWS, body=orjson.dumps(asked))
        return await self._answer(f"POST {_REVIEWS}", _reviewed(self.client, call))

    async def _hypernodes(self, flags: Sequence[str]) -> HyperNodesDocument | None:
        found = await self._all(HYPERNODES)
        if found is None:
            return None
        label = f"{flag(flags, 'domain') or 'metax-tech.com'}/managed-by"
        ours = [each for each in found if each.metadata.labels.get(label) == MASTER]
        others = [each for each in found if each.metadata.labels.get(label) != MASTER]
        claimed = dict(_nodes(ours))
        overlaps = {node: name for node, name in _nodes(others) if node in claimed}
        names = tuple(sorted(each.metadata.name for each in others))
        return HyperNodesDocument(ours=len(ours), foreign=names, overlaps=overlaps)

    async def _compute_domains(self) -> ComputeDomainsDocument | None:
        """Return where the nodes of NVIDIA's ComputeDomains are; None where there are none."""
        domains = await self._all(COMPUTE_DOMAINS)
        nodes = await self._all(LABELLED_NODES) if domains else None
        if domains is None or nodes is None:
            return None
        names = {each.metadata.uid: "/".join(key_of(each.metadata)) for each in domains}
        found: dict[str, Counter[str]] = {}
        for node in nodes:
            labels = node.metadata.labels
            if (name := names.get(labels.get(COMPUTE_DOMAIN_LABEL, ""))) is not None:
                found.setdefault(name, Counter())[labels.get(CLIQUE_LABEL, "")] += 1
        return ComputeDomainsDocument(cliques={name: dict(each) for name, each in found.items()})

    async def _one(self, resource: Resource[T], name: str, namespace: str) -> T | None:
        path = object_path(resource, name, namespace)
        return await self._answer(f"GET {path}", read(self.client, resource, name, namespace))

    async def _all(
        self, resource: Resource[T], namespace: str = "", query: Mapping[str, str] | None = None
    ) -> tuple[T, ...] | None:
        path = collection_path(resource, namespace)
        call = read_all(self.client, resource, namespace, query=query)
        return await self._answer(f"GET {path}", call)

    async def _answer(self, what: str, answer: Awaitable[M]) -> M | None:
        """Return the answer, or None. What is missing is no problem; a refusal is noted."""
        try:
            return await answer
        except KubeError as error:
            if not error.is_missing:
                self._problems.append(f"{what}: {error.message}")
        return None


async def _reviewed(client: Caller, call: Call) -> Review:
    return decode(Review, await client.call(call))


def flag(flags: Sequence[str], name: str) -> str:
    """Return the last value of a flag written `--name=value`; empty without one."""
    values = [text.partition("=")[2] for text in flags if text.startswith(f"--{name}=")]
    return values[-1] if values else ""


def enabled_parts(flags: Sequence[str]) -> frozenset[str]:
    """Return the parts of a master that these flags leave on, where the chart puts them."""
    elsewhere = flag(flags, "device-config-map") not in {"", DEVICE_CONFIG_MAP}
    found = frozenset() if elsewhere else frozenset({SHARED_CARDS})
    if flag(flags, "placement") not in {"", "off"}:
        is_own = flag(flags, "admission-certificates") in {"", "own"}
        found |= {PLACEMENT, CERTIFICATES} if is_own else {PLACEMENT}
        if flag(flags, "volcano-config-map").rpartition("/")[2] in {"", VOLCANO_CONFIG_MAP}:
            found |= {VOLCANO_CONFIG}
    quota = flag(flags, "gpu-quota-config-map").rpartition("/")[2]
    if flag(flags, "extender") == "on" and quota in {"", QUOTA_CONFIG_MAP}:
        found |= {GPU_QUOTA}
    if not any(text.startswith("--controllers=") for text in flags):
        return found | frozenset(BY_DEFAULT)
    return found | frozenset(NAMES).intersection(flag(flags, "controllers").split(","))


def _nodes(hypernodes: Iterable[HyperNodeObject]) -> Iterable[tuple[str, str]]:
    """Yield the nodes that are members by name, each with its HyperNode."""
    for each in hypernodes:
        for member in each.spec.members:
            if member.type == "Node" and member.selector.exact_match is not None:
                yield member.selector.exact_match.name, each.metadata.name

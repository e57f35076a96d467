"""A cluster and a master that places gangs in it, on a model of the API server."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import prometheus_client as prom

from master.booking.placements import Placements
from master.controllers.nomination.controller import Nomination
from master.kube.objects import NODES, PODS
from master.kube.schedulers.volcano import POD_GROUPS, QUEUES
from tests.controllers.nomination.masters import NODE_NAMES, leading
from tests.controllers.nomination.objects import CREATED, GPU, LABEL, PAIR, gated_pod
from tests.kube.api_model import ApiModel
from tests.publish.forests import VENDOR
from tests.support.kubernetes import node_status
from topo.gangs.stamp import Stamp
from topo.model.forest import Forest


@dataclass
class GangWorld:
    """A cluster of four dragonflies of two nodes, and a master that places gangs in it."""

    api: ApiModel
    placements: Placements
    registry: prom.CollectorRegistry
    nomination: Nomination

    def add_pod(
        self,
        index: int,
        *,
        job: str = "job-1",
        group: str = "",
        stamp: Stamp = PAIR,
        created: str = CREATED,
        **spec: Any,
    ) -> Any:
        """A gated pod of the pair `train`, or of another; of a PodGroup of Volcano, if named."""
        made = gated_pod(index, stamp, uid=job, group=group)
        made["metadata"]["creationTimestamp"] = created
        return self.api.add(
            PODS,
            f"pod-{index}" if job == "job-1" else f"{job}-{index}",
            metadata=made["metadata"],
            spec={**made["spec"], **spec},
            status={"phase": "Pending"},
        )

    def add_queue(self, name: str, **spec: Any) -> None:
        self.api.add(QUEUES, name, metadata={}, spec=spec, status={"state": "Open"})

    def add_group(self, name: str, queue: str) -> None:
        """A PodGroup that Volcano has let in."""
        self.api.add(
            POD_GROUPS,
            name,
            metadata={"namespace": "jobs"},
            spec={"minMember": 2, "queue": queue},
            status={"phase": "Inqueue"},
        )

    def take(self, node: str, by: str = "taker") -> None:
        """Somebody else's pod gets a node."""
        container = {"name": "main", "resources": {"limits": {GPU: "8"}}}
        spec = {"nodeName": node, "containers": [container]}
        status = {"phase": "Running"}
        metadata = {"namespace": "others"}
        self.api.add(PODS, f"{by}-{node}", metadata=metadata, spec=spec, status=status)

    def bind(self, pod: Any) -> None:
        """Its scheduler puts a pod where it is nominated to."""
        name = pod.document["metadata"]["name"]
        at = "/api/v1/namespaces/jobs/pods"
        pod.document["spec"]["nodeName"] = pod.document["status"].pop("nominatedNodeName")
        self.api.touch(at, name)

    def labelled(self) -> set[str]:
        return {name for name, labels in self.api.labels().items() if LABEL in labels}

    def metric(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"topo_master_{name}", labels)

    def holds(self) -> int:
        return len(self.placements.state.bookings)


@asynccontextmanager
async def gang_world(tree: Forest = VENDOR) -> AsyncIterator[GangWorld]:
    """A master that leads, its writes and its watches taking their time."""
    api = ApiModel(delay_s=0.005)
    for name in NODE_NAMES:
        api.add(NODES, name, metadata={"labels": {}}, spec={}, status=node_status())
    async with leading(api, api, tree) as leader:
        yield GangWorld(api, leader.placements, leader.registry, leader.nomination)


def is_open(pod: Any) -> bool:
    return not pod.document["spec"]["schedulingGates"]


def nominated(pod: Any) -> str:
    node: str = pod.document["status"].get("nominatedNodeName", "")
    return node

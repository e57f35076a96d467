"""`topo doctor --kubeconfig` on a real cluster: each situation gets its finding and its next step.

Pods, schedulers, reviews of rights and leases are the real ones; only kubelets are kwok's.
"""

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from master.inspection.cluster import MASTER, WORKER
from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import (
    DEFINITIONS,
    Cluster,
    account_access,
    service_account,
)
from tests.helm.chart import CHART, ON, built_helm, run
from tests.support.waiting import CEILING_S, eventually

Findings = Mapping[str, Mapping[str, str]]
Doctor = Callable[..., Awaitable[Findings]]


@pytest.fixture
def doctor(cluster: Cluster, namespace: str) -> Doctor:
    """Runs the command; its findings by code. `as_user` is another kubeconfig."""

    async def look(*, as_user: Path | None = None, given: str = namespace) -> Findings:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "topo.cli.main", "doctor", "--output=json"),
            f"--kubeconfig={as_user or cluster.files.kubeconfig}",
            f"--namespace={given}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        async with asyncio.timeout(CEILING_S):
            printed, said = await process.communicate()
        assert process.returncode in (0, 1), said.decode()
        document = json.loads(printed)
        assert document["wrong"] == (process.returncode == 1)
        return {finding["code"]: finding for finding in document["findings"]}

    return look


@pytest.fixture
async def release(namespace: str, cluster: Cluster, tmp_path: Path) -> str:
    """The namespace of a release of the chart; its pods come by and by."""
    flags = ("--kubeconfig", str(cluster.files.kubeconfig), "-n", namespace)
    install = ("install", "topo", str(CHART), *flags, *ON)
    done = await asyncio.to_thread(partial(run, built_helm(), *install, home=tmp_path))
    assert done.returncode == 0, done.stderr
    return namespace


async def finding(doctor: Doctor, code: str, words: str = "") -> Mapping[str, str]:
    """Return the finding of this code once the doctor has it with these words in it."""
    found: dict[str, str] = {}

    async def is_found() -> bool:
        found.clear()
        found.update((await doctor()).get(code, {}))
        return bool(found) and words in found["what"]

    await eventually(is_found)
    return found


async def lease(api: Api, namespace: str, *, ago_s: float) -> None:
    """The lease as a leader left it that long ago; one of the future is of a wrong clock."""
    renewed = datetime.now(UTC) - timedelta(seconds=ago_s)
    spec = {
        "holderIdentity": "topo-master-a",
        "leaseDurationSeconds": 15,
        "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
    }
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{MASTER}"
    named = {"metadata": {"name": MASTER}, "spec": spec}
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", **named}
    await api.apply(path, body, manager="test")


async def test_a_cluster_without_the_product_is_told_so(doctor: Doctor) -> None:
    assert "not-installed" in await doctor()
    assert "not-installed" in await doctor(given="")


@pytest.mark.usefixtures("release")
async def test_a_release_is_found_without_its_namespace_and_is_well_once_its_pods_are(
    doctor: Doctor,
) -> None:
    assert "not-installed" not in await doctor(given="")

    async def is_well() -> bool:
        return not {"pods-not-ready", "pods-missing"} & (await doctor()).keys()

    await eventually(is_well)


async def test_a_master_that_no_node_takes_is_told_in_the_schedulers_words(
    doctor: Doctor, api: Api, release: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{release}/deployments/{MASTER}"
    nowhere = {"nodeSelector": {"no-such": "label"}}
    patch = {"spec": {"strategy": {"type": "Recreate", "rollingUpdate": None},
                      "template": {"spec": nowhere}}}  # fmt: skip
    await api.merge(path, patch)
    # Before the scheduler has tried, the pods are told without its words.
    told = await finding(doctor, "pods-not-ready", "nodes are available")
    assert "nodeSelector" in told["next_step"]


async def test_workers_without_a_node_are_told_the_label(
    doctor: Doctor, api: Api, release: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{release}/daemonsets/{WORKER}"
    selector = {"nodeSelector": {"no-such": "label"}}
    await api.merge(path, {"spec": {"template": {"spec": selector}}})
    told = await finding(doctor, "no-nodes-chosen", "no-such=label: no node is chosen")
    (labels,) = re.findall("kubectl label node NODE ([^`]*)`", told["next_step"])
    assert set(labels.split()) == {"metax-tech.com/gpu.installed=true", "no-such=label"}


async def test_masters_and_workers_of_two_releases_are_told(
    doctor: Doctor, api: Api, release: str
) -> None:
    path = f"/apis/apps/v1/namespaces/{release}/daemonsets/{WORKER}"
    container = (await api.get(path))["spec"]["template"]["spec"]["containers"][0]
    container["image"] = container["image"].rpartition(":")[0] + ":0.0.1"
    await api.merge(path, {"spec": {"template": {"spec": {"containers": [container]}}}})
    await finding(doctor, "version-skew", "the workers 0.0.1")


async def test_who_leads_is_judged_by_a_lease_that_moves(
    doctor: Doctor, api: Api, release: str
) -> None:
    """No lease, an old one, one that is renewed, and one renewed by a clock ten minutes ahead."""
    await finding(doctor, "no-leader")
    await lease(api, release, ago_s=60)
    old = await finding(doctor, "lease-expired")
    (age_s,) = re.findall(r"topo-master-a has not renewed its lease for (\d+)", old["what"])
    assert int(age_s) >= 60

    async def is_well() -> bool:
        return not {"no-leader", "lease-expired", "clock-skew"} & (await doctor()).keys()

    async with _renewed(api, release, ago_s=1):
        await eventually(is_well)
    async with _renewed(api, release, ago_s=-600):
        await finding(doctor, "clock-skew")


async def test_a_right_that_is_taken_away_is_told_and_the_roles_of_the_chart_are_whole(
    doctor: Doctor, api: Api, release: str
) -> None:
    """The API server's own judgement of the master's account."""

    async def are_whole() -> bool:
        return "rights-denied" not in await doctor()

    await eventually(are_whole)
    await api.delete(f"/apis/rbac.authorization.k8s.io/v1/namespaces/{release}/roles/{MASTER}")
    denied = await finding(doctor, "rights-denied")
    assert denied["subject"] == f"{release}/{MASTER}"
    assert "helm upgrade" in denied["next_step"]


@pytest.mark.usefixtures("release")
async def test_hypernodes_of_others_are_told_and_those_that_share_a_node_are_wrong(
    doctor: Doctor, api: Api
) -> None:
    path = "/apis/topology.volcano.sh/v1alpha1/hypernodes"

    def hypernode(name: str, node: str, labels: dict[str, str]) -> dict[str, Any]:
        member = {"type": "Node", "selector": {"exactMatch": {"name": node}}}
        return {
            "apiVersion": "topology.volcano.sh/v1alpha1",
            "kind": "HyperNode",
            "metadata": {"name": name, "labels": labels},
            "spec": {"tier": 1, "members": [member]},
        }

    ours = {"metax-tech.com/managed-by": MASTER}
    await api.create(path, hypernode("dragonfly-1", "node-sample1", ours))
    await api.create(path, hypernode("s0", "node-sample5", {}))
    assert (await finding(doctor, "foreign-hypernodes"))["severity"] == "note"
    await api.create(path, hypernode("s1", "node-sample1", {}))
    await finding(doctor, "hypernode-overlap", "node-sample1 (s1)")


async def test_who_may_see_little_is_told_what_could_not_be_looked_at(
    doctor: Doctor, api: Api, cluster: Cluster, release: str, tmp_path: Path
) -> None:
    """A user of the cluster, not its administrator."""
    rules = [{"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["get"]}]
    await service_account(api, release, "reader", rules)
    access = await account_access(cluster, release, "reader")
    found = await doctor(as_user=access.kubeconfig(tmp_path / "kubeconfig"))
    assert found.keys() >= {"rights-unknown", "not-read", "not-asked"}
    assert "not-installed" not in found


async def test_a_kubeconfig_of_another_world_is_a_refusal_with_a_next_step(tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text("apiVersion: v1\nkind: Config\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "topo.cli.main", "doctor", f"--kubeconfig={path}"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    assert process.returncode == 3
    assert "there is no current context" in said.decode()
    assert "next: " in said.decode()
    assert "Traceback" not in said.decode()


@asynccontextmanager
async def _renewed(api: Api, namespace: str, *, ago_s: float) -> AsyncIterator[None]:
    """A leader that renews its lease each second, by a clock that is this much behind."""

    async def renew() -> None:
        while True:
            await lease(api, namespace, ago_s=ago_s)
            await asyncio.sleep(1)

    await lease(api, namespace, ago_s=ago_s)
    renewing = asyncio.create_task(renew())
    try:
        yield
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)


async def test_a_compute_domain_in_two_cliques_is_found_by_the_labels_of_its_nodes(
    doctor: Doctor, api: Api, release: str
) -> None:
    """The kind of objects is NVIDIA's; the labels are those of its driver and of its discovery."""
    group = "resource.nvidia.com"
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1beta1", "served": True, "storage": True}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"computedomains.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"kind": "ComputeDomain", "plural": "computedomains"},
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    await api.create(DEFINITIONS, definition)
    path = f"/apis/{group}/v1beta1/namespaces/{release}/computedomains"
    kind = {"apiVersion": f"{group}/v1beta1", "kind": "ComputeDomain"}
    made = {**kind, "metadata": {"name": "train"}}

    async def is_made() -> bool:
        try:
            await api.create(path, made)
        except ApiError:
            return False
        return True

    await eventually(is_made)
    uid = (await api.get(f"{path}/train"))["metadata"]["uid"]
    nodes = [each["metadata"]["name"] for each in await api.items("/api/v1/nodes")][:2]
    for clique, node in enumerate(nodes):
        labels = {f"{group}/computeDomain": uid, "nvidia.com/gpu.clique": f"u.{clique}"}
        await api.merge(f"/api/v1/nodes/{node}", {"metadata": {"labels": labels}})
    try:
        told = await finding(doctor, "compute-domain-split")
        assert "u.0 (1 node), u.1 (1 node)" in told["what"]
    finally:
        await api.delete(f"{DEFINITIONS}/computedomains.{group}")

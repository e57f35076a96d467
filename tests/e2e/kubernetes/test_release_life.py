"""A release from install to end, its pods real: what users do with helm, and what is left."""

import asyncio
import base64
from pathlib import Path

from tests.e2e.controlplane.audit import Call
from tests.e2e.controlplane.cleanup import Baseline, Kept
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.release import ALONE, WAIT, Release
from tests.helm.chart import CHART, NAMESPACE, Allowed, allowed
from tests.support.waiting import eventually
from topo.sim.clustermanager.certificates import Authority

SELDOM = {
    ("", "topology.volcano.sh", "hypernodes", "patch"),
    ("", "topology.volcano.sh", "hypernodes", "delete"),
    ("own", "", "configmaps", "patch"),
    *(
        (where, "events.k8s.io", "events", verb)
        for where in ("own", "default")
        for verb in ("create", "patch")
    ),
    ("own", "apps", "deployments", "get"),
}
"""What masters do only when groups change, cables are cut, sources or a kept state are lost."""
NAMES = ("topo-master-service", "topo-master-reports")
SCORES = "metax-tech.com/gpu.topology.scores"
ANSWERS = {"labelSelector": "app.kubernetes.io/name=topo-master-answers"}


async def test_helm_test_passes_once_the_tree_is_served(release: Release) -> None:
    await release.install(*ALONE)
    await _test(release)


async def test_with_a_certificate_workers_and_readers_speak_tls(
    release: Release, tmp_path: Path
) -> None:
    """Helm waits until the master is ready, which it is once workers have reported."""
    secret = {"metadata": {"name": "tls"}, "data": _certificate(tmp_path / "authority")}
    await release.api.create(f"/api/v1/namespaces/{release.namespace}/secrets", secret)
    await release.install(*ALONE, "--set", "topoDiscovery.tls.secret=tls")
    await _test(release)
    assert await release.node_group() is None, "the API answers without TLS"


async def test_an_upgrade_and_a_rollback_interrupt_no_reader(release: Release) -> None:
    await release.install()
    answers = list[bool]()

    async def read() -> None:
        while True:
            answers.append(await release.node_group() is not None)
            await asyncio.sleep(0.05)

    reader = asyncio.create_task(read())
    change = ("--set", "topoDiscovery.master.groupMetrics=true")
    await release.helm("upgrade", release.name, str(CHART), *release.values, *change, *WAIT)
    await release.helm("rollback", release.name, "1", *WAIT)
    reader.cancel()
    await asyncio.wait({reader})
    assert all(answers), f"{answers.count(False)} of {len(answers)} were not answered"


async def test_what_masters_wrote_goes_with_the_release(
    release: Release, cluster: Cluster, api: Api, baseline: Baseline
) -> None:
    """Two masters run while the clean-up works; each account does no more than its role allows."""
    nodes = await _metadata(api)
    await release.install()
    await eventually(lambda: _is_published(api))

    def refused(account: str) -> list[Call]:
        return [call for call in cluster.calls(account) if call.status in (401, 403)]

    assert refused(f"{release.namespace}:topo-master") == []
    granted = {_kind(each, NAMESPACE) for each in allowed("vendor", "topo-master")}
    await eventually(lambda: granted - _asked(cluster, release.namespace) <= SELDOM)
    assert _asked(cluster, release.namespace) <= granted
    assert cluster.calls(f"{release.namespace}:topo-worker") == []
    await release.helm("uninstall", release.name, *WAIT)

    await release.remove_authority()

    async def nothing_is_left() -> bool:
        left = [each for each in await baseline.added(api) if not _stays(each)]
        return not left and await _metadata(api) == nodes

    await eventually(nothing_is_left)
    account = f"{release.namespace}:topo-master-cleanup"
    assert refused(account) == []
    assert {call.verb for call in cluster.calls(account)} == {
        *("list", "patch", "get", "update", "delete")
    }


def _asked(cluster: Cluster, namespace: str) -> set[tuple[str, ...]]:
    """What the masters of a namespace have asked for until now."""
    asked = cluster.calls(f"{namespace}:topo-master")
    return {_kind(call, namespace) for call in asked if call.resource}


def _kind(call: Allowed | Call, own: str) -> tuple[str, ...]:
    where = "own" if call.namespace == own else call.namespace
    return where, call.group, call.resource, call.verb


async def _is_published(api: Api) -> bool:
    """Whether every node says where it belongs, and every group is a HyperNode."""
    found = [node["metadata"] for node in await api.items("/api/v1/nodes")]
    placed = [each for each in found if "metax-tech.com/switchbox" in each["labels"]]
    scored = [each for each in found if SCORES in each.get("annotations", {})]
    hypernodes = await api.items("/apis/topology.volcano.sh/v1alpha1/hypernodes")
    return (len(placed), len(scored), len(hypernodes)) == (16, 16, 12)


async def _metadata(api: Api) -> dict[str, tuple[object, object]]:
    """Labels and annotations of each node."""
    found = [node["metadata"] for node in await api.items("/api/v1/nodes")]
    return {each["name"]: (each.get("labels"), each.get("annotations")) for each in found}


def _stays(each: Kept) -> bool:
    """Whether it is the test's own namespace, what Kubernetes puts there, or ends by itself."""
    own = ("/serviceaccounts/default", "/configmaps/kube-root-ca.crt")
    return each.path.endswith(own) or each.collection.endswith(("/namespaces", "/events"))


async def _test(release: Release) -> None:
    """`helm test` asks for the tree, and leaves no pod."""
    told = await release.helm("test", release.name, *WAIT[1:])
    assert told.count("Phase:          Succeeded") == 1
    assert await release.api.items(f"/api/v1/namespaces/{release.namespace}/pods", **ANSWERS) == []


def _certificate(folder: Path) -> dict[str, str]:
    """The data of a Secret, as cert-manager makes it for the names of both Services."""
    authority = Authority.at(folder)
    certificate, key = authority.leaf("topo-master", *NAMES)
    files = {"tls.crt": certificate, "tls.key": key, "ca.crt": authority.certificate_file}
    return {name: base64.b64encode(file.read_bytes()).decode() for name, file in files.items()}

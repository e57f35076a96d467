"""Releases from their first command to their last, their pods real, and what is left of them."""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from master.kube.schedulers.jobs import SIZED_KINDS
from tests.clustermanager.control import command
from tests.e2e.controlplane.admission import is_trusted
from tests.e2e.controlplane.audit import Call
from tests.e2e.controlplane.cleanup import Baseline, Kept
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import DEFINITIONS, Cluster, define, establish
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import ALONE, WAIT, Release
from tests.e2e.kubernetes.agreement import HYPERNODES, disagreements, of_document
from tests.e2e.scheduling.asking import batch_job
from tests.e2e.scheduling.jobs import BATCH_JOBS, are_as_planned, are_whole, bound, pods_of
from tests.helm.chart import CHART, NAMESPACE, Allowed, allowed
from tests.support.waiting import eventually, eventually_nothing
from topo.gangs.job_kinds.job_kind import JobKind
from topo.sim.certificates import Authority
from topo.sim.clustermanager.faults import ManagerFaultKind

SELDOM = {
    ("", "topology.volcano.sh", "hypernodes", "patch"),
    *((where, "events.k8s.io", "events", "patch") for where in ("own", "default", "")),
    *(("", "topo.metax-tech.com", "gangs", verb) for verb in ("create", "patch", "delete")),
}
"""What masters do when people edit what they wrote, sources are lost, cables are cut, a gang does
not fit, and an object of no gang is there."""
OFTEN = (
    *("--set", "topoDiscovery.switchbox.clusterManagerPollTopoPeriod=2"),
    *("--set", "topoDiscovery.switchbox.clusterManagerPollEventPeriod=1"),
)
QUEUED = ("podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh")
"""What a master reads of Volcano, where it is there when that master starts."""
DEFINED_KINDS = tuple(kind for kind in SIZED_KINDS if "." in kind.group)
"""Kinds of jobs of others, of which it reads their sizes where they are there."""
NAMES = ("topo-master-service", "topo-master-reports")
SCORES = "metax-tech.com/gpu.topology.scores"
GANGS = "/apis/topo.metax-tech.com/v1alpha1/namespaces/{}/gangs"
ANSWERS = {"labelSelector": "app.kubernetes.io/name=topo-master-answers"}


async def test_a_release_is_installed_tested_upgraded_rolled_back_and_leaves_nothing(
    release: Release, cluster: Cluster, api: Api, baseline: Baseline, namespace: str
) -> None:
    """Two masters run while the clean-up works; each account does all that its role allows, and
    no more.
    """
    master = f"{release.namespace}:topo-master"
    written = await _written(api)
    await release.install(*OFTEN)
    await eventually_nothing(lambda: _unlike(release, "switchbox"))
    await eventually_nothing(lambda: _unscored(api))
    await _place_a_pair(release, api)
    async with _what_is_seldom(release, api, namespace):
        await eventually_nothing(lambda: _unasked(frozenset(SELDOM), cluster, release.namespace))
    await _test(release)

    await define(api, *QUEUED)
    await establish(api, [_definition(kind) for kind in DEFINED_KINDS])
    flat = ("--set", "topoDiscovery.mode=dragonfly")
    await release.helm("upgrade", release.name, str(CHART), *release.values, *flat, *WAIT)
    await eventually_nothing(lambda: _unlike(release, "dragonfly"))
    await release.helm("rollback", release.name, "1", *WAIT)
    await eventually_nothing(lambda: _unlike(release, "switchbox"))
    granted = {_kind(each, NAMESPACE) for each in allowed("vendor", "topo-master")}
    await eventually_nothing(lambda: _unasked(frozenset(granted), cluster, release.namespace))
    assert _denied(cluster, master) == []
    for definition in (*QUEUED, *(f"{kind.resource}.{kind.group}" for kind in DEFINED_KINDS)):
        await api.delete(f"{DEFINITIONS}/{definition}")
    await release.helm("uninstall", release.name, *WAIT)
    await release.remove_authority()
    await eventually_nothing(lambda: _left(api, baseline))
    assert await _written(api) == written
    assert _asked(cluster, release.namespace) <= granted
    assert _denied(cluster, f"{master}-cleanup") == []
    assert cluster.calls(f"{release.namespace}:topo-worker") == []
    verbs = {call.verb for call in cluster.calls(f"{master}-cleanup")}
    assert verbs == {"list", "patch", "get", "update", "delete"}


def _definition(kind: JobKind) -> dict[str, Any]:
    """A definition of a kind of job, whose objects may have any fields."""
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": kind.version, "served": True, "storage": True}
    names = {"plural": kind.resource, "singular": kind.kind.lower(), "kind": kind.kind}
    return {
        "metadata": {"name": f"{kind.resource}.{kind.group}"},
        "spec": {
            "group": kind.group,
            "scope": "Namespaced",
            "names": names,
            "versions": [{**version, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def test_with_a_certificate_workers_and_readers_speak_tls(
    release: Release, tmp_path: Path
) -> None:
    """Helm waits until the master is ready, which it is once workers have reported."""
    secret = {"metadata": {"name": "tls"}, "data": _certificate(tmp_path / "authority")}
    await release.api.create(f"/api/v1/namespaces/{release.namespace}/secrets", secret)
    await release.install(*ALONE, "--set", "topoDiscovery.tls.secret=tls")
    await _test(release)
    assert await release.node_group() is None, "the API answers without TLS"


async def _place_a_pair(release: Release, api: Api) -> None:
    """A batch Job that asks for one group gets one dragonfly, in a cluster without Volcano."""
    await eventually(lambda: is_trusted(api))
    await api.create(BATCH_JOBS, batch_job("pair", 2, 16))
    await eventually(lambda: bound(api, "pair", 2))
    pods = await pods_of(api, "pair")
    assert are_as_planned(pods, 2)
    assert are_whole(release.hosts.world, "dragonfly", [each.node for each in pods], 2)
    await api.delete(f"{BATCH_JOBS}/pair")
    logs = [pod.log for pod in release.kubelet.pods("topo-master")]
    lacking = [log.count('"resource":"podgroups"') for log in logs]
    assert max(lacking) == 1, "said once, or not at all"


@asynccontextmanager
async def _what_is_seldom(release: Release, api: Api, namespace: str) -> AsyncIterator[None]:
    """Do what each of `SELDOM` answers: a cut, an edit, a failed source, a gang that never fits, an
    object of no gang, which Kubernetes leaves to the master as no job owns it.
    """
    jobs, manager = BATCH_JOBS.replace("default", namespace), release.manager.directory
    release.hosts.cut("node-sample1")
    edited, *_ = await api.items(HYPERNODES)
    await api.merge(f"{HYPERNODES}/{edited['metadata']['name']}", {"spec": {"tier": 7}})
    await command(manager, "PUT", "/faults", {"kind": ManagerFaultKind.ERROR})
    await api.create(jobs, batch_job("never", 10, 16))
    gang = {"apiVersion": "topo.metax-tech.com/v1alpha1", "kind": "Gang"}
    await api.create(GANGS.format(namespace), gang | {"metadata": {"name": "orphan"}})
    yield
    await api.delete(f"{jobs}/never")
    await command(manager, "DELETE", "/faults")
    release.hosts.heal()


async def _unlike(release: Release, root: str) -> list[str]:
    """What is not as it should be: roots of this kind above all dragonflies, all saying so."""
    document = await release.node_group() or ()
    if (kinds := {vertex["kind"] for vertex in document}) != {root}:
        return [f"the roots are {kinds}"]
    hosts = release.hosts.world.nodes
    missing = len({host.dragonfly for host in hosts}) - len(_dragonflies(document))
    return [f"{missing} dragonflies are missing"] if missing else await disagreements(release)


def _dragonflies(document: Any) -> list[str]:
    return [name for kind, name, _ in of_document(document).groups if kind == "dragonfly"]


async def _unscored(api: Api) -> list[str]:
    """The nodes whose GPUs have no scores."""
    found = [node["metadata"] for node in await api.items(NODES)]
    return [each["name"] for each in found if SCORES not in each.get("annotations", {})]


async def _left(api: Api, before: Baseline) -> Sequence[str]:
    return sorted(each.path for each in await before.added(api) if not _stays(each))


def _stays(each: Kept) -> bool:
    """Whether it is the test's own namespace, what Kubernetes puts there, or ends by itself."""
    own = ("/serviceaccounts/default", "/configmaps/kube-root-ca.crt")
    return each.path.endswith(own) or each.collection.endswith(("/namespaces", "/events"))


async def _written(api: Api) -> dict[str, tuple[object, object]]:
    """Labels and annotations of each node."""
    found = [node["metadata"] for node in await api.items(NODES)]
    return {each["name"]: (each.get("labels"), each.get("annotations")) for each in found}


async def _unasked(
    rights: frozenset[tuple[str, ...]], cluster: Cluster, namespace: str
) -> list[tuple[str, ...]]:
    """Return the rights that no master of a namespace has used until now."""
    return sorted(rights - _asked(cluster, namespace))


def _asked(cluster: Cluster, namespace: str) -> set[tuple[str, ...]]:
    """What the masters of a namespace have asked for until now.

    An apply that makes its object is a patch that needs the right to create, too.
    """
    asked = [call for call in cluster.calls(f"{namespace}:topo-master") if call.resource]
    made = [
        call._replace(verb="create")
        for call in asked
        if call.verb == "patch" and call.status == 201
    ]
    return {_kind(call, namespace) for call in (*asked, *made)}


def _kind(call: Allowed | Call, own: str) -> tuple[str, ...]:
    """Where, group, resource, verb; elsewhere, for pods and gangs, it is a right in the cluster."""
    places = (
        {} if call.resource.startswith(("pods", "gangs")) else {own: "own", "default": "default"}
    )
    return places.get(call.namespace, ""), call.group, call.resource, call.verb


def _denied(cluster: Cluster, account: str) -> list[Call]:
    """What the account was refused until now; once helm takes its rights away that is no fault."""
    return [call for call in cluster.calls(account) if call.status in (401, 403)]


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

"""A release from install to end, its pods real: what users do with helm, and what is left."""

import base64
from pathlib import Path

from tests.e2e.controlplane.release import ALONE, WAIT, Release
from topo.sim.clustermanager.certificates import Authority

NAMES = ("topo-master-service", "topo-master-reports")
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

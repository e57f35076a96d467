"""A release from install to end, its pods real: what users do with helm, and what is left."""

from tests.e2e.controlplane.release import ALONE, WAIT, Release


async def test_helm_test_passes_once_the_tree_is_served(release: Release) -> None:
    await release.install(*ALONE)
    told = await release.helm("test", release.name, *WAIT[1:])
    assert told.count("Phase:          Succeeded") == 1
    assert await release.api.items(f"/api/v1/namespaces/{release.namespace}/pods", **ANSWERS) == []


ANSWERS = {"labelSelector": "app.kubernetes.io/name=topo-master-answers"}

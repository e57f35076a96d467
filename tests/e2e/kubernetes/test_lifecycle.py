"""A release from its first command to its last, its pods real."""

from typing import Any

from tests.e2e.controlplane.cleanup import Baseline
from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import WAIT, Release
from tests.e2e.kubernetes.agreement import HYPERNODES, disagreements, of_document
from tests.helm.chart import CHART
from tests.support.waiting import eventually


async def test_a_release_is_installed_tested_upgraded_rolled_back_and_leaves_nothing(
    release: Release, api: Api
) -> None:
    before, written = await Baseline.of(api), await _written(api)
    await release.install()
    await eventually(lambda: _shows(release, "switchbox"))
    assert "Phase:          Succeeded" in await release.helm("test", release.name, *WAIT[1:])

    flat = ("--set", "topoDiscovery.mode=dragonfly")
    await release.helm("upgrade", release.name, str(CHART), *release.values, *flat, *WAIT)
    await eventually(lambda: _shows(release, "dragonfly"))
    await release.helm("rollback", release.name, "1", *WAIT)
    await eventually(lambda: _shows(release, "switchbox"))

    await release.helm("uninstall", release.name, *WAIT)
    await release.remove_authority()
    await eventually(lambda: _is_bare(api, before))
    assert await api.items(HYPERNODES) == []
    assert await _written(api) == written


async def _shows(release: Release, root: str) -> bool:
    """Whether the roots are of this kind, and labels and HyperNodes say the same."""
    document = await release.node_group() or ()
    if {vertex["kind"] for vertex in document} != {root} or len(_dragonflies(document)) != 8:
        return False
    return not await disagreements(release)


def _dragonflies(document: Any) -> list[str]:
    return [name for kind, name, _ in of_document(document).groups if kind == "dragonfly"]


async def _is_bare(api: Api, before: Baseline) -> bool:
    """Whether nothing is there that was not, but for what is told of the past."""
    added = await before.added(api)
    return not [each for each in added if not each.collection.endswith("/events")]


async def _written(api: Api) -> Any:
    """What is written on the nodes."""
    return {
        node["metadata"]["name"]: [node["metadata"].get(each) for each in ("labels", "annotations")]
        for node in await api.items(NODES)
    }

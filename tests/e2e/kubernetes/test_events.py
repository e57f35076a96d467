"""Our Events on the real API server: their form is taken, and what repeats is one Event."""

import json
from functools import partial

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.controlplane.release import ALONE, Release
from tests.support.waiting import eventually
from topo.model.ids import NodeName
from topo.publish.event_series import EventSeries, Regarding, Reporter, Told
from topo.publish.node_events import Occurrence

LOSSES = "metax-tech.com/gpu.topology.losses"
T0 = 1_800_000_000.5


def series() -> EventSeries:
    return EventSeries(Reporter("topo-master", "topo-master-0"))


async def written(api: Api, told: Told) -> None:
    """As the writer does it: server-side apply of the whole Event."""
    path = f"/apis/events.k8s.io/v1/namespaces/{told.namespace}/events/{told.name}"
    head = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    metadata = {"name": told.name, "namespace": told.namespace}
    body = {**head, "metadata": metadata, **told.fields}
    await api.apply(path, body, manager="topo-master/events")


async def of_object(api: Api, about: Regarding) -> list[dict[str, object]]:
    """What `kubectl describe` shows of the object: by its uid, in the core API."""
    chosen = f"involvedObject.name={about.name},involvedObject.uid={about.uid}"
    path = f"/api/v1/namespaces/{about.event_namespace}/events"
    found = await api.items(path, fieldSelector=chosen)
    return [each for each in found if each.get("reportingComponent") == "topo-master"]


async def test_a_link_that_flaps_is_one_event_of_its_node_with_a_count(api: Api) -> None:
    node = await api.get(f"{NODES}/node-sample1")
    about = Regarding("v1", "Node", "node-sample1", node["metadata"]["uid"])
    note = "the link in slot 1 to node-sample2 is down " + "链" * 1000
    what = Occurrence(NodeName("node-sample1"), "LinkDown", note)
    events = series()
    for tick in range(3):
        events.add(about, what, T0 + tick)
        for told in events.due(T0 + tick, 10):
            await written(api, told)
    (shown,) = await of_object(api, about)
    assert shown["reason"] == "LinkDown"
    assert shown["type"] == "Warning"
    assert shown["series"] == {"count": 3, "lastObservedTime": "2027-01-15T08:00:02.500000Z"}


async def test_an_event_of_the_deployment_stands_in_its_namespace(api: Api, namespace: str) -> None:
    about = Regarding("apps/v1", "Deployment", "topo-master", "", namespace)
    note = "the source cluster-manager answers again"
    what = Occurrence(None, "SourceRecovered", note)
    events = series()
    events.add(about, what, T0)
    for told in events.due(T0, 10):
        await written(api, told)
    found = await api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [each for each in found if each["regarding"]["kind"] == "Deployment"]
    assert [each["note"] for each in ours] == [note]


async def test_a_release_annotates_its_nodes_and_tells_of_a_cut_and_a_healed_cable(
    release: Release, api: Api
) -> None:
    """With the rights of the chart; nodes whose cables stay have no Event of ours."""
    await release.install(*ALONE)
    await eventually(partial(_all_annotated, api))
    near, far = release.hosts.cut("node-sample1")
    for name in (near, far):
        await eventually(partial(_told, api, name, "LinkDown"))
    release.hosts.heal()
    for name in (near, far):
        await eventually(partial(_told, api, name, "LinkUp"))
    assert not await _reasons(api, "node-sample9")


async def _all_annotated(api: Api) -> bool:
    """Each node has a loss for each number of its eight GPUs, as HAMi reads them."""
    nodes = await api.items(NODES)
    found = [node["metadata"]["annotations"].get(LOSSES, "{}") for node in nodes]
    return all(json.loads(text).keys() == set("12345678") for text in found)


async def _told(api: Api, node: str, reason: str) -> bool:
    return reason in await _reasons(api, node)


async def _reasons(api: Api, node: str) -> list[object]:
    found = await api.get(f"{NODES}/{node}")
    about = Regarding("v1", "Node", node, found["metadata"]["uid"])
    return [each["reason"] for each in await of_object(api, about)]

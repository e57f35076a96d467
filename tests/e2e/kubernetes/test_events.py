"""Our Events on the real API server: their form is taken, and what repeats is one Event."""

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.nodes import NODES
from tests.e2e.kubernetes.agreement import events_of
from topo.model.ids import NodeName
from topo.publish.event_series import EventRecord, EventSeries, Regarding, Reporter
from topo.publish.node_events import Occurrence

T0 = 1_800_000_000.5


def series() -> EventSeries:
    return EventSeries(Reporter("topo-master", "topo-master-0"))


async def written(api: Api, told: EventRecord) -> None:
    """As the writer does it: server-side apply of the whole Event."""
    path = f"/apis/events.k8s.io/v1/namespaces/{told.namespace}/events/{told.name}"
    head = {"apiVersion": "events.k8s.io/v1", "kind": "Event"}
    metadata = {"name": told.name, "namespace": told.namespace}
    body = {**head, "metadata": metadata, **told.fields}
    await api.apply(path, body, manager="topo-master/events")


async def test_a_link_that_flaps_is_one_event_of_its_node_with_a_count(api: Api) -> None:
    node = await api.get(f"{NODES}/node-sample1")
    about = Regarding("v1", "Node", "node-sample1", node["metadata"]["uid"])
    note = "the link in slot 1 to node-sample2 is down " + "链" * 1000
    what = Occurrence(NodeName("node-sample1"), "LinkDown", note).content
    events = series()
    for tick in range(3):
        events.add(about, what, T0 + tick)
        for told in events.due(T0 + tick, 10):
            await written(api, told)
    (shown,) = await events_of(api, about.name, about.uid)
    assert shown["reason"] == "LinkDown"
    assert shown["type"] == "Warning"
    assert shown["series"] == {"count": 3, "lastObservedTime": "2027-01-15T08:00:02.500000Z"}


async def test_an_event_of_the_deployment_stands_in_its_namespace(api: Api, namespace: str) -> None:
    about = Regarding("apps/v1", "Deployment", "topo-master", "", namespace)
    note = "the source cluster-manager answers again"
    what = Occurrence(None, "SourceRecovered", note).content
    events = series()
    events.add(about, what, T0)
    for told in events.due(T0, 10):
        await written(api, told)
    found = await api.items(f"/apis/events.k8s.io/v1/namespaces/{namespace}/events")
    ours = [each for each in found if each["regarding"]["kind"] == "Deployment"]
    assert [each["note"] for each in ours] == [note]

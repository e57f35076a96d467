"""A gang goes where all that its pods take is left, and is told which resource is short."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from tests.gangs.jobs import dragonflies
from tests.gangs.test_evicting import asked
from topo.gangs.decisions.place import answer_place
from topo.gangs.decisions.placed import Placed
from topo.gangs.decisions.resource_shortage import amount_in_words
from topo.gangs.machine.events import Refused
from topo.gangs.machine.gang import PodUid
from topo.model.ids import NodeName
from topo.model.pod_requests import Amounts
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.node_room import Tight
from topo.placement.job.request import Request

TAKES: Amounts = (("cpu", 8_000), ("memory", 3 * 1024**4 * 500), ("pods", 1_000))


class Room(dict[NodeName, Tight]):
    """Nodes that take so few pods, each of so many GPUs."""

    gpus = 8

    def limited(self, capacity: CapacityView) -> CapacityView:
        """The capacity as if somebody had the GPUs that no pod can use."""
        beyond = {n: capacity.free(n) - each.pods * self.gpus for n, each in self.items()}
        return capacity.with_changes(taken={"beyond": {n: g for n, g in beyond.items() if g > 0}})

    def beside(self, pods: Iterable[tuple[PodUid, NodeName]]) -> "Room":
        """The room with these pods on nodes."""
        assert not [*pods], "no pod is held"
        return self

    def tight(self) -> "Room":
        """All of them."""
        return self


def tight(*names: str, pods: int = 0, most: int = 1, resource: str = "cpu", gpus: int = 8) -> Room:
    """Nodes that take so few pods."""
    found = Room({NodeName(name): Tight(pods, most, resource) for name in names})
    found.gpus = gpus
    return found


def test_a_whole_group_goes_past_the_nodes_that_lack_a_resource():
    """Two pods of 8 GPUs: of each of the first two dragonflies one node has no CPUs."""
    capacity = dragonflies(3, 2)
    found = answer_place(
        capacity, asked(2, takes=TAKES), (), room=tight("n1-1-1", "n1-2-2", "n2-1-1")
    )
    assert isinstance(found, Placed)
    assert not {*found.nodes} & {"n1-1-1", "n1-2-2", "n2-1-1"}
    assert capacity.bookings() == {}, "a question books nothing"


def test_a_node_takes_as_many_pods_as_its_scarcest_resource():
    """Four pods of 4 GPUs in one group: two to a node by GPUs, one by CPUs."""
    capacity = dragonflies(2, 2)
    half = Request(pods=4, gpus_per_pod=4, group_size=16)
    wish = asked(4, request=half, takes=TAKES)
    names = [host.name for host in capacity.hosts()]
    found = answer_place(capacity, wish, (), room=tight(*names, pods=1, most=2, gpus=4))
    assert isinstance(found, Refused)
    assert "have cpu for fewer pods than GPUs (a pod takes 8)" in found.text
    assert not found.never
    free = answer_place(capacity, wish, (), room=tight(*names[1:], pods=1, most=2, gpus=4))
    assert isinstance(free, Refused), "a group of four has two nodes"
    roomy = answer_place(capacity, wish, (), room=tight(*names[2:], pods=1, most=2, gpus=4))
    assert isinstance(roomy, Placed)
    assert {*roomy.nodes} == {*names[:2]}


def test_a_refusal_names_what_is_short_and_on_how_many_nodes():
    """Of eight idle nodes six lack CPUs and two memory."""
    capacity = dragonflies(2, 2, 2)
    names = [host.name for host in capacity.hosts()]
    short = Room(tight(*names[:-2]) | tight(*names[-2:], resource="memory"))
    found = answer_place(capacity, asked(2, takes=TAKES), (), room=short)
    assert isinstance(found, Refused)
    many = len(names) - 2
    assert found.text.endswith(
        f"of {len(names)} nodes with free GPUs for a pod {many} lack cpu (a pod takes 8) "
        "and 2 lack memory (a pod takes 1.5Ti)"
    )
    assert not (found.never)
    assert not (found.behind)


def test_a_gang_that_no_idle_node_could_take_never_fits():
    """More memory than any node has: it does not wait for others to end."""
    capacity = dragonflies(2, 2)
    names = [host.name for host in capacity.hosts()]
    found = answer_place(capacity, asked(2, takes=TAKES), (), room=tight(*names, most=0))
    assert isinstance(found, Refused)
    assert found.never


def test_without_gpus_no_other_resource_is_blamed():
    """Where GPUs alone do not suffice, the refusal is about GPUs."""
    capacity = dragonflies(1, 2)
    names = [host.name for host in capacity.hosts()]
    for name in names:
        capacity.book(f"pod/{name}", {name: 8})
    found = answer_place(capacity, asked(2, takes=TAKES), (), room=tight(*names))
    assert isinstance(found, Refused)
    assert "cpu" not in found.text


@pytest.mark.parametrize(
    ("resource", "words"),
    [
        ("host port 7777/TCP", "8 lack host port 7777/TCP (another pod has it)"),
        ("pods", "8 lack pods (a node takes no more)"),
    ],
)
def test_what_is_not_an_amount_is_told_in_its_own_words(resource: str, words: str):
    """Ports and places for pods."""
    capacity = dragonflies(2, 2)
    names = [host.name for host in capacity.hosts()]
    wish = asked(2, takes=((resource, 1_000),))
    found = answer_place(capacity, wish, (), room=tight(*names, resource=resource))
    assert isinstance(found, Refused)
    assert found.text.endswith(f"of 8 nodes with free GPUs for a pod {words}")


@pytest.mark.parametrize(
    ("resource", "amount", "words"),
    [
        ("cpu", 8_000, "8"),
        ("cpu", 1_500, "1500m"),
        ("memory", 1024**3 * 1000, "1Gi"),
        ("memory", 1_000, "1"),
        ("memory", 3 * 1024**4 * 500, "1.5Ti"),
        ("hugepages-2Mi", 2 * 1024**2 * 1000, "2Mi"),
        ("vendor/nic", 2_000, "2"),
    ],
)
def test_amounts_are_written_as_kubernetes_writes_them(resource: str, amount: int, words: str):
    """So that people find them in their jobs."""
    assert amount_in_words(resource, amount) == words


@pytest.mark.parametrize("closed", ["cordoned", "silent"])
def test_never_is_not_said_of_a_gang_that_waits_for_a_closed_node(closed: str) -> None:
    """A node comes back, and a worker that has not spoken may tell the type that is needed."""
    capacity = dragonflies(3, 2)
    lacking = capacity.host(NodeName("n1-1-1"))
    assert lacking is not None
    change = {"cordoned": True} if closed == "cordoned" else {"ready": False, "gpu_type": ""}
    capacity.upsert(replace(lacking, **change))
    wish = Request(pods=10, gpus_per_pod=8, group_size=8)
    found = answer_place(capacity, asked(10, request=wish), ())
    assert isinstance(found, Refused)
    assert not found.never
    assert "72 are free" in found.text
    assert ("type of 8 GPUs on 1 node is not known" in found.text) == (closed == "silent")
    more = answer_place(capacity, asked(11, request=replace(wish, pods=11)), ())
    assert isinstance(more, Refused)
    assert more.never, "with all nodes there are ten"

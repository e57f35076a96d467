"""The documented metrics are the metrics, and their numbers are those of the tree."""

import re
from pathlib import Path

from prometheus_client.registry import Collector, CollectorRegistry

from master.app import build_app
from master.composition.service import build_service
from master.metrics import MAX_KINDS, MAX_SEEN, SeenLabels, TreeCollector
from master.wiring.check import CheckedPlan
from tests.master.world import settings
from topo.diagnosis.wiring.cost import CableCost
from topo.model.forest import (
    Conflict,
    Forest,
    Group,
    Node,
    PathGroup,
    Reason,
    Snapshot,
    Status,
    Unplaced,
)
from topo.model.ids import SCALE_OUT, Generation, GroupName, Kind, NodeName
from topo.model.observation import FABRIC
from topo.placement.booking.events import What
from topo.placement.booking.holds import Obstacle
from topo.placement.capacity.node_usage import SharedCards, TypeCounts
from topo.placement.job.plan import FitTest

_WORDS = ("Ready", "NotReady")
PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def test_the_documented_metrics_are_those_that_exist() -> None:
    address = "--cluster-manager-address=https://127.0.0.1"
    pod = ("--pod-name=a", "--pod-namespace=topo", "--pod-ip=10.0.0.7", "--leader-elect=true")
    controllers = "annotations,events,nomination,device-taints,provisioning"
    gangs = ("--placement=nomination", f"--controllers={controllers}")
    flags = ("--mode=switchbox", "--group-metrics", "--kubeconfig=/kubeconfig", address, *pod)
    existing = set[tuple[str, str]]()
    netbox = "--wiring-netbox-address=https://127.0.0.1"
    dumps = "--precedence=manager,fabric"
    for more in (gangs, ("--extender=on",), ("--wiring-plan=/plan",), (netbox, dumps)):
        service = build_service(settings(*flags, *more))
        build_app(service)
        if service.wiring is not None:
            service.wiring.last = CheckedPlan(0, 0, {}, CableCost(), b"")
        existing |= {
            (family.name + "_total" * (family.type == "counter"), family.type)
            for family in service.registry.collect()
            if family.name.startswith("topo_master_")
        }
    text = PAGE.read_text()
    documented = set(re.findall(r"^\| `(topo_master_\w+)` \| (\w+) \|", text, re.MULTILINE))
    assert documented == existing


Series = dict[str, dict[tuple[str, ...], float]]


def _collected(*forests: Forest, by_group: bool = False) -> Series:
    """What is told of the last forest by a collector that has told of those before."""
    found: Series = {}
    shown: list[Snapshot] = []
    collector = _collector(shown, by_group=by_group)
    for number, forest in enumerate(forests):
        shown[:] = [Snapshot(Generation(number), forest)]
        found = _series(collector)
    return found


def _collector(shown: list[Snapshot], *, by_group: bool) -> TreeCollector:
    return TreeCollector(
        snapshot=lambda: shown[0],
        clock=lambda: 0.0,
        waiting=lambda: 0,
        workers=lambda: 0,
        ready=lambda: True,
        warnings=lambda: (),
        document_sizes=lambda: (0, 0),
        by_group=by_group,
    )


def _series(collector: Collector) -> Series:
    return {
        family.name: {tuple(s.labels.values()): s.value for s in family.samples}
        for family in collector.collect()
    }


def _node(name: str) -> Node:
    return Node(NodeName(name), Status.NOT_READY, (Reason("c", "t"),))


def test_nodes_outside_of_groups_are_counted_too() -> None:
    forest = Forest(unplaced=(Unplaced(_node("n1"), Reason("c", "t")),))
    found = _collected(forest)
    assert found["topo_master_nodes"] == {("Ready",): 0, ("NotReady",): 1}
    assert found["topo_master_unplaced_nodes"] == {(): 1}


def test_groups_and_nodes_without_one_are_counted_by_fabric_where_there_are_several() -> None:
    """Also once the fabric is gone, at zero: an alert on a series that vanishes never ends."""
    leaf = PathGroup(Kind("leaf"), "l1", GroupName("l1"), FABRIC)
    placed = Node(NodeName("n1"), Status.READY, gpus=8, elsewhere=((SCALE_OUT, (leaf,)),))
    others = Node(NodeName("n2"), Status.READY, gpus=8), Node(NodeName("cpu"), Status.READY)
    names = "topo_master_fabric_groups", "topo_master_fabric_unplaced_nodes"

    def told(*forests: Forest) -> list[dict[tuple[str, ...], float]]:
        found = _collected(*forests)
        return [found[name] for name in names]

    one = Forest((_group("d", *others),))
    both = Forest((_group("d", placed, *others),))
    assert told(one) == [{}, {}]
    assert told(both) == [{("scale-out",): 1}, {("scale-out",): 1}]
    assert told(both, one) == [{("scale-out",): 0}, {("scale-out",): 0}]


def _group(name: str, *nodes: Node) -> Group:
    return Group(GroupName(name), Kind("dragonfly"), 1, Status.READY, nodes)


def test_a_node_counts_once_for_each_of_its_reasons() -> None:
    """Also one that is in no group; the reasons of lost workers are there before the first."""
    two = (Reason("port-down", "0"), Reason("port-down", "1"), Reason("worker-stale", "t"))
    node = Node(NodeName("n1"), Status.NOT_READY, two)
    fly = Group(GroupName("d"), Kind("dragonfly"), 1, Status.NOT_READY, (node,))
    outside = Unplaced(_node("n2"), Reason("no-peer", "t"))
    told = _collected(Forest((fly,), (outside,)))["topo_master_node_reasons"]
    assert told == {
        ("worker-stale",): 1,
        ("no-worker",): 0,
        ("port-down",): 1,
        ("c",): 1,
        ("no-peer",): 1,
    }
    assert _collected(Forest())["topo_master_node_reasons"][("worker-stale",)] == 0


def test_kinds_of_people_do_not_make_labels_without_end() -> None:
    roots = tuple(
        Group(GroupName(f"g{i}"), Kind(f"kind-{i}"), 1, Status.READY, ()) for i in range(100)
    )
    groups = _collected(Forest(roots))["topo_master_groups"]
    assert len(groups) == 2 * (MAX_KINDS + 1)
    assert groups["other", "Ready"] == 100 - MAX_KINDS


def _pair(status: Status) -> Forest:
    """A switchbox with a dragonfly of two nodes."""
    nodes = tuple(Node(NodeName(f"n{i}"), Status.READY) for i in (1, 2))
    fly = Group(GroupName("d"), Kind("dragonfly"), 1, status, nodes)
    return Forest((Group(GroupName("s"), Kind("switchbox"), 2, status, (fly,)),))


def test_what_there_was_once_stays_at_zero() -> None:
    """A series that vanishes keeps the alert of its last value."""
    listed = Forest(conflicts=(Conflict("oversize-group", ("d",), "too large"),))
    found = _collected(_pair(Status.READY), listed, Forest())
    assert found["topo_master_nodes"] == {("Ready",): 0, ("NotReady",): 0}
    assert found["topo_master_groups"] == {
        (kind, status): 0 for kind in ("switchbox", "dragonfly") for status in _WORDS
    }
    assert found["topo_master_conflicts"] == {("oversize-group",): 0}


def test_a_gpu_model_that_changes_at_every_scrape_does_not_add_series_without_end() -> None:
    """One node's token is enough to report another model each time; every GPU is still counted."""
    service = build_service(settings("--mode=dragonfly", "--allow-anonymous-workers"))
    totals, types = service.placements.totals, set[str]()
    for scrape in range(50):
        others = (TypeCounts(gpus=1) for _ in range(64))
        named = {f"model-{scrape}-{number}": counts for number, counts in enumerate(others)}
        totals.by_type = {"H20": TypeCounts(gpus=64), **named}
        gpus = _family(service.registry, "topo_master_gpus")
        assert sum(gpus.values()) == 128
        types |= gpus.keys()
    assert len(types) == MAX_KINDS + 1
    assert {"H20", "other"} < types


def test_a_kind_that_changes_at_every_generation_does_not_add_series_without_end() -> None:
    shown: list[Snapshot] = []
    collector, labels = _collector(shown, by_group=False), set[tuple[str, ...]]()
    for number in range(50):
        group = Group(GroupName("g"), Kind(f"kind-{number}"), 1, Status.READY, ())
        shown[:] = [Snapshot(Generation(number), Forest((group,)))]
        groups = _series(collector)["topo_master_groups"]
        assert sum(groups.values()) == 1
        labels |= groups.keys()
    assert len(labels) == len(_WORDS) * (MAX_KINDS + 1)


def test_shared_resources_that_a_kubelet_invents_do_not_add_series_without_end() -> None:
    service = build_service(settings("--mode=dragonfly", "--allow-anonymous-workers"))
    totals, resources = service.placements.totals, set[str]()
    for scrape in range(50):
        name = f"example.com/shared-{scrape}"
        totals.shared = {name: SharedCards(name, 4, 1)}
        resources |= _family(service.registry, "topo_master_shared_cards").keys()
    assert len(resources) == MAX_KINDS + 1


def _family(registry: CollectorRegistry, name: str) -> dict[str, float]:
    """The values of a metric by its first label."""
    (family,) = (each for each in registry.collect() if each.name == name)
    return {next(iter(sample.labels.values())): sample.value for sample in family.samples}


def test_labels_that_people_invent_for_ever_do_not_pile_up() -> None:
    seen = SeenLabels()
    for number in range(10 * MAX_SEEN):
        told = seen.filled({number: 1.0})
        assert told[number] == 1.0
        assert len(told) <= MAX_SEEN


def _pairs(count: int) -> Forest:
    """So many dragonflies, each with a node that is well and one that is not."""

    def fly(number: int) -> Group:
        well = Node(NodeName(f"a{number}"), Status.READY)
        name, kind = GroupName(f"d{number}"), Kind("dragonfly")
        return Group(name, kind, 1, Status.NOT_READY, (well, _node(f"b{number}")))

    lone = tuple(Unplaced(_node(f"c{number}"), Reason("no-peer", "t")) for number in range(count))
    conflicts = (Conflict("one-sided-link", (f"a{number}",), "t") for number in range(count))
    return Forest(tuple(map(fly, range(count))), lone, conflicts=tuple(conflicts))


def test_ten_thousand_nodes_have_no_more_series_than_three() -> None:
    """Whatever is wrong with them; Prometheus keeps each series in memory."""

    def series(forest: Forest) -> set[tuple[str, tuple[str, ...]]]:
        return {(name, labels) for name, found in _collected(forest).items() for labels in found}

    assert series(_pairs(3334)) == series(_pairs(1))
    assert _collected(_pairs(3334))["topo_master_node_reasons"][("c",)] == 6668


def test_each_group_has_a_series_where_that_is_asked_for() -> None:
    asked = _collected(_pair(Status.NOT_READY), by_group=True)
    assert asked["topo_master_group_ready"] == {("s", "switchbox"): 0, ("s/d", "dragonfly"): 0}
    assert "topo_master_group_ready" not in _collected(_pair(Status.READY))


def test_what_can_happen_is_counted_from_zero() -> None:
    """A rate needs the zero before the first: holds, obstacles, tests that fail, the state file."""
    service = build_service(settings("--mode=dragonfly", "--allow-anonymous-workers"))
    value = service.registry.get_sample_value
    for name, label, words in (
        ("hold_events", "event", [*What, "restored"]),
        ("holds_declined", "obstacle", Obstacle),
        ("state_saves", "result", ("ok", "failed", "late")),
    ):
        for word in words:
            assert value(f"topo_master_{name}_total", {label: word}) == 0.0, word
    for failed in FitTest:
        labels = {"result": "infeasible", "failed": failed}
        assert value("topo_master_placements_total", labels) == 0.0


def test_two_hundred_gpu_types_are_sixteen_and_the_rest_together() -> None:
    """Every GPU is counted, under a label that is there from then on."""
    service = build_service(settings("--mode=dragonfly", "--allow-anonymous-workers"))
    totals, told = service.placements.totals, service.registry.get_sample_value
    totals.by_type = {f"type-{i:03}": TypeCounts(gpus=8, ready=8, free=8) for i in range(200)}
    assert told("topo_master_gpus", {"gpu_type": "type-000"}) == 8
    rest = 8 * (200 - MAX_KINDS)
    assert told("topo_master_free_gpus", {"gpu_type": "other"}) == rest
    totals.by_type = {}
    assert told("topo_master_gpus", {"gpu_type": "type-000"}) == 0
    assert told("topo_master_gpus", {"gpu_type": "other"}) == 0

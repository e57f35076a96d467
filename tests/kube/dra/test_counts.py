"""How many devices nodes have left for claims, and how many the claims of a pod take."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from master.kube.objects import Key
from tests.controllers.nomination.objects import pod
from tests.support.devices import DRIVER, DeviceWorld, counts, exactly, nic
from topo.model.ids import NodeName

NODE = NodeName("node-1")
CX7 = f'device.attributes["{DRIVER}"].kind == "cx7"'
NICS = "device class nics"


@pytest.fixture
def world() -> DeviceWorld:
    """A node with four devices of the class `nics`, and a template for two of them."""
    made = DeviceWorld()
    made.publish(NODE, [nic(f"nic-{number}") for number in range(4)])
    made.define("nics", f"device.driver == '{DRIVER}' && {CX7}")
    made.template("two", exactly("nics", 2))
    return made


def claiming(*templates: str, made: dict[str, str] | None = None) -> Any:
    """A pod with a claim of each template; `made` are the claims that are there already."""
    claims = [{"name": each, "resourceClaimTemplateName": each} for each in templates]
    statuses = [{"name": name, "resourceClaimName": claim} for name, claim in (made or {}).items()]
    status = {"resourceClaimStatuses": statuses}
    return pod(0, group="", status=status, resourceClaims=claims)


def test_a_device_that_a_claim_has_is_taken_until_the_claim_is_gone(world: DeviceWorld) -> None:
    found = counts(world.api)
    assert found.of_node(NODE) == ({NICS: 4000}, ())
    world.allocate("c", NODE, ["nic-2"])
    assert found.of_node(NODE) == ({NICS: 4000}, ((NICS, 1000),))
    world.deallocate("c")
    assert found.of_node(NODE) == ({NICS: 4000}, ())


def test_a_claim_of_an_administrator_takes_no_device(world: DeviceWorld) -> None:
    world.allocate("watching", NODE, ["nic-0"], adminAccess=True)
    assert counts(world.api).of_node(NODE).taken == ()


def test_the_claims_of_a_pod_take_devices_until_they_have_them(world: DeviceWorld) -> None:
    found = counts(world.api)
    waits, has = claiming("two", "two"), claiming("two", made={"two": "c"})
    assert found.asked(waits) == found.unallocated(waits) == ((NICS, 4000),)
    assert found.unallocated(has) == ((NICS, 2000),)
    world.allocate("c", NODE, ["nic-0", "nic-1"])
    assert found.unallocated(has) == ()
    assert found.asked(has) == ((NICS, 2000),)


def test_slices_of_an_older_generation_and_tainted_devices_do_not_count(
    world: DeviceWorld,
) -> None:
    found = counts(world.api)
    broken = nic("nic-0", taints=[{"key": "broken", "effect": "NoSchedule"}])
    odd = nic("nic-1", taints=[{"key": "seen", "effect": "None"}])
    world.publish(NODE, [broken, odd, nic("nic-2", "cx6")], generation=2)
    assert found.of_node(NODE).there == {NICS: 1000}
    world.withdraw(NODE, 2)
    assert found.of_node(NODE).there == {NICS: 4000}


@pytest.mark.parametrize(
    "request_",
    [
        exactly("nics", allocationMode="All"),
        exactly("nics", adminAccess=True),
        exactly("nics", tolerations=[{"operator": "Exists"}]),
        exactly("unknown"),
        {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "nics"}]},
    ],
)
def test_a_request_that_cannot_be_counted_takes_nothing(
    world: DeviceWorld, request_: dict[str, Any]
) -> None:
    world.template("other", request_)
    assert counts(world.api).asked(claiming("other")) == ()


def test_a_class_is_not_counted_while_it_chooses_a_device_that_is_of_no_one_node(
    world: DeviceWorld,
) -> None:
    found = counts(world.api)
    told: list[None] = []
    found.on_classes.append(lambda: told.append(None))
    world.publish("", [nic("far")])
    assert found.of_node(NODE).there == {}
    assert found.asked(claiming("two")) == ()
    world.withdraw("")
    assert found.asked(claiming("two")) == ((NICS, 2000),)
    assert len(told) == 2


def test_a_class_is_not_counted_while_several_claims_may_have_one_of_its_devices(
    world: DeviceWorld,
) -> None:
    world.publish(NODE, [nic("nic-9", allowMultipleAllocations=True)], name="more")
    found = counts(world.api)
    assert found.asked(claiming("two")) == ()


def test_an_unread_class_is_not_counted(world: DeviceWorld) -> None:
    found = counts(world.api)
    world.define("nics", "device.driver.startsWith('nic')")
    assert found.asked(claiming("two")) == ()
    assert found.of_node(NODE) == ({}, ())


def test_nothing_is_counted_where_the_server_lacks_a_kind(world: DeviceWorld) -> None:
    found = counts(world.api, synced=False)
    assert not found.is_known
    assert found.of_node(NODE) == ({}, ())
    assert found.extended(NODE, ()) == {}
    assert found.asked(claiming("two")) == ()


def test_a_class_gives_its_devices_to_nodes_that_do_not_state_its_resource(
    world: DeviceWorld,
) -> None:
    """Pods of the resource book it themselves; a claim of any other pod takes from it."""
    world.define("nics", CX7, resource="example.com/nic")
    found = counts(world.api)
    implicit = "deviceclass.resource.kubernetes.io/nics"
    assert found.extended(NODE, ()) == {"example.com/nic": "4", implicit: "4"}
    assert found.extended(NODE, ("example.com/nic",)) == {implicit: "4"}
    world.allocate("c", NODE, ["nic-0"])
    assert found.extended(NODE, (implicit,)) == {"example.com/nic": "3"}
    assert found.extended(NodeName("other"), ()) == {}


_NODES = tuple(NodeName(f"node-{number}") for number in range(3))
_steps = st.lists(
    st.tuples(
        st.sampled_from(("publish", "withdraw", "allocate", "deallocate", "define", "far")),
        st.integers(0, 2),
        st.integers(0, 3),
    ),
    max_size=30,
)


def _do(world: DeviceWorld, what: str, at: int, number: int) -> None:
    node, claim = _NODES[at], f"c-{number}"
    if what == "publish":
        kinds = ("cx7", "cx6")
        devices = [nic(f"nic-{each}", kinds[each % 2]) for each in range(number + 1)]
        world.publish(node, devices, generation=1 + number % 2)
    elif what == "withdraw":
        _if_there(lambda: world.withdraw(node, 1 + number % 2))
    elif what == "allocate":
        world.allocate(claim, node, [f"nic-{number}"], "train-worker-0")
    elif what == "deallocate":
        _if_there(lambda: world.deallocate(claim))
    elif what == "far" and number % 2:
        _if_there(lambda: world.withdraw(""))
    elif what == "far":
        world.publish("", [nic("far", "cx6")])
    else:
        world.define(("nics", "all")[at % 2], *((CX7,) if number % 2 else ()), resource="r" * at)


def _if_there(act: Any) -> None:
    try:
        act()
    except KeyError:
        return


@given(_steps)
@settings(max_examples=200, deadline=None)
def test_whatever_changes_the_counts_are_those_of_a_new_master_and_changes_are_told(
    steps: list[tuple[str, int, int]],
) -> None:
    world = DeviceWorld()
    world.template("two", exactly("nics", 2), exactly("all", 1))
    found = counts(world.api)
    shown: dict[NodeName, tuple[Any, dict[str, str]]] = {}

    def follow(nodes: Iterable[NodeName], _pods: Iterable[Key] | None) -> None:
        for node in nodes:
            shown[node] = found.of_node(node), found.extended(node, ())

    follow(_NODES, None)
    found.on_change.append(follow)
    for step in steps:
        _do(world, *step)
    anew = counts(world.api)
    waiting = claiming("two", made={"two": "c-1"})
    assert {node: (anew.of_node(node), anew.extended(node, ())) for node in _NODES} == shown
    assert found.asked(waiting) == anew.asked(waiting)
    assert found.unallocated(waiting) == anew.unallocated(waiting)
    for node, (devices, _) in shown.items():
        taken = dict(devices.taken)
        assert all(taken.get(each, 0) <= devices.there[each] for each in devices.there), node


def test_counts_need_no_pods_of_gangs(world: DeviceWorld) -> None:
    found = counts(world.api)
    assert found.asked(pod(0)) == found.unallocated(pod(0)) == ()

"""What hosts see of their own ports is newer than the dump that a plan is compared with."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.builders import facts
from tests.discovery.fabrics import fours, read
from tests.support.fabric import Built, rails
from topo.diagnosis.wiring.compare import CableComparison, compare
from topo.diagnosis.wiring.own_ports import own_ports
from topo.diagnosis.wiring.seen import plan_of, seen_in_dumps
from topo.facts.plans.plan import CablePlan
from topo.model.machine import NetworkPort, NodeFacts

UNITS = [["gpu-01", "gpu-02", "gpu-03"], ["gpu-04", "gpu-05"]]
UP = NetworkPort("mlx5_0", 1, up=True, rate_gbps=400.0, link_layer="InfiniBand")


def told(built: Built, ports: Mapping[str, NetworkPort] | None = None) -> list[NodeFacts]:
    """What the workers of all hosts say; `ports` by GUID are other than up."""
    return [
        replace(
            facts(host),
            nics=tuple(
                replace((ports or {}).get(guid, UP), hca=f"mlx5_{n}", node_guid=fours(guid))
                for n, guid in enumerate(guids)
            ),
        )
        for host, guids in built.adapters.items()
    ]


def compared(plan: CablePlan, built: Built, said: Iterable[NodeFacts]) -> CableComparison:
    found = compare(plan, seen_in_dumps([read(built.text())], own_ports(said)))
    assert isinstance(found, CableComparison)
    return found


def whole() -> tuple[Built, CablePlan]:
    built = rails(UNITS, 2, 2)
    return built, plan_of(seen_in_dumps([read(built.text())]))


def verdicts(found: CableComparison) -> Counter[str]:
    return Counter(str(each.verdict) for each in found.findings)


NOW = ["up", "down", "slow", "mended", "nameless", "gone"]
DOWN, SLOW = replace(UP, up=False, state="DOWN"), replace(UP, rate_gbps=200.0)


@given(st.lists(st.sampled_from(NOW), min_size=10, max_size=10))
def test_a_port_that_its_host_sees_down_slow_or_up_again_is_told_before_the_next_dump(
    now: list[str],
) -> None:
    """Of adapters that the dump lacks, one is up again and one is not."""
    built, plan = whole()
    every = [guid for guids in built.adapters.values() for guid in guids]
    state = dict(zip(every, now, strict=True))
    devices = built.fabric.devices
    for guid in every:
        if state[guid] in ("mended", "gone"):
            built.fabric.cut(guid)
        if state[guid] == "nameless":
            devices[guid] = replace(devices[guid], description="MT4129 ConnectX7   Mellanox")
    if all(state[guid] in ("mended", "gone") for guid in built.adapters["gpu-01"]):
        return  # the dump is made on another host
    ports = {guid: SLOW if word == "slow" else DOWN for guid, word in state.items()}
    ports = {g: port for g, port in ports.items() if state[g] in ("down", "slow", "gone")}
    found = compared(plan, built, told(built, ports))
    count = Counter(now)
    expected = {"missing": count["down"] + count["gone"], "slow": count["slow"]}
    expected["unseen"] = count["mended"]
    assert verdicts(found) == Counter({key: number for key, number in expected.items() if number})


def test_a_node_that_claims_ports_of_switches_or_of_others_takes_no_cable_away() -> None:
    built, plan = whole()
    switches = [each.guid for each in built.fabric.devices.values() if each.is_switch]
    claims = tuple(
        replace(DOWN, hca=f"mlx5_{n}", node_guid=fours(guid))
        for n, guid in enumerate([*switches, *built.adapters["gpu-02"]])
    )
    liar = replace(facts("gpu-09"), nics=claims)
    assert verdicts(compared(plan, built, [*told(built), liar])) == Counter()


def test_an_ethernet_port_that_is_down_is_a_missing_cable() -> None:
    """LLDP that is silent there says nothing."""
    port = replace(DOWN, link_layer="Ethernet", interfaces=("eth1",))
    two = [replace(port, hca="mlx5_1", port=n, interfaces=("eth2", "eth3")) for n in (1, 2)]
    said = own_ports([replace(facts("gpu-01"), nics=(port, *two))])
    assert {str(end) for end in said.dark} == {"gpu-01 eth1"}
    assert not said.by_guid

"""Fabrics of 10 to 10,000 hosts with faults: groups and findings are those of a plain model.

The model knows in which unit each cable ends and nothing of switches: a host is of the unit where
most of its cables end. The dump is written here, since `tests.support.fabric` looks at all cables
for each device.
"""

import random
from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import product

import pytest

from tests.builders import discovery, together
from tests.discovery.fabrics import listed
from topo.discovery.modes import Mode
from topo.facts.infiniband.ibnetdiscover import read
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump
from topo.model.observation import FabricLoaded

RAILS, UNIT, SPINES = 8, 32, 2
LEAF, SPINE, ADAPTER = 0xFC6A1C0300000000, 0xFC6A1C0380000000, 0xB83FD20300000000
TRUNKS = 200
"""The first port of a leaf that leads up."""
Cables = Mapping[tuple[int, int], int]
"""By host and rail the unit on whose leaf of that rail the adapter is."""
Hosts = Mapping[tuple[int, int], list[int]]
"""By unit and rail the hosts on that leaf, port by port."""


def faulty(hosts: int, seed: int) -> tuple[Cables, set[str]]:
    """Of one host in each unit up to three cables are cut or wrong; those that are in another unit.

    At most two are in a wrong leaf, so most cables of a host end in its unit.
    """
    draw = random.Random(seed)  # noqa: S311 - examples, no secrets
    cables = {(host, rail): host // UNIT for host in range(hosts) for rail in range(RAILS)}
    units, astray = -(-hosts // UNIT), set()
    for unit in range(units):
        host = draw.randrange(unit * UNIT, min(hosts, (unit + 1) * UNIT))
        for number, rail in enumerate(draw.sample(range(RAILS), draw.randint(0, 3))):
            elsewhere = draw.randrange(units)
            if number < 2 and draw.random() < 0.6:
                cables[host, rail] = elsewhere
                astray |= {name(host)} if elsewhere != unit else set()
            else:
                del cables[host, rail]
    return cables, astray


def name(host: int) -> str:
    return f"gpu-{host:05}"


def dump(cables: Cables, units: int) -> str:
    """What ibnetdiscover prints of these cables: switches, then adapters."""
    at: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (host, rail), unit in cables.items():
        at[unit, rail].append(host)
    return "\n".join([*leaves(at), *spines(at, units), *adapters(at), ""])


def leaves(at: Hosts) -> Iterator[str]:
    for (unit, rail), hosts in at.items():
        yield from switch(leaf(unit, rail), f"leaf-{unit}-{rail}")
        for port, host in enumerate(hosts, start=1):
            far = adapter(host, rail)
            yield f'[{port}]\t"H-{far}"[1]({far})\t\t# {described(host, rail)} lid 7 4xNDR'
        for number in range(SPINES):
            yield f'[{TRUNKS + number}]\t"S-{spine(rail, number)}"[{unit + 1}]\t\t# "" lid 7 4xNDR'


def spines(at: Hosts, units: int) -> Iterator[str]:
    for rail, number in product(range(RAILS), range(SPINES)):
        yield from switch(spine(rail, number), f"spine-{rail}-{number}")
        for unit in range(units):
            if (unit, rail) in at:
                far = leaf(unit, rail)
                yield f'[{unit + 1}]\t"S-{far}"[{TRUNKS + number}]\t\t# "" lid 7 4xNDR'


def adapters(at: Hosts) -> Iterator[str]:
    for (unit, rail), hosts in at.items():
        for port, host in enumerate(hosts, start=1):
            own = adapter(host, rail)
            yield from ("", f"caguid=0x{own}", f'Ca\t1 "H-{own}"\t\t# {described(host, rail)}')
            yield f'[1]({own})\t"S-{leaf(unit, rail)}"[{port}]\t\t# lid 7 lmc 0 "" lid 2 4xNDR'


def switch(guid: str, called: str) -> tuple[str, str, str]:
    head = f'Switch\t1024 "S-{guid}"\t\t# "MF0;{called}:MQM9700/U1" enhanced port 0 lid 7 lmc 0'
    return "", f"switchguid=0x{guid}({guid})", head


def leaf(unit: int, rail: int) -> str:
    return f"{LEAF + (unit * RAILS + rail) * 16:016x}"


def spine(rail: int, number: int) -> str:
    return f"{SPINE + (rail * SPINES + number) * 16:016x}"


def adapter(host: int, rail: int) -> str:
    return f"{ADAPTER + host * 16 + rail:016x}"


def described(host: int, rail: int) -> str:
    return f'"{name(host)} mlx5_{rail}"'


@pytest.mark.parametrize(
    "hosts",
    [
        10,
        100,
        pytest.param(1_000, marks=pytest.mark.deep),
        pytest.param(10_000, marks=pytest.mark.deep),
    ],
)
@pytest.mark.parametrize("seed", range(2))
def test_hosts_are_in_their_units_and_exactly_the_cables_in_other_units_are_named(
    hosts: int, seed: int
) -> None:
    cables, astray = faulty(hosts, seed)
    units = -(-hosts // UNIT)
    found = read(dump(cables, units))
    assert not isinstance(found, Refusal), found
    (fabric,) = found.facts
    assert isinstance(fabric, FabricDump)
    assert (found.warnings, fabric.missing) == ((), "")
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(map(name, range(hosts))), FabricLoaded((("subnet", fabric),)))
    truth = {
        frozenset(map(name, range(unit * UNIT, min(hosts, (unit + 1) * UNIT))))
        for unit in range(units)
    }
    assert together(state) == truth
    conflicts = state.snapshot.forest.conflicts
    assert {each.code for each in conflicts} <= {"fabric-cable-astray"}
    assert {each.subjects[0] for each in conflicts} == astray

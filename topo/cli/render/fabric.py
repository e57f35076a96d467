"""A dump of a fabric for people: its devices, and the groups of the hosts that it names."""

from collections import defaultdict

from topo.discovery.groups.fabric.adapter_join import host_of
from topo.discovery.groups.fabric.switch_tiers import (
    HostGroups,
    SwitchGroup,
    SwitchPath,
    leaves_of_hosts,
    place,
)
from topo.discovery.groups.fabric.trunks import weak_trunks
from topo.discovery.groups.fabric.wires import Wires, joined
from topo.model.fabric import FabricDump, Guid
from topo.model.ids import natural_key
from topo.model.words import counted, listed

_SHOWN = 6
_WEAK_SHOWN = 12


def devices(dump: FabricDump) -> tuple[str, ...]:
    """Return the numbers of devices, cables and speeds of a dump, a line each."""
    rates: defaultdict[str, int] = defaultdict(int)
    for cable in dump.cables:
        rates[cable.rate or "of unknown speed"] += 1
    speeds = ", ".join(f"{number} {rate}" for rate, number in sorted(rates.items()))
    nameless = sum(not host_of(each.description) for each in dump.adapters)
    adapters = counted(len(dump.adapters), "adapter")
    if nameless:
        adapters += f" ({nameless} without a host name)"
    return (f"{counted(len(dump.switches), 'switch')}, {adapters}", f"cables  {speeds or 'none'}")


def groups(dump: FabricDump) -> tuple[str, ...]:
    """Return the groups of the hosts that descriptions name, the innermost ones a line each, and
    what does not fit them.
    """
    wires = joined({"": dump})
    named = _hosts(dump)
    placed = place(wires, leaves_of_hosts(wires, named), set(named.values()))
    hosts: defaultdict[SwitchPath, list[str]] = defaultdict(list)
    for host, path in placed.paths.items():
        hosts[path].append(host)
    lines = (_line(wires, path, names) for path, names in hosts.items())
    weak = weak_trunks(wires, placed.paths.values())
    # First, for of many lines the last ones are not shown.
    told = (listed(weak, _WEAK_SHOWN),) if weak else ()
    return (*told, *sorted(lines, key=natural_key), *_strays(wires, placed))


def _hosts(dump: FabricDump) -> dict[Guid, str]:
    named = ((each.guid, host_of(each.description)) for each in dump.adapters)
    return {guid: host for guid, host in named if host}


def _line(wires: Wires, path: SwitchPath, names: list[str]) -> str:
    at = "/".join(_first(wires, group) for group in path)
    leaves = counted(len(path[-1].switches), "leaf")
    shown = listed(sorted(names, key=natural_key), _SHOWN)
    return f"{at}  {leaves}, {counted(len(names), 'host')}: {shown}"


def _first(wires: Wires, group: SwitchGroup) -> str:
    return min((wires.switches[each].name for each in group.switches), key=natural_key)


def _strays(wires: Wires, placed: HostGroups) -> tuple[str, ...]:
    """Return the hosts with cables in several groups, a line each."""
    return tuple(
        f"{host} has cables in several groups: {listed([_first(wires, each) for each in groups])}"
        for host, groups in sorted(placed.strays.items())
    )

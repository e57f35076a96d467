"""Whether any port that joins a node to the switches is up, by what its worker reads of them now.

Result: the reason of a node that is *dark*, with none up. Where that is not known, it is as before.

Which adapters count: those whose cable is known to end at a leaf of a group, by a dump or by LLDP,
now or the last time that it was known. Of a node of which no such cable is known it is those that
were up before and do not end elsewhere, as at a switch of storage servers alone. So an adapter that
never had a cable makes no node dark, and neither does one of storage.

Why that is right: a port that is down carries nothing, whatever the last dump says, and an adapter
whose link is down is in none, so what was joined is remembered. It is dark only if each adapter
that counts says so. A port that is not shown, one that has its link and waits for the subnet
manager (Init, Armed), and an Ethernet port that is switched off (a network device that a pod gave
back is so until the next one takes it) say nothing. Another adapter of the same kind of wire that
is up may lead to the fabric, too: no dump is that new. InfiniBand and Ethernet are no one fabric.

Cost: O(ports) for a reading.

Example: mlx5_0 of n01 ends at leaf-2, mlx5_1 at a leaf of storage, eth0 is an Ethernet port. mlx5_0
is down: n01 is dark, though both others are up. Were nothing known of mlx5_1, n01 would be joined.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from topo.discovery.node.health import Subject
from topo.model.conditions.tree import NodeCondition
from topo.model.forest import Reason
from topo.model.ids import natural_key
from topo.model.machine import NetworkPort
from topo.model.words import listed

UPLINKS: Subject = ("uplinks", "")
"""The subject of a node without any port of the fabric up."""
Ends = tuple[tuple[str, str], ...]
"""(adapter, the switch at the end of its cable; empty where it is not known any more)."""

_ETHERNET = "Ethernet"
"""Source: `link_layer` of ABI/stable/sysfs-class-infiniband."""
_DOWN = ("", "DOWN")
"""The states of a port without a link; empty where a probe says only that it is not up."""
_SWITCHED_OFF = "disabled"
"""Drivers say so of an Ethernet port whose network device is off or has no carrier
(mlx5_query_port_roce, bnxt_re_query_port); of an InfiniBand port an administrator did it."""
_SHOWN = 3


class Cabling(NamedTuple):
    """The adapters of a node whose cables are known: at leaves of groups, and at other switches."""

    joining: Ends = ()
    elsewhere: frozenset[str] = frozenset()


_NOTHING = Cabling()


class _State(IntEnum):
    """What a port says, and an adapter by the port that says most."""

    DARK = 0
    OFF = 1
    TRAINED = 2
    UP = 3


class _Adapter(NamedTuple):
    state: _State
    is_ethernet: bool


@dataclass(slots=True)
class FabricPorts:
    """By which adapters a node is joined, and which were up. Mutable; owned by its record."""

    joining: Ends = ()
    were_up: tuple[str, ...] = ()
    _told: Cabling = _NOTHING

    def recable(self, cabling: Cabling) -> bool:
        """Take where cables lead now; whether that differs. A cable that no source has stays."""
        if cabling == self._told:
            return False
        self._told = cabling
        named = {name for name, _ in cabling.joining} | cabling.elsewhere
        kept = (end for end in self.joining if end[0] not in named)
        self.joining = _shared(tuple(sorted((*kept, *cabling.joining))))
        return True

    def see(self, nics: Iterable[NetworkPort], *, rebooted: bool) -> None:
        """Note which adapters are up; what another boot does not name, nor a source, is gone."""
        shown = _adapters(nics)
        if not shown:
            return
        up = {name for name, each in shown.items() if each.state is _State.UP}
        self.were_up = _shared_names(tuple(sorted(up.union(set(self.were_up) & shown.keys()))))
        if rebooted:
            known = shown.keys() | dict(self._told.joining)
            self.joining = _shared(tuple(end for end in self.joining if end[0] in known))

    def judge(self, nics: Iterable[NetworkPort], before: Reason | None) -> Reason | None:
        """Return why the node is dark; `before`, the last answer, where a reading does not say."""
        shown = _adapters(nics)
        elsewhere = self._told.elsewhere
        ends = dict(self.joining) or {name: "" for name in self.were_up if name not in elsewhere}
        # Where no cable is known, a port of either kind may lead to the fabric.
        wires = (
            {shown[n].is_ethernet for n in ends if n in shown} if self.joining else {True, False}
        )
        alive = max(
            (
                each.state
                for name, each in shown.items()
                if name in ends or (each.is_ethernet in wires and name not in elsewhere)
            ),
            default=_State.OFF,
        )
        if alive is _State.UP:
            return None
        is_said = bool(ends) and all(
            name in shown and shown[name].state is _State.DARK for name in ends
        )
        if alive is _State.TRAINED or not is_said:
            return before
        return Reason(NodeCondition.UPLINKS_DOWN, _text(ends))


def _adapters(nics: Iterable[NetworkPort]) -> dict[str, _Adapter]:
    """Return the adapters of a reading by name, virtual ones left out."""
    found: dict[str, _Adapter] = {}
    for nic in nics:
        if not nic.virtual:
            state, is_ethernet = _state(nic), nic.link_layer == _ETHERNET
            before = found.get(nic.hca)
            most = state if before is None else max(state, before.state)
            found[nic.hca] = _Adapter(most, is_ethernet)
    return found


def _state(nic: NetworkPort) -> _State:
    if nic.up:
        return _State.UP
    if nic.state.upper() not in _DOWN:
        return _State.TRAINED
    is_off = nic.link_layer == _ETHERNET and _SWITCHED_OFF in nic.phys_state.lower()
    return _State.OFF if is_off else _State.DARK


def _text(ends: Mapping[str, str]) -> str:
    named = sorted(ends.items(), key=lambda end: natural_key(end[0]))
    each = [f"{name} to {switch}" if switch else name for name, switch in named]
    are = "is" if len(each) == 1 else "are"
    return f"no port of the fabric is up: {listed(each, _SHOWN)} {are} down"


@lru_cache(maxsize=4096)
def _shared(ends: Ends) -> Ends:
    """Return one object for equal ends, which the nodes of a group have."""
    return ends


@lru_cache(maxsize=256)
def _shared_names(names: tuple[str, ...]) -> tuple[str, ...]:
    return names

"""Which links of a node a reading shows up, down or degraded, by their names within the node."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from topo.model.machine import NodeFacts, PortState, gpu_link, hca_port

_SWITCHED_OFF = "disabled"
"""The physical state of a port that an administrator switched off: no fault of a link."""


class ShownLink(NamedTuple):
    """A link end as a reading shows it. `rate` is what it runs at, 0 where that is not said."""

    is_up: bool
    is_degraded: bool = False
    rate: float = 0.0


LINKS_OF_A_RESET = 4
"""Two GPUs on a bridge have fewer, which break as one; boards with a fabric have four and more,
and `nvidia-smi --gpu-reset` between jobs is no fault of theirs."""
_OF_GPU = " link "
_SLOT = "slot "
_DOWN = ShownLink(is_up=False)


def slot(number: int) -> str:
    """Return the name of a cable to another server, by its slot."""
    return f"{_SLOT}{number}"


def is_same(one: NodeFacts, other: NodeFacts) -> bool:
    """Return whether two readings show the same links, as far as that costs nothing to say.

    Sections that did not change are mostly the same objects.
    """
    return one.ports is other.ports and one.nics is other.nics and one.peers is other.peers


def states(facts: NodeFacts) -> dict[str, ShownLink]:
    """Return the links of a reading. What is wired to nothing or switched off is left out.

    O(links).
    """
    return dict(_states(facts))


def fallen(before: NodeFacts, after: NodeFacts) -> tuple[list[str], list[str]]:
    """Return the links that were up and are down now, and those that run worse than before.

    A cable to a server that is named no more is down; of GPUs and adapters that vanished nothing is
    said. A GPU whose `LINKS_OF_A_RESET` or more links all fall at once was reset, which no link
    of it did. O(links).
    """
    old, new = states(before), states(after)
    if after.peers is not None:
        new |= dict.fromkeys((name for name in old if name.startswith(_SLOT)), _DOWN) | new
    pairs = [(name, was, new[name]) for name, was in old.items() if was.is_up and name in new]
    were_up = Counter(_gpu_of(name) for name, _, _ in pairs)
    down = [name for name, _, now in pairs if not now.is_up]
    fell = Counter(map(_gpu_of, down))
    reset = {
        gpu for gpu, links in fell.items() if gpu and LINKS_OF_A_RESET <= links == were_up[gpu]
    }
    down = [name for name in down if _gpu_of(name) not in reset]
    worse = [
        name
        for name, was, now in pairs
        if now.is_up and ((now.is_degraded and not was.is_degraded) or 0 < now.rate < was.rate)
    ]
    return down, worse


def fallen_ports(before: NodeFacts, after: NodeFacts, fell: Iterable[str]) -> dict[str, float]:
    """Return the ports of adapters among links that fell, with the rate at which each ran.

    A port counts only where its adapter has the same GUID as before: at a boot a driver may give
    the name of one adapter to another one. O(links).
    """
    was, now = _adapters(before), _adapters(after)
    rates = states(before)
    return {link: rates[link].rate for link in fell if link in was and was[link] == now.get(link)}


def _adapters(facts: NodeFacts) -> dict[str, str | None]:
    return {hca_port(nic.hca, nic.port): nic.node_guid for nic in facts.nics if not nic.virtual}


def _gpu_of(link: str) -> str:
    """Return the GPU whose link it is; empty for a port or a cable."""
    gpu, of_gpu, _ = link.partition(_OF_GPU)
    return gpu if of_gpu else ""


def ports_shown(facts: NodeFacts) -> dict[str, bool]:
    """Return whether each port of an adapter is down, which is switched off is not. O(ports)."""
    return {
        hca_port(nic.hca, nic.port): not (nic.up or _SWITCHED_OFF in nic.phys_state.lower())
        for nic in facts.nics
        if not nic.virtual
    }


def _states(facts: NodeFacts) -> Iterator[tuple[str, ShownLink]]:
    for port in facts.ports:
        if port.state is not PortState.UNUSED:
            is_up = port.state is PortState.UP
            yield gpu_link(port.gpu, port.port), ShownLink(is_up, is_up and bool(port.trouble))
    for nic in facts.nics:
        if not nic.virtual and _SWITCHED_OFF not in nic.phys_state.lower():
            yield hca_port(nic.hca, nic.port), ShownLink(nic.up, rate=nic.rate_gbps or 0.0)
    for peer in facts.peers.remotes if facts.peers is not None else ():
        yield slot(peer.slot), ShownLink(peer.connected is not False)

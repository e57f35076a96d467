"""The end of a leader in the middle of its writes: what another master makes of the rest."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from dataclasses import dataclass

from bench.figure import Figure, at_most, exact
from bench.kubernetes.plane import LEASES, Plane, plane
from bench.kubernetes.witness import Witness
from bench.processes import Master, master
from bench.scale import CannotRunError, Progress
from tests.chaos.ports import own_ports
from tests.e2e.controlplane.client import ApiError

_NAMES = ("topo-master-0", "topo-master-1")
LEASE_S = 12.0
"""The default of `--lease-duration`."""
_LEADS_S = 60.0
_LOOK_S = 0.1
_AFTER_S = 10.0
"""After all is right: a write that is made twice would come by then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What came of the end of one leader; times in seconds from it."""

    at_kill: int
    """Nodes that had their labels then."""
    led_s: float
    whole_s: float
    writes: Counter[str]
    wrong: int


def figures(count: int, seen: Seen) -> Iterator[Figure]:
    """Whether the other one goes on in time, and what was written wrong or twice."""
    size = f"{count:,} nodes"
    note = f"when {seen.at_kill:,} of them had their labels"
    name = f"leader killed, {size}: another leads"
    yield Figure(name, exact(seen.led_s), "s", at_most(15), note)
    yield Figure(f"leader killed, {size}: all is right", exact(seen.whole_s), "s")
    twice = sum(made - 1 for made in seen.writes.values())
    note = f"of {seen.writes.total():,}; one that was under way may have to be made again"
    yield Figure(f"leader killed, {size}: second writes", exact(twice), "", at_most(0), note)
    name = f"leader killed, {size}: wrong at any moment"
    yield Figure(name, exact(seen.wrong), "", at_most(0))


async def seen(count: int, progress: Progress, lease_s: float = LEASE_S) -> Seen:
    """Kill the leader (SIGKILL) when half of the nodes have their labels, and return the outcome.

    On a busy machine a longer lease keeps the masters alive: one that cannot renew it ends.
    """
    with own_ports() as some, own_ports() as others, ExitStack() as running:
        async with plane(count) as made, Witness(made.api, made.world) as witness:
            (made.home / "nodegroup.yaml").write_text("group: []\n")
            masters = {
                name: running.enter_context(_master(made, name, ports, lease_s))
                for name, ports in zip(_NAMES, (some, others), strict=True)
            }
            leader = await _leader(made, but="")
            progress(f"{leader} leads; the configuration file is written")
            made.declare()
            await witness.until(
                lambda: 2 * len(witness.nodes.right) >= count,
                "half of the labels",
                masters[leader].must_live,
            )
            os.kill(masters[leader].pid, signal.SIGKILL)
            killed_s, at_kill = time.monotonic(), len(witness.nodes.right)
            other = await _leader(made, but=leader, within_s=_LEADS_S + lease_s)
            led_s = time.monotonic() - killed_s
            progress(f"{other} leads {led_s:.1f} s after the end of {leader}")
            whole_s = await witness.until_whole(masters[other].must_live) - killed_s
            progress(f"all is right after {whole_s:.1f} s")
            await asyncio.sleep(_AFTER_S)
            running.close()
            return Seen(
                at_kill=at_kill,
                led_s=led_s,
                whole_s=whole_s,
                writes=Counter(made.writes()),
                wrong=witness.wrong,
            )


def _master(
    made: Plane, name: str, ports: tuple[int, ...], lease_s: float
) -> AbstractContextManager[Master]:
    home = made.home / name
    home.mkdir()
    return master(home, *made.electing(name, ports), f"--lease-duration={lease_s:g}s")


async def _leader(made: Plane, *, but: str, within_s: float = _LEADS_S) -> str:
    """Return the name of the master that holds the lease, once that is another than `but`."""
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        with suppress(ApiError):
            lease = await made.api.get(f"{LEASES}/topo-master")
            name: str = (lease["spec"].get("holderIdentity") or "").rpartition("_")[0]
            if name not in {"", but}:
                return name
        await asyncio.sleep(_LOOK_S)
    raise CannotRunError(f"no master leads after {within_s:g} s")

"""Masters beside a real API server: labels and HyperNodes of a cluster, written from nothing.

The tree comes from the configuration file, so that no worker shares the machine; nodes are kwok's.
Everything runs on one machine, so the API server takes its part of what is measured.
"""

import asyncio
import math
import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from aiohttp import ClientSession

from bench.figure import Figure, at_most, exact
from bench.kubernetes import takeover
from bench.kubernetes.node_list import Listed, listed
from bench.kubernetes.plane import plane
from bench.kubernetes.witness import Witness
from bench.machine import usage
from bench.processes import LOOPBACK, Master, in_child, master
from bench.scale import CannotRunError, Progress, Scale
from tests.e2e.controlplane import programs

_QUIET_S = 20.0
"""After a restart: longer than a lease lasts and a comparison takes."""
_LOOK_S, _LOOKS = 0.5, 240
_LAG = re.compile(r'^topo_master_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one size showed; times in seconds from the master's start."""

    nodes_s: float
    list: Listed
    labels_s: float
    hypernodes_s: float
    hypernodes: int
    writes: Counter[str]
    wrong: int
    again: int
    peak_mib: float
    cpu_s: float
    lags: "Lags"


@dataclass(frozen=True, slots=True)
class Lags:
    """Looks at the loop: how many came more than 50 ms late, and a bound of the latest."""

    late: int
    looks: int
    bound_s: float


def measure(scale: Scale, progress: Progress) -> Iterator[Figure]:
    """Times, writes and memory for each size, and what the end of a leader costs."""
    if (reason := programs.why_not()) is not None:
        raise CannotRunError(reason)
    for count in scale.kube_kills:
        progress(f"{count:,} nodes: a control plane starts, whose leader will be killed")
        yield from takeover.figures(count, asyncio.run(takeover.seen(count, progress)))
    for count in scale.kube_nodes:
        progress(f"{count:,} nodes: a control plane starts")
        yield from _figures(f"{count:,} nodes", count, asyncio.run(_seen(count, progress)))


def _figures(size: str, count: int, seen: Seen) -> Iterator[Figure]:
    yield Figure(f"{size} created and Ready", exact(seen.nodes_s), "s", None, "held by kwok")
    name = f"list of {size}, real API server"
    yield Figure(name, exact(seen.list.took_s), "s", at_most(2))
    yield Figure("worst block meanwhile", exact(seen.list.blocked_ms), "ms", at_most(50))
    yield Figure(f"labels from nothing, {size}", exact(seen.labels_s), "s", at_most(300))
    note = f"{seen.hypernodes:,} of them"
    name = f"HyperNodes from nothing, {size}"
    yield Figure(name, exact(seen.hypernodes_s), "s", at_most(300), note)
    most = max(seen.writes.values())
    note = f"{seen.writes.total():,} writes of {count + seen.hypernodes:,} objects"
    yield Figure(f"most writes of one object, {size}", exact(most), "", at_most(1), note)
    yield Figure(f"wrong at any moment, {size}", exact(seen.wrong), "", at_most(0))
    yield Figure(f"writes after a restart, {size}", exact(seen.again), "", at_most(0))
    name = f"master beside Kubernetes, {size}: peak"
    yield Figure(name, exact(seen.peak_mib), "MiB", at_most(512))
    yield Figure(f"CPU of the master for all that, {size}", exact(seen.cpu_s), "s")
    note = f"of {seen.lags.looks} looks, two a second; none was later than {seen.lags.bound_s:g} s"
    name = f"looks at the loop later than 50 ms, {size}"
    yield Figure(name, exact(seen.lags.late), "", at_most(0), note)


async def _seen(count: int, progress: Progress) -> Seen:
    began_s = time.monotonic()
    async with plane(count) as made, Witness(made.api, made.world) as witness:
        nodes_s = time.monotonic() - began_s
        progress(f"they are Ready after {nodes_s:.0f} s, their control plane included")
        found = await asyncio.to_thread(in_child, listed, made.kubeconfig, count)
        progress(f"listed in {found.took_s:.1f} s")
        made.declare()
        flags = (*made.flags, f"--state-file={made.home / 'state' / 'state.json'}")
        began_s = time.monotonic()
        with master(made.home, *flags) as running:
            await witness.until_whole()
            used, lags = usage(running.pid), await _lags(running)
        labels_s, hypernodes_s = (
            (kind.whole_s or 0.0) - began_s for kind in (witness.nodes, witness.hypernodes)
        )
        progress(f"labels {labels_s:.0f} s, HyperNodes {hypernodes_s:.0f} s")
        writes = made.writes()
        with master(made.home, *flags) as running:
            await _ready(running)
            await asyncio.sleep(_QUIET_S)
        return Seen(
            nodes_s=nodes_s,
            list=found,
            labels_s=labels_s,
            hypernodes_s=hypernodes_s,
            hypernodes=len(witness.hypernodes.right),
            writes=Counter(writes),
            wrong=witness.wrong,
            again=len(made.writes()) - len(writes),
            peak_mib=used.peak_mib,
            cpu_s=used.cpu_s,
            lags=lags,
        )


async def _ready(running: Master) -> None:
    """Returns when the master has listed all and shows its tree."""
    url = f"http://{LOOPBACK}:{running.api_port}/ready"
    async with ClientSession() as session:
        for _ in range(_LOOKS):
            async with session.get(url) as answer:
                if answer.status == HTTPStatus.OK:
                    return
            await asyncio.sleep(_LOOK_S)
    raise CannotRunError("a master that was started again does not become ready")


async def _lags(running: Master) -> Lags:
    url = f"http://{LOOPBACK}:{running.api_port}/metrics"
    async with ClientSession() as session, session.get(url) as answer:
        found = {float(le): float(count) for le, count in _LAG.findall(await answer.text())}
    looks = found[math.inf]
    bound_s = min(le for le, count in found.items() if count == looks)
    return Lags(int(looks - found[0.05]), int(looks), bound_s)

"""The sweeps of the subnets that this host's InfiniBand ports are on, one after the other.

A round runs `ibnetdiscover -C ADAPTER -P PORT` from each active port that no sweep of the round has
reached yet: ports of one subnet reach each other, so each subnet is swept once, and a subnet whose
first port fails is swept from the next. The words are fixed; ports come from the kernel's names.
"""

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import structlog

from topo.facts.infiniband import ibnetdiscover
from topo.facts.sysfs import infiniband
from topo.model.errors import Refusal
from topo.model.ids import natural_key
from topo.model.machine import NetworkPort, ProbeHealth, ProbeState
from topo.model.wire import (
    MAX_DUMP_BYTES,
    MAX_PACKED_DUMP_BYTES,
    MAX_SWEPT_PORTS,
    SweepReport,
    SweptPort,
)
from worker.metrics import Metrics
from worker.probes.commands import Command
from worker.probes.probe import READING_TIMEOUT_S, Probe, Reading, failed, read_in_time
from worker.probes.sysfs import SysfsReader
from worker.probes.sysfs import infiniband as read_adapters
from worker.sweeping.dump_text import DumpText, PackedDump

SWEEP_TIMEOUT_S = 300.0
"""The program asks each device in turn, and waits about a second for one that does not answer."""
_FOLDERS = ("/usr/sbin", "/sbin")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Swept:
    """The last dump from one port, when its sweep ended, and what was wrong with the last sweep.

    `is_new`: the last sweep gave it, whatever the program complained about.
    """

    dump: PackedDump | None = None
    ended_s: float = 0.0
    trouble: str = ""
    is_new: bool = False


class FabricSweeper:
    """Sweeps again and again; `ended` is set after each round."""

    def __init__(
        self,
        sysfs_root: Path,
        interval_s: float,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.ended = asyncio.Event()
        self.interval_s = interval_s
        self._metrics = metrics
        self._clock = clock
        self._adapters = Probe(
            name=infiniband.FORMAT,
            format=infiniband.FORMAT,
            interval_s=interval_s,
            timeout_s=READING_TIMEOUT_S,
            read=SysfsReader(read_adapters, sysfs_root).read,
        )
        self._swept: dict[str, _Swept] = {}
        self._trouble = "its first sweep is under way"
        self._last_s = clock()

    async def run(self) -> None:
        """Sweep until cancelled."""
        while True:
            await self._sweep_all()
            self._last_s = self._clock()
            self.ended.set()
            await asyncio.sleep(self.interval_s)

    @property
    def age_s(self) -> float:
        """The seconds since the last sweep ended."""
        return self._clock() - self._last_s

    def report(self) -> SweepReport:
        """Return what the sweeps gave, for the master."""
        now_s = self._clock()
        ports = tuple(
            SweptPort(
                port=name,
                digest=each.dump.digest if each.dump is not None else "",
                age_s=max(0.0, now_s - each.ended_s) if each.dump is not None else 0.0,
                trouble=each.trouble,
            )
            for name, each in sorted(self._swept.items())
        )
        return SweepReport(ports=ports, trouble=self._trouble)

    def dump(self, port: str) -> PackedDump | None:
        """Return the last dump from a port."""
        swept = self._swept.get(port)
        return swept.dump if swept is not None else None

    async def _sweep_all(self) -> None:
        """Sweep each subnet once. Dumps of ports that others reach now are dropped."""
        ports = await self._active_ports()
        if isinstance(ports, str):
            self._tell(ports)
            return
        reached: set[NetworkPort] = set()
        found: dict[str, _Swept] = {}
        for port in ports:
            if port not in reached and len(found) < MAX_SWEPT_PORTS:
                name = f"{port.hca}-{port.port}"
                found[name] = swept = await self._sweep(port, ports, self._swept.get(name))
                self._last_s = self._clock()
                if swept.dump is not None and swept.is_new:
                    reached |= swept.dump.reached
        covered = {f"{port.hca}-{port.port}" for port in reached}
        self._swept = {n: each for n, each in found.items() if each.is_new or n not in covered}
        self._tell("")

    async def _active_ports(self) -> tuple[NetworkPort, ...] | str:
        """Return the InfiniBand ports that are up, in the order of names, or why there are none."""
        reading = await read_in_time(self._adapters)
        if reading.state is not ProbeState.OK:
            return reading.detail
        parsed = infiniband.read(reading.text)
        if isinstance(parsed, Refusal):
            return str(parsed)[:200]
        ports = (p for fact in parsed.facts if isinstance(fact, tuple) for p in fact)
        usable = (p for p in ports if isinstance(p, NetworkPort) and p.up and not p.virtual)
        over = [p for p in usable if p.link_layer.lower() == "infiniband"]
        over.sort(key=lambda port: (natural_key(port.hca), port.port))
        return tuple(over) or "no InfiniBand port of this host is active"

    async def _sweep(
        self, port: NetworkPort, ports: tuple[NetworkPort, ...], before: _Swept | None
    ) -> _Swept:
        """Run the program from one port; a failure keeps the dump before it."""
        text = DumpText(ports)
        words = (ibnetdiscover.COMMAND, "-C", port.hca, "-P", str(port.port))
        command = Command(words, folders=_FOLDERS, limit_bytes=MAX_DUMP_BYTES)
        probe = Probe(
            name=ibnetdiscover.FORMAT,
            format=ibnetdiscover.FORMAT,
            interval_s=self.interval_s,
            timeout_s=SWEEP_TIMEOUT_S,
            read=partial(command.read, text.take),
        )
        began_s = self._clock()
        reading = await read_in_time(probe)
        ended_s = self._clock()
        dump = text.end()
        if len(dump.packed) > MAX_PACKED_DUMP_BYTES:
            reading = failed(f"the dump has more than {MAX_PACKED_DUMP_BYTES} bytes when packed")
        self._note(reading, ended_s - began_s)
        if reading.state is ProbeState.OK:
            return _Swept(dump, ended_s, reading.detail, is_new=True)
        return replace(before or _Swept(), trouble=reading.detail, is_new=False)

    def _note(self, reading: Reading, seconds: float) -> None:
        health = ProbeHealth(ibnetdiscover.FORMAT, reading.state, reading.detail)
        self._metrics.read(health, seconds)

    def _tell(self, trouble: str) -> None:
        """Log what is wrong where that is new."""
        self._trouble = trouble
        wrong = {name: each.trouble for name, each in self._swept.items() if each.trouble}
        if trouble or wrong:
            _log.warning("the fabric was not swept whole", trouble=trouble, ports=wrong)
        else:
            _log.info("the fabric was swept", dumps=sorted(self._swept))

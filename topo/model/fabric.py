"""A switched fabric as one dump of it states it: switches, adapters, cables."""

import re
from dataclasses import dataclass
from typing import NamedTuple, NewType

Guid = NewType("Guid", str)
"""The identity of a device on an InfiniBand fabric: 16 hexadecimal digits, lower case.

Of an adapter it is the node GUID, which its host shows as `node_guid`.
"""


def normalized_guid(text: str | None) -> Guid | None:
    """Return the GUID that a host writes as `b83f:d203:00c0:0000` or `0xb83f…`; None for none."""
    digits = (text or "").lower().removeprefix("0x").replace(":", "")
    return Guid(digits.zfill(16)) if _HEXADECIMAL.fullmatch(digits) and digits.strip("0") else None


_HEXADECIMAL = re.compile(r"[0-9a-f]{1,16}")
_LANE_GBPS = {
    "SDR": 2.5,
    "DDR": 5.0,
    "QDR": 10.0,
    "FDR10": 10.3,
    "FDR": 14.1,
    "EDR": 25.8,
    "HDR": 53.1,
    "NDR": 106.3,
    "XDR": 212.5,
}
"""Of one lane, before coding. Source: InfiniBand Architecture Specification, volume 2."""


class Port(NamedTuple):
    """A port of a device, numbered from 1."""

    device: Guid
    number: int


class Cable(NamedTuple):
    """A cable between two ports, the lesser one first; `rate` is width and speed: `4xNDR`."""

    one: Port
    other: Port
    rate: str


@dataclass(frozen=True, slots=True)
class FabricSwitch:
    """A switch: its name as people know it, and the number of its ports."""

    guid: Guid
    name: str
    ports: int


@dataclass(frozen=True, slots=True)
class FabricAdapter:
    """A host's adapter and what its driver calls it: `gpu-01 mlx5_0`, or no host at all."""

    guid: Guid
    description: str


@dataclass(frozen=True, slots=True)
class FabricDump:
    """One dump: what is reached from one port. A subnet without a cable to it is in none of it.

    `made_at` orders dumps: when the file was written or the sweep ended, in seconds since 1970, as
    who read it says; 0 if nobody does.
    `missing` says in words what a dump that was cut off lacks, and is empty for a whole one.
    """

    switches: tuple[FabricSwitch, ...]
    adapters: tuple[FabricAdapter, ...]
    cables: tuple[Cable, ...]
    made_at: float = 0.0
    missing: str = ""


SLOWER = 0.9
"""Below this share of the speed that is expected a cable is slow: names of rates are rounded."""


def gbps(rate: str) -> float:
    """Return the speed of `4xNDR` or `400G` in Gbit/s; 0 for a speed that is not known."""
    width, _, speed = rate.partition("x")
    if match := _GBPS.fullmatch(rate):
        return float(match[1])
    return int(width) * _LANE_GBPS.get(speed, 0.0) if width.isdecimal() else 0.0


_GBPS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,4})?)G", re.ASCII)


def newest_rate(rate: str, own_gbps: float) -> str:
    """Return how fast a cable is: as the host at its end says, 0 if it does not, else `rate`.

    Hosts state the speed of the data, dumps that of the lanes, which is up to 6 % more: that is one
    speed, and called as the dump has it.
    """
    dumped = gbps(rate)
    is_same = SLOWER * dumped <= own_gbps and SLOWER * own_gbps <= dumped
    return rate if not own_gbps or is_same else f"{own_gbps:g}G"

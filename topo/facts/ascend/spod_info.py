"""`npu-smi info -t spod-info -i CARD -c CHIP`: which Ascend super pod a chip belongs to.

    SDID : 16777216
    Super Pod Size : 384
    Super Pod ID : 0
    Server Index : 4

The tool prints one chip; a text has the outputs of all chips of a host, one after the other. An
SDID is `server << 22 | chip << 18 | die << 16 | device`, which holds for all 112 of a public map, a
rank table and a public output. So it says by itself which device of the host it is, and a server
index that was cut off does not fit it. "0" is a valid id. -1, -2 and 0xffffffff are what the driver
and the tools above it write for no super pod; so does a size that is not positive.

Sources: public outputs of an Atlas 900 A3 (one chip each, the keys padded, after a tab); A5 adds
`RackId` [mind-cluster, `ascend-device-plugin`, `manager.go`]. O(len(text)).
"""

import re
from dataclasses import dataclass

from topo.facts.reading.text import WHOLE_TEXT, numbered_lines, stated
from topo.model.errors import Refusal
from topo.model.ids import SUPER_POD
from topo.model.machine import MAX_GPUS, MAX_SERVERS, FabricKind, Gpu, GpuFabric
from topo.model.observation import ParsedProbe

FORMAT = "npu-smi-spod-info"
COMMAND = "npu-smi info -t spod-info -i 0 -c 0"
BEGINS = re.compile(r"^[ \t]*SDID[ \t]*:[ \t]*([0-9]{1,10})", re.MULTILINE)
_MARK = re.compile(r"^[ \t]*Super Pod (?:ID|Size)[ \t]*:|^[ \t]*SDID[ \t]*:", re.MULTILINE)
_PAIR = re.compile(r"[ \t]*([A-Za-z][A-Za-z ]{1,30}?)[ \t]*:[ \t]*(-?[0-9]{1,10})[ \t]*", re.ASCII)
_SDID, _SIZE, _POD, _SERVER, _RACK = "sdid", "superpodsize", "superpodid", "serverindex", "rackid"
_NEEDED = (_SDID, _SIZE, _POD, _SERVER)
_UNSET = (1 << 32) - 1
_FIX = f"give the whole output of `{COMMAND}`, of one chip after the other"


@dataclass(frozen=True, slots=True)
class _Chip:
    """What is printed of one chip, and from which line on."""

    line: int
    said: dict[str, int]

    def number(self, key: str) -> int | None:
        """Return what a key says; None for nothing."""
        found = self.said.get(key, -1)
        return found if 0 <= found < _UNSET else None


def recognises(text: str) -> bool:
    """Return whether a line is of this output. O(len(text))."""
    return ("SDID" in text or "Super Pod" in text) and _MARK.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the chips of a host with their super pod; refused where one is not whole or twice."""
    chips: list[_Chip] = []
    for number, line in numbered_lines(text):
        if not line.strip():
            continue
        match = _PAIR.fullmatch(line)
        key = match[1].replace(" ", "").casefold() if match else ""
        if match is None or (key != _SDID and (not chips or key in chips[-1].said)):
            what = "this line is none of the output, or is cut"
            return Refusal(what, f"line {number}", _FIX)
        if key == _SDID:
            chips.append(_Chip(number, {}))
        chips[-1].said[key] = int(match[2])
    return _broken(chips) or _understood(chips)


def _broken(chips: list[_Chip]) -> Refusal | None:
    """Return why the chips are not those of one host, each whole and once."""
    lines: dict[int, int] = {}
    for chip in chips:
        missing = [key for key in _NEEDED if key not in chip.said]
        if missing:
            what = f"the chip has no {missing[0]}: the text is cut"
            return Refusal(what, f"line {chip.line}", _FIX)
        sdid = chip.said[_SDID]
        before = lines.setdefault(sdid, chip.line)
        if before != chip.line:
            what = f"SDID {sdid} stands also in line {before}: is the text given twice?"
            return Refusal(what, f"line {chip.line}", _FIX)
    if len(chips) > MAX_GPUS:
        return Refusal(f"{len(chips)} chips are more than {MAX_GPUS}", WHOLE_TEXT, _FIX)
    return None


def _understood(chips: list[_Chip]) -> ParsedProbe:
    warnings: list[str] = []
    devices = [chip.said[_SDID] & 0xFFFF for chip in chips]
    if len(set(devices)) < len(devices) or max(devices, default=0) >= MAX_GPUS:
        warnings.append("the SDIDs do not number the chips, which are counted as they come")
        devices = list(range(len(chips)))
    fabrics = tuple(map(_fabric, devices, chips))
    for chip, fabric in zip(chips, fabrics, strict=True):
        stated_by_sdid = chip.said[_SDID] >> 22
        if fabric.server is not None and fabric.server != stated_by_sdid:
            what = f"server index {fabric.server}, and an SDID of server {stated_by_sdid}"
            warnings.append(f"line {chip.line}: {what}")
    return stated(FORMAT, (tuple(map(Gpu, devices)), fabrics), warnings)


def _fabric(device: int, chip: _Chip) -> GpuFabric:
    pod, size, server = map(chip.number, (_POD, _SIZE, _SERVER))
    if pod is None or not size or server is None or server > MAX_SERVERS:
        return GpuFabric(device, "N/A", kind=FabricKind.SUPER_POD)
    rack = chip.number(_RACK)
    return GpuFabric(
        device,
        "Completed",
        "Success",
        cluster_uuid=f"{SUPER_POD}-{pod}",
        server=server,
        size=size,
        rack=None if rack is None else str(rack),
        kind=FabricKind.SUPER_POD,
    )

"""`/sys/class/infiniband` flattened to lines `path: content`.

Keys: `<hca>/node_guid`, `<hca>/device/{numa_node,realpath,uevent,physfn/realpath}`,
`<hca>/device/net` (the names in that folder, with spaces between), `<hca>/device/net/<n>/carrier`,
`<hca>/ports/<n>/{state,phys_state,rate,link_layer}`; others are passed over, those of counters for
`port_counters`. Source: kernel documentation ABI/stable/sysfs-class-infiniband and an H100 host.

Drivers call a RoCE port Disabled both where its network device is off and where it has no carrier
(mlx5_query_port_roce, bnxt_re_query_port). `carrier` tells them apart: it is 0 without a carrier,
and no file can be read of a device that is off (carrier_show in net/core/net-sysfs.c).
"""

import re
from dataclasses import dataclass, field

from topo.facts.reading import folding
from topo.facts.reading.identity import known, last_bdf
from topo.facts.reading.text import WHOLE_TEXT, bounded, in_range, numbered_lines, shorten, whole
from topo.facts.sysfs import roots
from topo.model.errors import Refusal
from topo.model.machine import MAX_NICS, MAX_NUMA, NetworkPort
from topo.model.observation import ParsedProbe

FORMAT = "sysfs-infiniband"
_TREE = "class/infiniband/"
_PORT = re.compile(r"ports/([0-9]{1,3})/(\w{1,40})", re.ASCII)
_LINE = re.compile(rf"[ \t]*(\S{{0,160}}?){_TREE}([\w.-]{{1,64}})(?:/([^:]*))?:(.*)", re.ASCII)
PATH: re.Pattern[str] = re.compile(
    rf"^[ \t]*(\S{{0,160}}?{_TREE}[\w.-]{{1,64}}/[\w./-]{{1,120}}):", re.ASCII | re.MULTILINE
)
"""A path begins its line: what stands before it names whose line it is, see `prefixes`."""
_RATE = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,4})?)\s*Gb/sec", re.ASCII)
_STATE = re.compile(r"(?:[0-9]{1,2}:\s*)?(.{0,100})")
_ADDRESSED = frozenset({"device", "device/realpath", "device/uevent", "realpath", ""})
_PHYSICAL_FUNCTION = "device/physfn/realpath"
"""Only a virtual function has one (Documentation/PCI/pci-iov-howto.rst)."""
_UP = ("ACTIVE", "LINKUP")
_SWITCHED_OFF, _NO_CARRIER = "DISABLED", "NoCarrier"
_ETHERNET = "Ethernet"
_MAX_PORT = 256
_MAX_INTERFACES = 16


@dataclass(slots=True)
class _Hca:
    words: dict[str, str] = field(default_factory=dict)
    ports: dict[int, dict[str, str]] = field(default_factory=dict)


def recognises(text: str) -> bool:
    """Return whether `text` has a line of the tree. O(len(text))."""
    return _TREE in text and PATH.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the host's InfiniBand and RoCE ports; up means state ACTIVE and physical state LinkUp.

    A port without a state is left out with a warning. Refused: lines of several trees, no port,
    more than `MAX_NICS`.
    """
    hcas: dict[str, _Hca] = {}
    trees: dict[str, None] = {}
    for _, line in numbered_lines(text):
        match = _LINE.fullmatch(line) if _TREE in line else None
        if match is not None:
            root, name, key, word = match.groups(default="")
            trees.setdefault(root)
            _note(hcas.setdefault(name, _Hca()), key, word.strip())
    if (refusal := roots.conflict(trees)) is not None:
        return refusal
    warnings = folding.open_paths(text, _TREE)
    ports: list[NetworkPort] = []
    for name, hca in hcas.items():
        if not hca.ports:
            warnings.append(f"{name} has no port and was left out")
        for number, words in sorted(hca.ports.items()):
            if "state" in words:
                ports.append(_port(name, number, hca))
            else:
                warnings.append(f"{name} port {number} has no state and was left out")
    if not ports or len(ports) > MAX_NICS:
        what = f"{len(ports)} InfiniBand ports are more than {MAX_NICS}" if ports else "no port"
        fix = "give the lines `path: content` of /sys/class/infiniband, as `--record` writes them"
        return Refusal(what, WHOLE_TEXT, fix)
    return ParsedProbe(FORMAT, (tuple(ports),), bounded(warnings))


def _note(hca: _Hca, key: str, word: str) -> None:
    port = _PORT.fullmatch(key)
    if port is None:
        hca.words.setdefault(key, word)
    elif int(port.group(1)) <= _MAX_PORT:
        hca.ports.setdefault(int(port.group(1)), {}).setdefault(port.group(2), word)


def _port(name: str, number: int, hca: _Hca) -> NetworkPort:
    words = hca.ports[number]
    state, physical = _name(words["state"]), _name(words.get("phys_state", ""))
    rate = _RATE.match(words.get("rate", ""))
    interfaces = hca.words.get("device/net", "").split()[:_MAX_INTERFACES]
    if physical.upper() == _SWITCHED_OFF and words.get("link_layer") == _ETHERNET:
        carriers = {hca.words.get(f"device/net/{each}/carrier") for each in interfaces}
        physical = _NO_CARRIER if carriers == {"0"} else physical
    paths = [hca.words[key] for key in _ADDRESSED if key in hca.words]
    guid = known(shorten(hca.words.get("node_guid", "")))
    return NetworkPort(
        hca=name,
        port=number,
        up=(state.upper(), physical.upper() or _UP[1]) == _UP,
        state=state,
        phys_state=physical,
        rate_gbps=float(rate.group(1)) if rate else None,
        link_layer=shorten(words.get("link_layer", "")),
        node_guid=guid.lower() if guid else None,
        bdf=next((bdf for bdf in map(last_bdf, sorted(paths)) if bdf), None),
        numa=in_range(whole(hca.words.get("device/numa_node", ""), 5), MAX_NUMA),
        virtual=_PHYSICAL_FUNCTION in hca.words,
        interfaces=tuple(map(shorten, interfaces)),
    )


def _name(word: str) -> str:
    """Return the name of a state: `ACTIVE` of `4: ACTIVE`."""
    match = _STATE.fullmatch(word)
    return shorten(match.group(1)) if match else ""

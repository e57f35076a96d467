"""Fabrics of the tests, and the text that ibnetdiscover would print of them.

Only devices, cables and the format's own words: it shares no line with the reader.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

NDR = "4xNDR"
MADE = "Mon Nov 23 16:10:47 2026"


@dataclass(frozen=True)
class Device:
    """A switch, or an adapter; `system` is the GUID of the machine that it is a part of."""

    guid: str
    description: str
    is_switch: bool = False
    ports: int = 1
    system: str = ""

    @property
    def key(self) -> str:
        """As blocks name it."""
        return f"{'S' if self.is_switch else 'H'}-{self.guid}"


_Ports = defaultdict[str, dict[int, tuple[str, int, str]]]


@dataclass
class Fabric:
    """Devices by GUID, and at each port the far end and the speed."""

    devices: dict[str, Device] = field(default_factory=dict)
    ends: dict[tuple[str, int], tuple[str, int, str]] = field(default_factory=dict)
    _taken: dict[str, int] = field(default_factory=dict)
    """By GUID a number of ports from the first one that all have a cable."""

    def switch(self, name: str, ports: int = 65) -> str:
        """A switch with an aggregation node in its last port, as Quantum-2 has; its GUID."""
        guid = f"{0xFC6A1C0300A00000 + len(self.devices) * 16:016x}"
        self.devices[guid] = Device(guid, f"MF0;{name}:MQM9700/U1", True, ports, guid)
        inside = f"{int(guid, 16) + 16:016x}"
        self.devices[inside] = Device(inside, "Mellanox Technologies Aggregation Node", system=guid)
        self.cable((guid, ports), (inside, 1))
        return guid

    def adapter(self, description: str) -> str:
        """An adapter of one port; its GUID."""
        guid = f"b83fd20300c{len(self.devices):05x}"
        self.devices[guid] = Device(guid, description)
        return guid

    def cable(self, one: tuple[str, int], other: tuple[str, int], rate: str = NDR) -> None:
        """A cable between two ports; each is (GUID, number)."""
        self.ends[one] = (*other, rate)
        self.ends[other] = (*one, rate)

    def plug(self, adapter: str, switch: str, rate: str = NDR) -> None:
        """A cable from an adapter to the next free port of a switch."""
        self.cable((adapter, 1), (switch, self.free_port(switch)), rate)

    def trunk(self, one: str, other: str) -> None:
        """A cable between two switches."""
        self.cable((one, self.free_port(one)), (other, self.free_port(other)))

    def free_port(self, guid: str) -> int:
        """The least port without a cable."""
        ports = range(self._taken.get(guid, 0) + 1, self.devices[guid].ports)
        found = next(number for number in ports if (guid, number) not in self.ends)
        self._taken[guid] = found - 1
        return found

    def cut(self, guid: str, port: int = 1) -> None:
        """Take a cable out; an adapter without one is in no dump."""
        far, far_port, _ = self.ends.pop((guid, port))
        del self.ends[far, far_port]
        self._taken.clear()

    def dump(self, start: str, made: str = MADE) -> str:
        """The output of ibnetdiscover on the host of this adapter."""
        at = self._ports()
        return self._text(at, start, self._reached(at, start), made)

    def dumps(self) -> Iterator[str]:
        """A dump of each subnet that a switch holds together; adapters are in as many as cabled."""
        at, told = self._ports(), set[str]()
        for start in [guid for guid, device in self.devices.items() if device.is_switch]:
            if start not in told:
                reached = self._reached(at, start)
                told.update(reached)
                yield self._text(at, start, reached, MADE)

    def links(self) -> str:
        """What UFM answers of the cables, aggregation nodes among them, either end first."""
        found: list[dict[str, str]] = []
        for at, (far, port, _) in sorted(self.ends.items(), key=lambda end: end[0][0][::-1]):
            ends = {"source": at, "destination": (far, port)}
            if at < (far, port):
                link = {"width": "4x", "severity": "Info"}
                for side, (guid, number) in ends.items():
                    link |= self._told_by_ufm(side, guid, number)
                found.append(link)
        return json.dumps(found, indent=2)

    def _told_by_ufm(self, side: str, guid: str, number: int) -> dict[str, str]:
        device = self.devices[guid]
        name = device.description
        if device.is_switch:
            name = f"{name.split(';')[1].split(':')[0]}:1/{number}"
        return {
            f"{side}_guid": guid,
            f"{side}_port": str(number),
            f"{side}_port_dname": f"1/{number}" if device.is_switch else "HCA-1/1",
            f"{side}_port_name": f"{guid}_{number}",
            f"{side}_port_node_description": name,
        }

    def _ports(self) -> _Ports:
        found: _Ports = defaultdict(dict)
        for (guid, port), end in sorted(self.ends.items()):
            found[guid][port] = end
        return found

    def _reached(self, at: _Ports, start: str) -> list[str]:
        """What one dump shows: through switches, never across an adapter."""
        found, edge = {start: None}, [start]
        while edge:
            here = edge.pop()
            if here == start or self.devices[here].is_switch:
                new = [far for far, _, _ in at[here].values() if far not in found]
                found |= dict.fromkeys(new)
                edge += dict.fromkeys(new)
        return sorted(found, key=lambda guid: not self.devices[guid].is_switch)

    def _text(self, at: _Ports, start: str, reached: Iterable[str], made: str) -> str:
        head = f"#\n# Topology file: generated on {made}\n#\n"
        head += f"# Initiated from node {start} port {start}\n"
        return head + "".join(self._block(guid, at[guid]) for guid in reached)

    def _block(self, guid: str, ports: Mapping[int, tuple[str, int, str]]) -> str:
        """The block of one device."""
        device = self.devices[guid]
        system = device.system or guid
        lines = ["", "vendid=0x2c9", "devid=0x1021", f"sysimgguid=0x{system}"]
        if device.is_switch:
            lines += [f"switchguid=0x{guid}({guid})"]
            tail = "enhanced port 0 lid 2 lmc 0"
            lines += [f'Switch\t{device.ports} "{device.key}"\t\t# "{device.description}" {tail}']
        else:
            lines += [f"caguid=0x{guid}", f'Ca\t1 "{device.key}"\t\t# "{device.description}"']
        for port, (far, far_port, rate) in ports.items():
            other = self.devices[far]
            shown = f'"{other.key}"[{far_port}]'
            if device.is_switch:
                at = "" if other.is_switch else f"({far})"
                lines += [f'[{port}]\t{shown}{at}\t\t# "{other.description}" lid 7 {rate}']
            else:
                near = f'lid 7 lmc 0 "{other.description}" lid 2 {rate}'
                lines += [f"[{port}]({guid})\t{shown}\t\t# {near}"]
        return "\n".join(lines) + "\n"


@dataclass
class Built:
    """A fabric with its hosts: `adapters` has the GUIDs of each, rail by rail."""

    fabric: Fabric
    adapters: dict[str, list[str]]
    leaves: dict[str, str]
    """The GUIDs of the leaves by their names."""

    def text(self, host: str = "") -> str:
        """The dump on a host, from its first adapter with a cable; of the first host if none."""
        adapters = self.adapters[host or next(iter(self.adapters))]
        cabled = [each for each in adapters if (each, 1) in self.fabric.ends]
        return self.fabric.dump((cabled or adapters)[0])


def rails(units: Sequence[Sequence[str]], rails_: int, spines: int = 1) -> Built:
    """Units of hosts: each adapter of a host on a leaf of its own, leaves on every spine."""
    fabric = Fabric()
    adapters: dict[str, list[str]] = {}
    leaves: dict[str, str] = {}
    ports = max(65, len(units) * rails_ + 1)
    tops = [fabric.switch(f"ib-spine-{number:02}", ports) for number in range(1, spines + 1)]
    for number, hosts in enumerate(units, start=1):
        for rail in range(1, rails_ + 1):
            name = f"ib-su{number}-leaf-{rail:02}"
            leaf = leaves[name] = fabric.switch(name)
            for top in tops:
                fabric.trunk(leaf, top)
            for host in hosts:
                made = fabric.adapter(f"{host} mlx5_{rail - 1}")
                adapters.setdefault(host, []).append(made)
                fabric.plug(made, leaf)
    return Built(fabric, adapters, leaves)


def pairs(leaves: int, spines: int = 1) -> Built:
    """The shape of dragonflies: two hosts on each leaf, with one adapter each."""
    hosts = [[f"gpu-{2 * leaf + each:02}" for each in (1, 2)] for leaf in range(leaves)]
    return rails(hosts, 1, spines)


def joined(dumps: Iterable[str]) -> Mapping[str, str]:
    """The files of a folder with these dumps."""
    return {f"subnet-{number}.txt": text for number, text in enumerate(dumps)}


def write_adapters(folder: Path, **guids: str) -> None:
    """Writes the sysfs of a host with these adapters, all up, below `folder`."""
    for name, guid in guids.items():
        port = folder / f"sys/class/infiniband/{name}/ports/1"
        port.mkdir(parents=True)
        words = {"state": "4: ACTIVE", "phys_state": "5: LinkUp", "link_layer": "InfiniBand"}
        for file, content in words.items():
            (port / file).write_text(f"{content}\n")
        grouped = ":".join(guid[at : at + 4] for at in range(0, 16, 4))
        (port.parent.parent / "node_guid").write_text(f"{grouped}\n")

"""Fabrics in which somebody plugged cables wrongly, with the plan and what must be found.

The model is the list of what was done. It knows no circles and chains, and no judge.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from random import Random

from tests.support.fabric import Fabric
from tests.support.fabric_shapes import Shape, shaped
from topo.facts.infiniband import ibnetdiscover
from topo.facts.plans.plan import End
from topo.model.errors import Refusal
from topo.model.fabric import FabricDump

Found = tuple[str, frozenset[End]]
"""A verdict, and the ports that have to do with it."""
_Port = tuple[str, int]
_TIERS = ("gpu", "leaf", "spine", "core")
WRONG = ("wrong-port", "wrong-rail", "wrong-end")


@dataclass
class Miswired:
    """A fabric, its cables as they were planned, and the findings that what was done must give."""

    fabric: Fabric
    draw: Random
    planned: list[tuple[_Port, _Port]] = field(default_factory=list)
    expected: set[Found] = field(default_factory=set)
    _names: dict[str, str] = field(default_factory=dict)
    """What adapters were called."""
    _untouched: list[int] = field(default_factory=list)
    _leaves: dict[str, list[str]] = field(default_factory=dict)
    """By adapter the leaves at which its host has one."""
    _switches: dict[str, None] = field(default_factory=dict)
    """All leaves, in an order."""

    @classmethod
    def of(cls, shape: Shape, hosts: int, seed: int) -> "Miswired":
        """A fabric of this shape without a fault."""
        made = cls(shaped(shape, hosts), Random(seed))  # noqa: S311 - examples, no secrets
        devices, at = made.fabric.devices, dict[str, list[str]]()
        for one, (far, port, _) in made.fabric.ends.items():
            other = far, port
            if (made._tier(one), one) < (made._tier(other), other) and made._tier(one) >= 0:
                made.planned.append((one, other))
                if not devices[one[0]].is_switch:
                    own = at.setdefault(made.words(one).device, [])
                    made._leaves[one[0]] = own
                    own += [far] if far not in own else []
        made._switches = dict.fromkeys(far for own in at.values() for far in own)
        made._untouched = made.draw.sample(range(len(made.planned)), len(made.planned))
        return made

    def _tier(self, port: _Port) -> int:
        """How far up a device is; -1 of what is inside of a switch."""
        if "Aggregation" in self.fabric.devices[port[0]].description:
            return -1
        return next(n for n, name in enumerate(_TIERS) if self.words(port).device.startswith(name))

    def words(self, port: _Port) -> End:
        """A port as people name it."""
        device, number = self.fabric.devices[port[0]], port[1]
        if device.is_switch:
            return End(device.description.split(";")[1].split(":")[0], str(number))
        name = self._names.get(device.guid, device.description)
        host, _, adapter = name.partition(" ")
        return End(host, adapter)

    @classmethod
    def at_random(cls, shape: Shape, hosts: int, seed: int) -> "Miswired":
        """In each 400 cables a swap, one or two that share a cable, and a fault of each other kind.

        In a quarter of the first an adapter names no host.
        """
        made = cls.of(shape, hosts, seed)
        for _ in range(-(-len(made.planned) // 400)):
            made.swap("", "", is_nameless=made.draw.random() < 0.25)
            made.swap(*made.draw.choice((("", ""), ("", "", ""))))
            made.unname()
            made.cut()
            made.slow_down()
            for verdict in WRONG:
                made.move(verdict, to_lost=made.draw.random() < 0.5)
        return made

    def dumps(self) -> Iterator[FabricDump]:
        """The dumps as they are read from files; `parse` takes no text of so many devices."""
        for text in self.fabric.dumps():
            found = ibnetdiscover.read(text)
            assert not isinstance(found, Refusal), found
            assert found.warnings == ()
            yield from (each for each in found.facts if isinstance(each, FabricDump))

    def astray(self) -> set[str]:
        """The hosts with an adapter, of those with a name, at a leaf of other hosts."""
        return {
            self.words((adapter, 1)).device
            for adapter, own in self._leaves.items()
            if adapter not in self._names and (adapter, 1) in self.fabric.ends
            for far in (self.fabric.ends[adapter, 1][0],)
            if far in self._switches and far not in own
        }

    def swap(self, *below: str, is_nameless: bool = False) -> None:
        """Exchange the upper plug of each cable with that of the next one.

        `below`: how the names of the devices at their lower ends begin. `is_nameless`: an adapter
        names no host.
        """
        taken = [self._take(each) for each in below]
        if is_nameless:
            self._unname(self.planned[taken[0]][0][0])
        for one, other in pairwise(taken):
            (a, b), (c, d) = self._now(one), self._now(other)
            self.fabric.cable(a, d)
            self.fabric.cable(c, b)
        self._expect("swap", [port for each in taken for port in self.planned[each]])

    def _take(self, below: str) -> int:
        found = (n for n in reversed(self._untouched) if self._is_above(n, below))
        number = next(found)
        self._untouched.remove(number)
        return number

    def _is_above(self, number: int, below: str) -> bool:
        return not below or self.words(self.planned[number][0]).device.startswith(below)

    def cut(self) -> None:
        """Take out a cable."""
        number = self._untouched.pop()
        self.fabric.cut(*self.planned[number][0])
        self._expect("missing", self.planned[number])

    def unname(self) -> None:
        """Have an adapter name no host."""
        number = next(n for n in reversed(self._untouched) if self.planned[n][0][0] in self._leaves)
        self._untouched.remove(number)
        (guid, _), upper = self.planned[number]
        self._unname(guid)
        ends = (self.words((guid, 1)), self.words(upper), End(f"unnamed {guid}", "1"))
        self.expected.add(("unnamed", frozenset(ends)))

    def _unname(self, guid: str) -> None:
        device = self.fabric.devices[guid]
        if not device.is_switch:
            self._names[guid] = device.description
            description = "MT4129 ConnectX7   Mellanox Technologies"
            self.fabric.devices[guid] = replace(device, description=description)

    def slow_down(self) -> None:
        """Have a cable run at half of its speed."""
        number = self._untouched.pop()
        self.fabric.cable(*self.planned[number], "4xHDR")
        self._expect("slow", self.planned[number])

    def move(self, verdict: str, *, to_lost: bool = False) -> None:
        """Move the upper plug of a host's cable: to its leaf, another of the host, or any other.

        `to_lost`: to the port of a cable that is taken out for that. Nothing where no cable can be.
        """
        if verdict == "wrong-rail" and all(len(own) < 2 for own in self._leaves.values()):
            return
        for number in reversed(self._untouched):
            one, other = self.planned[number]
            own = self._leaves.get(one[0], [])
            leaves = self._elsewhere(verdict, other[0], own) if own else []
            if leaves:
                break
        else:
            return
        self._untouched.remove(number)
        leaf = self.draw.choice(leaves)
        lost = self._another_host(leaf, one) if to_lost else None
        target = leaf, self._highest_free(leaf)
        if lost is not None:
            self._untouched.remove(lost)
            target = self.planned[lost][1]
            self.fabric.cut(*target)
            self._expect("missing", self.planned[lost])
        self.fabric.cut(*one)
        self.fabric.cable(one, target)
        self._expect(verdict, [one, other, target])

    def _elsewhere(self, verdict: str, leaf: str, own: list[str]) -> list[str]:
        if verdict == "wrong-port":
            return [leaf]
        if verdict == "wrong-rail":
            return [each for each in own if each != leaf]
        return [each for each in self._switches if each not in own]

    def _another_host(self, leaf: str, one: _Port) -> int | None:
        """A cable at this leaf of another host: two adapters of one may be confused as easily."""
        host = self.words(one).device
        return next(
            (
                n
                for n in reversed(self._untouched)
                if self.planned[n][1][0] == leaf and self.words(self.planned[n][0]).device != host
            ),
            None,
        )

    def _now(self, number: int) -> tuple[_Port, _Port]:
        one = self.planned[number][0]
        return one, self.fabric.ends[one][:2]

    def _highest_free(self, guid: str) -> int:
        ports = range(self.fabric.devices[guid].ports - 1, 0, -1)
        return next(n for n in ports if (guid, n) not in self.fabric.ends)

    def _expect(self, verdict: str, ports: Iterable[_Port]) -> None:
        self.expected.add((verdict, frozenset(map(self.words, ports))))


def plans(made: Miswired) -> dict[str, str]:
    """The plan in each cheap format; the first two say how fast a cable is to be."""
    ends = [(made.words(one), made.words(other)) for one, other in made.planned]
    csv = [f"{a},{p},{b},{q},4xNDR" for (a, p), (b, q) in ends]
    dot = [f'"{a}":"{p}" -- "{b}":"{q}"' for (a, p), (b, q) in ends]
    cvt = [f"A1,1,{a},{p},B1,2,{b},{q}" for (a, p), (b, q) in ends]
    topo: dict[str, list[str]] = {}
    for (a, p), (b, q) in ends:
        far = f"MQM9700 {a} P{p}" if p.isdigit() else f"HCA_mlx5_1 {a} {p}/P1"
        topo.setdefault(b, []).append(f"   P{q} -4x-100G-> {far}")
    return {
        "csv": _text("a_node,a_port,z_node,z_port,rate", csv),
        "topo": _text("", (line for b, at in topo.items() for line in (f"MQM9700 {b}", *at))),
        "dot": _text("graph fabric {", [*dot, "}"]),
        "cvt": _text("Rack,U,Name,HCA/Port,Rack,U,Name,Port", cvt),
    }


def _text(head: str, lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (head, *lines) if line)

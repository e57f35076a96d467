"""A simulated NetBox or Nautobot: lists of cables over HTTPS, by pages, for who has the token.

What it answers is NetBox 4.4's: `count`, `next` and `previous` with whole URLs, cables with
`a_terminations` and `b_terminations`, at most `max_page` of a page whatever limit is asked for,
403 with a `detail` without the right token. As Nautobot 3.2 it has cables, interfaces, devices,
racks and statuses with UUIDs in a list each, and refuses a parameter that it does not know. Which
cables and racks there are is our own. `interrupt` is called with each offset before a page of
cables is made, so a test changes the list between two pages.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from uuid import NAMESPACE_URL, uuid5

from aiohttp import web

from topo.sim.certificates import Authority
from topo.sim.tls_server import serving

PATH, DEVICES = "/api/dcim/cables/", "/api/dcim/devices/"
_NAUTOBOT_PATHS = ("/api/dcim/interfaces/", "/api/dcim/racks/", "/api/extras/statuses/")
_NAUTOBOT_KNOWS = {"limit", "offset", "sort", "depth", "has_cable"}


class NetBoxCable(NamedTuple):
    """A cable between two interfaces: its id, and device and interface at both ends."""

    number: int
    one: tuple[str, str]
    other: tuple[str, str]
    status: str = "connected"


@dataclass(slots=True)
class SimulatedNetBox:
    """What it holds and how it is reached. `asked` has the queries that it answered.

    `racks` has those of devices by name; a device may be in none.
    """

    cables: list[NetBoxCable]
    token: str
    is_nautobot: bool = False
    racks: Mapping[str, str] = field(default_factory=dict)
    max_page: int = 1000
    url: str = ""
    ca_file: Path = Path()
    asked: list[dict[str, str]] = field(default_factory=list)
    interrupt: Callable[[int], web.Response | None] = lambda _: None

    async def answer(self, request: web.Request) -> web.Response:
        """Return one page of a list, in the order of their ids."""
        scheme = "Bearer" if self.token.startswith("nbt_") else "Token"
        if request.headers.get("Authorization") != f"{scheme} {self.token}":
            return web.json_response({"detail": "Invalid token"}, status=403)
        query = dict(request.query)
        if self.is_nautobot and (unknown := query.keys() - _NAUTOBOT_KNOWS):
            return web.json_response(
                {name: ["Unknown filter field"] for name in unknown}, status=400
            )
        limit = min(int(query.get("limit") or 50), self.max_page)
        offset = int(query.get("offset") or 0)
        if request.path == PATH:
            self.asked.append(query)
            if (instead := self.interrupt(offset)) is not None:
                return instead
        there = (self._nautobot if self.is_nautobot else self._netbox)(request.path)
        return web.json_response(
            {
                "count": len(there),
                "next": self._link(request.path, limit, offset + limit, len(there)),
                "previous": self._link(request.path, limit, max(0, offset - limit), offset),
                "results": there[offset : offset + limit],
            }
        )

    def _link(self, path: str, limit: int, offset: int, below: int) -> str | None:
        return f"{self.url}{path}?limit={limit}&offset={offset}" if offset < below else None

    def _netbox(self, path: str) -> Sequence[dict[str, Any]]:
        ids = {name: number for number, name in enumerate(self._names(), 1)}
        if path == DEVICES:
            racks = {name: {"name": rack, "display": rack} for name, rack in self.racks.items()}
            return [{"id": number, "rack": racks.get(name)} for name, number in ids.items()]
        return [
            {
                "id": cable.number,
                "url": f"{self.url}{PATH}{cable.number}/",
                "display": f"#{cable.number}",
                "type": "dac-passive",
                "a_terminations": [_termination(*cable.one, ids[cable.one[0]])],
                "b_terminations": [_termination(*cable.other, ids[cable.other[0]])],
                "status": {"value": cable.status, "label": cable.status.title()},
                "label": "",
            }
            for cable in sorted(self.cables)
        ]

    def _names(self) -> Sequence[str]:
        return sorted({name for cable in self.cables for name, _ in (cable.one, cable.other)})

    def _nautobot(self, path: str) -> Sequence[dict[str, Any]]:
        ends = sorted({end for cable in self.cables for end in (cable.one, cable.other)})
        kind = path.rstrip("/").rpartition("/")[2]
        if kind == "interfaces":
            return [
                _nautobot_object("dcim.interface", "/".join(end), end[1], device=_brief(end[0]))
                for end in ends
            ]
        if kind == "devices":
            racks = {name: _brief(f"rack {rack}") for name, rack in self.racks.items()}
            return [
                _nautobot_object("dcim.device", name, name, rack=racks.get(name))
                for name in self._names()
            ]
        if kind == "racks":
            named = sorted(set(self.racks.values()))
            return [_nautobot_object("dcim.rack", f"rack {rack}", rack) for rack in named]
        if kind == "statuses":
            names = sorted({cable.status for cable in self.cables})
            return [_nautobot_object("extras.status", name, name.title()) for name in names]
        return [
            _nautobot_object("dcim.cable", str(cable.number), f"#{cable.number}")
            | {
                "termination_a_type": "dcim.interface",
                "termination_b_type": "dcim.interface",
                "termination_a_id": _uuid("/".join(cable.one)),
                "termination_b_id": _uuid("/".join(cable.other)),
                "status": _brief(cable.status),
                "label": "",
            }
            for cable in sorted(self.cables)
        ]


@asynccontextmanager
async def netbox(
    directory: Path, cables: Sequence[NetBoxCable], token: str, *, is_nautobot: bool = False
) -> AsyncIterator[SimulatedNetBox]:
    """Serve these cables on a free port, with a certificate of an authority in the directory."""
    authority = Authority.at(directory)
    made = SimulatedNetBox(list(cables), token, is_nautobot, ca_file=authority.certificate_file)
    app = web.Application()
    for path in (PATH, DEVICES, *(_NAUTOBOT_PATHS if is_nautobot else ())):
        app.router.add_get(path, made.answer)
    async with serving(app, authority, "netbox") as made.url:
        yield made


def _termination(device: str, interface: str, number: int) -> dict[str, Any]:
    about = {"id": number, "name": device, "display": device}
    found = {"name": interface, "display": interface, "device": about}
    return {"object_type": "dcim.interface", "object_id": 1, "object": found}


def _nautobot_object(kind: str, key: str, name: str, **more: Any) -> dict[str, Any]:
    return {"id": _uuid(key), "object_type": kind, "display": name, "name": name, **more}


def _brief(key: str) -> dict[str, str]:
    return {"id": _uuid(key)}


def _uuid(key: str) -> str:
    return str(uuid5(NAMESPACE_URL, key))

"""Server-sent events, line by line. Format: WHATWG HTML, section 9.2.6."""

from dataclasses import dataclass, field

MAX_DATA_CHARS = 64 << 20
"""A generation in which all of 100,000 nodes changed; more is no answer of a topo-master."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One event: its type, the id to resume from, its data."""

    event: str
    id: str
    data: str


@dataclass(slots=True)
class EventParser:
    """Assembles events from lines; `feed` answers the event that an empty line completes."""

    _event: str = ""
    _id: str = ""
    _data: list[str] = field(default_factory=list)
    _chars: int = 0

    def feed(self, line: str) -> ServerEvent | None:
        """Takes one line without its end; raises `ValueError` past `MAX_DATA_CHARS`."""
        if not line:
            return self._complete()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._chars += len(value)
            if self._chars > MAX_DATA_CHARS:
                raise ValueError(f"an event of more than {MAX_DATA_CHARS} characters")
            self._data.append(value)
        elif name == "event":
            self._event = value
        elif name == "id":
            self._id = value
        return None

    def _complete(self) -> ServerEvent | None:
        data, event = "\n".join(self._data), self._event or "message"
        self._data, self._event, self._chars = [], "", 0
        return ServerEvent(event, self._id, data) if data else None

"""The events and the instructions of the machine of requests."""

from dataclasses import dataclass

from topo.model.errors import Refusal
from topo.model.isolation import ObjectError
from topo.placement.booking.holds import HoldId
from topo.provisioning.course import Phase, ProvisioningRequest, RequestCondition, RequestUid
from topo.provisioning.record import BookedGroups
from topo.provisioning.terms import Awaited, NothingToBook, Terms


@dataclass(frozen=True, slots=True)
class Held:
    """The booking of a request: its hold, what is written of it, and when it would end by itself.

    `until_s` is Unix time by the clock of the API servers.
    """

    hold: HoldId
    details: tuple[tuple[str, str], ...]
    until_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestObserved:
    """A request and its booking as they are now.

    `asked`: what it asks for, if anything, why that cannot be read, or what it waits for. `held`:
    its booking, None where there is none. `taken`: pods have what was booked. `given_up`: why its
    booking was ended by somebody else. `broken`: why the booked groups are not to be had any more.
    """

    request: ProvisioningRequest
    asked: Terms | Refusal | Awaited | NothingToBook
    held: Held | None = None
    taken: bool = False
    given_up: str = ""
    broken: str = ""


@dataclass(frozen=True, slots=True)
class RequestVanished:
    """The request is gone; `hold` is what is left of its booking."""

    uid: RequestUid
    hold: HoldId | None = None


@dataclass(frozen=True, slots=True)
class TermBegun:
    """All requests were observed: the machine decides from now on."""


@dataclass(frozen=True, slots=True)
class Booked:
    """The answer to `Book` or `Rebook`: its groups are booked, and that is on disk."""

    uid: RequestUid
    held: Held


@dataclass(frozen=True, slots=True)
class NoRoom:
    """The other answer: why not, with numbers. `never`: not on an empty cluster either."""

    uid: RequestUid
    text: str
    never: bool = False


@dataclass(frozen=True, slots=True)
class RoomGrew:
    """Something is free that was not before, so what was refused may fit."""


@dataclass(frozen=True, slots=True)
class StatusRefused:
    """The write of a request in `version` was refused; `again_s`: when to write again."""

    uid: RequestUid
    version: str
    again_s: float


@dataclass(frozen=True, slots=True)
class HandlingFailed:
    """Reading, placing or writing a request raised an error, which is of this request alone."""

    uid: RequestUid
    error: ObjectError


Event = (
    RequestObserved
    | RequestVanished
    | TermBegun
    | Booked
    | NoRoom
    | RoomGrew
    | StatusRefused
    | HandlingFailed
)


@dataclass(frozen=True, slots=True)
class Book:
    """Find whole groups for a request and book them for `hold_s` seconds.

    `name` is its namespace and name, `workload` the Workload of Kueue that it is of. `is_free`:
    nobody's quota bounds how many may ask.
    """

    uid: RequestUid
    name: str
    terms: Terms
    hold_s: float
    is_free: bool = False
    workload: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the request."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class Rebook:
    """Book the nodes once more that the request says are booked, or answer why not.

    `workload` is the Workload of Kueue that the request is of.
    """

    uid: RequestUid
    name: str
    terms: Terms
    groups: BookedGroups
    hold_s: float
    workload: str = ""

    @property
    def namespace(self) -> str:
        """The namespace of the request."""
        return self.name.partition("/")[0]


@dataclass(frozen=True, slots=True)
class EndBooking:
    """End a booking; one that has ended is no error."""

    uid: RequestUid
    hold: HoldId


@dataclass(frozen=True, slots=True)
class WriteStatus:
    """Write the conditions and details of a request, if it still has this version.

    `phase` is what the write is for, and its condition says `text`. `hold` is the booking that the
    details are of. `is_final`: neither time nor room would change it.
    """

    request: ProvisioningRequest
    phase: Phase
    text: str
    conditions: tuple[RequestCondition, ...]
    details: tuple[tuple[str, str], ...]
    hold: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Tell:
    """Tell the user of a request on which nothing is written why there is no room."""

    request: ProvisioningRequest
    text: str


@dataclass(frozen=True, slots=True)
class TellSetAside:
    """Tell the user of a request, and who runs the master, that nothing is decided about it.

    It is tried again when the request, or what it asks for, changes. What is booked for it stays
    until that ends by itself.
    """

    request: ProvisioningRequest
    error: ObjectError


Instruction = Book | Rebook | EndBooking | WriteStatus | Tell | TellSetAside

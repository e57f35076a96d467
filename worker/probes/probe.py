"""A probe: a name, an interval, and a way to read one raw text."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from topo.kit.hiding import mask_secrets
from topo.model.machine import ProbeState

READING_TIMEOUT_S = 5.0
"""After which a reading of a library or of sysfs is given up; they answer within milliseconds."""
MAX_OUTPUT_BYTES = 8 << 20
"""Limit of one reading; the largest seen, `nvidia-smi -q -x` of eight B200, is 360 kB."""
MAX_DETAIL_CHARS = 200


@dataclass(frozen=True, slots=True)
class Reading:
    """One run of a probe. `text` is empty unless the state is `ok`.

    `detail` must not vary from run to run while the cause stays the same: a new detail is reported.
    """

    state: ProbeState
    text: str = ""
    detail: str = ""


def ok(text: str) -> Reading:
    """Return a reading with its raw text."""
    return Reading(ProbeState.OK, text)


def absent(why: str) -> Reading:
    """Return the reading of a source that this host does not have; that is no fault."""
    return Reading(ProbeState.ABSENT, detail=shown(why))


def failed(why: str) -> Reading:
    """Return the reading of a source that exists and failed."""
    return Reading(ProbeState.FAILED, detail=shown(why))


def timed_out(why: str) -> Reading:
    """Return the reading of a source that did not answer in time, or still hangs."""
    return Reading(ProbeState.TIMED_OUT, detail=shown(why))


def shown(why: str) -> str:
    """Return the detail of a failure, one line of at most `MAX_DETAIL_CHARS`.

    A tool may complain with its command line in it, and what is reported anybody can read: secrets
    are masked before it is cut.
    """
    return " ".join(mask_secrets(why).split())[:MAX_DETAIL_CHARS]


def _nothing() -> None:
    """Do nothing: most probes keep nothing between readings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A source of raw texts of one format.

    `read` gives a reading and does not raise for anything its source does; when it is cancelled
    (its time is up) it stops what it started. `instead_of` names probes that this one stands in
    for: it runs only while they fail, or note failures and do not state all of `gives` (names of
    `NodeFacts` fields).
    `close` ends what the probe keeps between readings. `awaited` is false for one that states
    nothing of what is reported: the first report does not wait for it.
    """

    name: str
    format: str
    interval_s: float
    timeout_s: float
    read: Callable[[], Awaitable[Reading]]
    instead_of: tuple[str, ...] = ()
    gives: frozenset[str] = frozenset()
    awaited: bool = True
    close: Callable[[], None] = _nothing


async def read_in_time(probe: Probe) -> Reading:
    """Read a probe within its timeout. Never raises: an exception becomes a failed reading."""
    try:
        async with asyncio.timeout(probe.timeout_s):
            return await probe.read()
    except TimeoutError:
        return timed_out(f"no answer in {probe.timeout_s:g} s")
    except Exception as error:  # noqa: BLE001 - one probe's mistake must not stop the others
        return failed(f"our probe failed: {error!r}")

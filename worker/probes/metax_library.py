"""libmxsml.so, bound with ctypes: devices, links and servers as the library states them, as JSON.

Names and layouts are those of the published interface (header revision 2.3.1); only calls that
read are bound. Older libraries lack some calls: every call is looked up before it is used. Out
structures are as large as the newest revision documents, so an older library writes less into them.

Runs in the helper process (`worker.probes.helper`), hence it imports little.
"""

import ctypes
import json
import os
from collections.abc import Callable, Iterator
from ctypes import c_char, c_float, c_int, c_long, c_uint
from functools import cache
from typing import Any

from worker.probes.library import AbsentError, FailedError

LIBRARY = "libmxsml.so"
SEARCHED = ("/opt/mxdriver/lib", "/opt/maca/lib", "/opt/mxn100/lib")
"""Where drivers and MACA put the library, in the order that other agents search."""

SUCCESS, NO_DEVICE, NOT_SUPPORTED = 0, 2, 3
NO_SUCH_CALL = 999
"""Our own code, as other bindings use it: the library does not have the call."""

_REINITIALISE = 1
_MAX_DEVICES = 128
_MAX_LINKS = 64
_SERVER_UUID_BYTES = 64
_REMOTE_SLOTS = 2
_NEWEST = "2.3.1"
"""From this revision topology level 7 is ETH and 8 UNDEFINED; before it, 7 is UNDEFINED."""
_ONLY_IN_NEWEST = "mxSmlGetEthThroughput"


class _DeviceInfo(ctypes.Structure):
    _fields_ = (
        ("deviceId", c_uint),
        ("type", c_int),
        ("bdfId", c_char * 32),
        ("gpuId", c_uint),
        ("nodeId", c_uint),
        ("uuid", c_char * 96),
        ("brand", c_int),
        ("mode", c_int),
        ("deviceName", c_char * 32),
    )


class _MemoryInfo(ctypes.Structure):
    """All in KiB."""

    _fields_ = tuple(
        (name, c_long)
        for name in ("visTotal", "visUse", "vramTotal", "vramUse", "xttTotal", "xttUse")
    )


class _LinkInfo(ctypes.Structure):
    _fields_ = (("speed", c_float), ("width", c_uint))


class _LinkRemote(ctypes.Structure):
    _fields_ = (("deviceId", c_int), ("bdfId", c_char * 32))


class _LinkErrors(ctypes.Structure):
    _fields_ = (("ceAer", c_int), ("ueAer", c_int))


class _Unavailable(ctypes.Structure):
    _fields_ = (("code", c_int), ("reason", c_char * 252))


def find_library(given: str | None) -> Iterator[str]:
    """Names to try to load: the one given and no other, else the documented places, else /opt."""
    if given is not None:
        yield given
        return
    yield LIBRARY
    yield from (f"{folder}/{LIBRARY}" for folder in SEARCHED)
    for folder, folders, files in os.walk("/opt"):
        if folder.count("/") > 5:
            folders.clear()
        if LIBRARY in files:
            yield f"{folder}/{LIBRARY}"


def _load(given: str | None) -> ctypes.CDLL:
    for name in find_library(given):
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    raise AbsentError(f"{given or LIBRARY} is not on this host")


def open_library(path: str | None = None) -> Callable[[], str]:
    """Return the function that reads the library; it loads the library when it is first called."""

    @cache
    def library() -> MetaxLibrary:
        return MetaxLibrary(path)

    return lambda: library().read()


class MetaxLibrary:
    """The loaded library; `read` asks everything anew."""

    def __init__(self, given: str | None = None) -> None:
        self._library = _load(given)
        self._errors: list[dict[str, object]] = []
        self._initialised = False

    def read(self) -> str:
        """Return the `mxsml` text. Raises `FailedError` where the library does not come up.

        Calls that fail are listed under `errors` and leave their field null; so does, without
        being listed, a call that the device or the host does not support.
        O(devices²) calls for the topology.
        """
        self._errors = []
        self._initialise()
        count = min(self._function("mxSmlGetDeviceCount")(), _MAX_DEVICES)
        text = {
            "format": "mxsml",
            "version": _NEWEST if self._has(_ONLY_IN_NEWEST) else "",
            "devices": [self._device(index) for index in range(count)],
            "topology": [[self._level(a, b) for b in range(count)] for a in range(count)],
            "servers": self._servers(),
            "errors": self._errors,
        }
        return json.dumps(text)

    def _initialise(self) -> None:
        """Comes up, and again on every reading: a card that appears later must be seen.

        The plain call, says its interface, does not refresh when it is repeated, so the
        one with flags is preferred where it exists.
        """
        call = "mxSmlInitWithFlags"
        if self._has(call):
            code = self._function(call)(c_uint(_REINITIALISE if self._initialised else 0))
        elif self._initialised:
            return
        else:
            call = "mxSmlInit"
            code = self._function(call)()
        if code != SUCCESS:
            raise FailedError(f"{call} ended with code {code}")
        self._initialised = True

    def _has(self, call: str) -> bool:
        return hasattr(self._library, call)

    def _function(self, call: str) -> Any:
        if not self._has(call):
            raise FailedError(f"{call} ended with code {NO_SUCH_CALL}")
        function = getattr(self._library, call)
        function.restype = c_uint
        return function

    def _ask(self, call: str, device: int | None, *arguments: object, fine: int = SUCCESS) -> bool:
        """Return whether the call succeeded. A failure is listed, once per call and device.

        "Not supported" is no failure but the plain answer of a host without it; so is `fine`.
        """
        asked = arguments if device is None else (c_uint(device), *arguments)
        code = int(self._function(call)(*asked)) if self._has(call) else NO_SUCH_CALL
        error: dict[str, object] = {"call": call, "device": device, "code": code}
        if code not in (SUCCESS, NOT_SUPPORTED, fine) and error not in self._errors:
            self._errors.append(error)
        return code == SUCCESS

    def _device(self, index: int) -> dict[str, object]:
        info = _DeviceInfo()
        known = self._ask("mxSmlGetDeviceInfo", index, ctypes.byref(info))
        state = self._state(index)
        return {
            "index": index,
            "uuid": _text(info.uuid) if known else None,
            "bdf": _text(info.bdfId) if known else None,
            "name": _text(info.deviceName) if known else None,
            "state": state,
            "unavailable_reason": self._unavailable_reason(index) if state == 0 else "",
            "numa_affinity": self._numa(index),
            "memory_bytes": self._memory_bytes(index),
            "links": self._links(index),
        }

    def _state(self, index: int) -> int | None:
        state = c_int(-1)
        return state.value if self._ask("mxSmlGetDeviceState", index, ctypes.byref(state)) else None

    def _unavailable_reason(self, index: int) -> str:
        why = _Unavailable()
        if not self._ask("mxSmlGetDeviceUnavailableReason", index, ctypes.byref(why)):
            return ""
        return _text(why.reason) or f"code {why.code}"

    def _numa(self, index: int) -> int | None:
        """Return the first NUMA node of the mask; null where the mask is empty."""
        mask = (c_uint * 4)()
        if not self._ask("mxSmlGetNodeAffinity", index, c_uint(len(mask)), mask):
            return None
        bits = sum(word << (32 * place) for place, word in enumerate(mask))
        return (bits & -bits).bit_length() - 1 if bits else None

    def _memory_bytes(self, index: int) -> int | None:
        memory = _MemoryInfo()
        if not self._ask("mxSmlGetMemoryInfo", index, ctypes.byref(memory)):
            return None
        return int(memory.vramTotal) * 1024

    def _links(self, index: int) -> list[dict[str, object]]:
        size = c_uint(_MAX_LINKS)
        infos = (_LinkInfo * _MAX_LINKS)()
        if not self._ask("mxSmlGetMetaXLinkInfo_v2", index, ctypes.byref(size), infos):
            return []
        states, errors = self._port_states(index), self._link_errors(index)
        return [
            {
                "link": link,
                "speed": round(infos[link].speed, 1),
                "width": infos[link].width,
                "port_state": states[link] if link < len(states) else None,
                "corrected": errors[link].ceAer if link < len(errors) else None,
                "uncorrected": errors[link].ueAer if link < len(errors) else None,
                "remote_bdf": self._remote_bdf(index, link),
            }
            for link in range(min(size.value, _MAX_LINKS))
        ]

    def _port_states(self, index: int) -> list[int]:
        size = c_uint(_MAX_LINKS)
        states = (c_int * _MAX_LINKS)()
        known = self._ask("mxSmlGetMetaXLinkPortState", index, states, ctypes.byref(size))
        return states[: min(size.value, _MAX_LINKS)] if known else []

    def _link_errors(self, index: int) -> list[_LinkErrors]:
        """Return what was counted on each link; a library that lacks the call has no fault."""
        size = c_uint(_MAX_LINKS)
        errors = (_LinkErrors * _MAX_LINKS)()
        call, out = "mxSmlGetMetaXLinkAer", (ctypes.byref(size), errors)
        known = self._ask(call, index, *out, fine=NO_SUCH_CALL)
        return errors[: min(size.value, _MAX_LINKS)] if known else []

    def _remote_bdf(self, index: int, link: int) -> str | None:
        """The card of this host at the other end; none for unused ports and those that leave it."""
        remote = _LinkRemote()
        out, call = ctypes.byref(remote), "mxSmlGetMetaXLinkRemoteInfo"
        known = self._ask(call, index, c_uint(link), out, fine=NO_DEVICE)
        return (_text(remote.bdfId) or None) if known else None

    def _level(self, a: int, b: int) -> int:
        level = c_int(-1)
        if a == b:
            return 0
        asked = self._ask("mxSmlGetDeviceTopology", a, c_uint(b), ctypes.byref(level))
        return level.value if asked else -1

    def _servers(self) -> dict[str, object] | None:
        """Server UUIDs by the call for several remotes, else by the older one for a single remote.

        Null on hosts without links to other hosts (the library answers "not supported").
        """
        local = ctypes.create_string_buffer(_SERVER_UUID_BYTES)
        slots = [ctypes.create_string_buffer(_SERVER_UUID_BYTES) for _ in range(_REMOTE_SLOTS)]
        pointers = (ctypes.POINTER(c_char) * _REMOTE_SLOTS)(
            *(ctypes.cast(slot, ctypes.POINTER(c_char)) for slot in slots)
        )
        count, size = c_uint(_REMOTE_SLOTS), c_uint(_SERVER_UUID_BYTES)
        call = "mxSmlGetLocalAndMultipleRemoteUuid"
        if self._has(call):
            known = self._ask(call, None, local, pointers, ctypes.byref(count), ctypes.byref(size))
            used = min(count.value, _REMOTE_SLOTS)
        else:
            call = "mxSmlGetLocalAndRemoteUuid"
            known = self._ask(call, None, local, slots[0], ctypes.byref(size))
            used = 1
        if known and not local.value:
            self._errors.append({"call": call, "device": None, "code": SUCCESS})
        if not known or not local.value:
            return None
        return {"local": _text(local.value), "remotes": [_text(s.value) for s in slots[:used]]}


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace").strip()

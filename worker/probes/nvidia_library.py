"""NVML through nvidia-ml-py: devices, NVLink fabric, platform position and links, as JSON.

Numbers are NVML's own; `topo.facts` translates them. Runs in the helper process.
Every call may be missing in an old driver or refused by a device: such failures are listed under
`errors` and leave their field null, except where "not supported" is the plain answer.
"""

import contextlib
import json
import uuid
from collections.abc import Callable
from ctypes import Structure, byref, string_at
from typing import Any

import pynvml

from worker.probes.library import AbsentError, FailedError

MAX_DEVICES = 128

_PLAIN_ANSWERS = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_INVALID_ARGUMENT,
)
"""Codes for: this device does not have what was asked for."""
_NEXT_VERSION = (
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
)
"""Codes for: this driver knows only older forms of the call."""


class NvidiaLibrary:
    """NVML, initialised once and anew after a failure; `read` asks everything anew.

    It stays initialised between readings: without the persistence daemon the driver would
    otherwise bring every GPU down and up again, which takes seconds.
    """

    def __init__(self) -> None:
        self._ready = False

    def read(self) -> str:
        """Return the `nvml` text; raises where NVML as a whole does not answer."""
        try:
            if not self._ready:
                pynvml.nvmlInit()
                self._ready = True
            return json.dumps(_Reader().read())
        except pynvml.NVMLError as error:
            if self._ready:
                self._ready = False
                with contextlib.suppress(pynvml.NVMLError):
                    pynvml.nvmlShutdown()
            if error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND:
                raise AbsentError(str(error)) from error
            raise FailedError(str(error)) from error


def open_library() -> Callable[[], str]:
    """Return the function that reads NVML."""
    return NvidiaLibrary().read


class _Reader:
    """One reading; notes the failures on the way."""

    def __init__(self) -> None:
        self._errors: list[dict[str, object]] = []

    def read(self) -> dict[str, object]:
        count = min(pynvml.nvmlDeviceGetCount(), MAX_DEVICES)
        asked = ((i, self._try(i, pynvml.nvmlDeviceGetHandleByIndex, i)) for i in range(count))
        handles = {index: handle for index, handle in asked if handle is not None}
        return {
            "format": "nvml",
            "driver": self._try(None, pynvml.nvmlSystemGetDriverVersion),
            "devices": [self._device(index, handle) for index, handle in handles.items()],
            "topology": [
                [self._ancestor(index, a, b) for b in handles.values()]
                for index, a in handles.items()
            ],
            "errors": self._errors,
        }

    def _try(self, device: int | None, call: Callable[..., Any], *arguments: object) -> Any:
        """Return the call's value, or None and a note where it failed with more than a plain no."""
        try:
            return call(*arguments)
        except pynvml.NVMLError as error:
            self._note(device, call.__name__, error)
            return None

    def _note(self, device: int | None, call: str, error: Any) -> None:
        note = {"call": call, "device": device, "code": error.value}
        if error.value not in _PLAIN_ANSWERS and note not in self._errors:
            self._errors.append(note)

    def _device(self, index: int, handle: Any) -> dict[str, object]:
        pci = self._try(index, pynvml.nvmlDeviceGetPciInfo, handle)
        memory = self._try(index, pynvml.nvmlDeviceGetMemoryInfo, handle)
        return {
            "index": index,
            "uuid": self._try(index, pynvml.nvmlDeviceGetUUID, handle),
            "bdf": None if pci is None else pci.busId,
            "name": self._try(index, pynvml.nvmlDeviceGetName, handle),
            "memory_bytes": None if memory is None else memory.total,
            "numa": self._try(index, pynvml.nvmlDeviceGetNumaNodeId, handle),
            "fabric": self._fabric(index, handle),
            "platform": self._platform(index, handle),
            "links": self._links(index, handle),
        }

    def _fabric(self, index: int, handle: Any) -> dict[str, object] | None:
        """Fabric info in the newest form that the driver knows: 3 (summary), 2 (mask), 1."""
        newer, oldest = pynvml.nvmlDeviceGetGpuFabricInfoV, pynvml.nvmlDeviceGetGpuFabricInfo
        for version, new, call in (
            (3, pynvml.c_nvmlGpuFabricInfo_v3_t, newer),
            (2, pynvml.c_nvmlGpuFabricInfo_v2_t, newer),
            (1, pynvml.c_nvmlGpuFabricInfo_t, oldest),
        ):
            info = new()
            try:
                call(handle, byref(info))
            except pynvml.NVMLError as error:
                if version > 1 and error.value in _NEXT_VERSION:
                    continue
                self._note(index, call.__name__, error)
                return None
            return _fabric_fields(info, version)
        return None

    def _platform(self, index: int, handle: Any) -> dict[str, object] | None:
        """Rack position; texts are copied as raw bytes, for a NUL inside would cut them short."""
        info = pynvml.c_nvmlPlatformInfo_v2_t()
        if self._try(index, pynvml.nvmlDeviceGetPlatformInfo, handle, byref(info)) is None:
            return None
        return {
            "chassis_serial": _ascii(_raw(info, "chassisSerialNumber")),
            "slot": _raw(info, "slotNumber")[0],
            "tray": _raw(info, "trayIndex")[0],
            "host": _raw(info, "hostId")[0],
            "peer_type": _raw(info, "peerType")[0],
            "module": _raw(info, "moduleId")[0],
            "ib_guid": _raw(info, "ibGuid").hex(),
        }

    def _links(self, index: int, handle: Any) -> list[dict[str, object]]:
        asked = (
            (link, self._try(index, pynvml.nvmlDeviceGetNvLinkState, handle, link))
            for link in range(pynvml.NVML_NVLINK_MAX_LINKS)
        )
        states = {link: state for link, state in asked if state is not None}
        speeds = self._speeds(index, handle, [link for link, state in states.items() if state])
        links: list[dict[str, object]] = []
        for link, state in states.items():
            pci = self._try(index, pynvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            links.append(
                {
                    "link": link,
                    "state": state,
                    "remote_bdf": None if pci is None else pci.busId,
                    "remote_type": self._try(
                        index, pynvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link
                    ),
                    "speed_mbps": speeds.get(link),
                }
            )
        return links

    def _speeds(self, index: int, handle: Any, links: list[int]) -> dict[int, int]:
        """The links' speeds in MB/s, as `nvidia-smi nvlink -s` has them; older drivers lack it."""
        wanted = [(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in links]
        if not wanted:
            return {}
        values = self._try(index, pynvml.nvmlDeviceGetFieldValues, handle, wanted) or ()
        answered = (value for value in values if value.nvmlReturn == pynvml.NVML_SUCCESS)
        return {value.scopeId: value.value.uiVal for value in answered}

    def _ancestor(self, index: int, a: Any, b: Any) -> int:
        if a is b:
            return int(pynvml.NVML_TOPOLOGY_INTERNAL)
        level = self._try(index, pynvml.nvmlDeviceGetTopologyCommonAncestor, a, b)
        return -1 if level is None else int(level)


def _fabric_fields(info: Any, version: int) -> dict[str, object]:
    return {
        "version": version,
        "state": info.state,
        "status": info.status,
        "cluster_uuid": str(uuid.UUID(bytes=bytes(info.clusterUuid))),
        "clique": info.cliqueId,
        "health_mask": info.healthMask if version >= 2 else None,
        "summary": info.healthSummary if version >= 3 else None,
    }


def _raw(info: Structure, name: str) -> bytes:
    """Return a field's bytes, all of them.

    ctypes ends a `c_char` array at its first NUL, and nvidia-ml-py decodes it as text on top.
    """
    field = getattr(type(info), name)
    return string_at(byref(info, field.offset), field.size)


def _ascii(raw: bytes) -> str:
    return raw.rstrip(b"\0").decode("ascii", "replace")

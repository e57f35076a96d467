"""What tools print when they cannot answer, and what to do about it.

Such a text is no observation: it must never be read as "this host has no GPUs". Sources: public
posts with the exact texts; nvidia-smi's man page; the exceptions of nvidia-ml-py 13.615.
"""

import re
from dataclasses import dataclass

from topo.facts.reading.text import shorten
from topo.model.errors import Refusal

FORMAT = "complaint"
_MAX_CHARS = 4096
"""Error messages are short; a longer text holds something else."""
_LOAD_DRIVER = "load it with `modprobe nvidia`, or reinstall the driver for the running kernel"


@dataclass(frozen=True, slots=True)
class _ToolError:
    pattern: re.Pattern[str]
    what: str
    fix: str


def _tool_error(pattern: str, what: str, fix: str) -> _ToolError:
    return _ToolError(re.compile(pattern, re.MULTILINE | re.IGNORECASE), what, fix)


_TOOL_ERRORS = (
    _tool_error(
        r"\bmx-smi['\"]?: (?:.{0,40}: )?(?:command )?not found|mx-smi.{0,80}No such file",
        "mx-smi is not installed, or not on the PATH",
        "install the MetaX driver, or call it as /opt/mxdriver/bin/mx-smi",
    ),
    _tool_error(
        r"\bnvidia-smi['\"]?: (?:.{0,40}: )?(?:command )?not found|nvidia-smi.{0,80}No such file",
        "nvidia-smi is not installed, or not on the PATH",
        "install the NVIDIA driver; in a container, use the NVIDIA runtime",
    ),
    _tool_error(
        r"can't open (?:UMAD|MAD) port|is ib_umad module loaded",
        "ibnetdiscover can open no InfiniBand device here",
        "load ib_umad and run it as root, on a host with an active InfiniBand port",
    ),
    _tool_error(
        r"unable to connect to socket .{0,100}lldpd",
        "lldpcli reaches no lldpd here",
        "start lldpd, and run lldpcli as root or in the group of /run/lldpd.socket",
    ),
    _tool_error(
        r"(?:command|executable file) not found|: not found[ \t]*$|: No such file or directory",
        "the command is not installed, or not on the PATH",
        "install the tool, or give the output of a host that has it",
    ),
    _tool_error(
        r"couldn't communicate with the NVIDIA driver|NVMLError_DriverNotLoaded|Driver Not Loaded",
        "the NVIDIA driver is not loaded",
        _LOAD_DRIVER,
    ),
    _tool_error(
        r"Driver/library version mismatch|NVMLError_LibRmVersionMismatch|RM has detected an NVML",
        "the loaded NVIDIA driver and its library have different versions",
        "reboot, or unload and load the nvidia modules, after every driver update",
    ),
    _tool_error(
        r"NVML Shared Library Not Found|NVMLError_LibraryNotFound|couldn't find libnvidia-ml",
        "libnvidia-ml.so.1, the NVML library, is not installed here",
        "install the NVIDIA driver; in a container, use the NVIDIA runtime",
    ),
    _tool_error(
        r"Failed to initialize NVML: Unknown Error",
        "NVML cannot reach the devices; a container has usually lost its device permissions",
        "restart the container; keep systemd's cgroup driver from taking the devices away",
    ),
    _tool_error(
        r"Unable to determine the device handle for|GPU is lost|NVMLError_GpuIsLost",
        "a GPU does not answer its driver any more",
        "drain the node and reset the GPU or reboot; look for Xid messages in the kernel log",
    ),
    _tool_error(
        r"Failed to initialize NVML: .{0,80}|^\s{0,8}NVMLError_\w{1,40}",
        "NVML does not come up",
        "run `nvidia-smi` as root on the host and follow what it says",
    ),
    _tool_error(
        r"No devices were found|^\s{0,8}No GPUs? found",
        "the driver sees no GPU",
        "check `lspci -d 10de:` and the kernel log; in a container, check which GPUs it is given",
    ),
    _tool_error(
        r"LoadDllFailure|libmxsml\.so.{0,80}(?:No such file|cannot open)",
        "libmxsml.so, MetaX's library, is not installed here",
        "install the MetaX driver, or mount /opt/mxdriver into the container",
    ),
    _tool_error(
        r"mxSmlInit\w{0,12} .{0,20}fail|mxsml.{0,20}init.{0,20}fail|MXSML_\w{0,40}NoDevice",
        "MetaX's library does not come up",
        "check that the metax kernel module is loaded (`lsmod`) and `lspci -d 9999:` lists cards",
    ),
    _tool_error(
        r"^.{0,200}: Permission denied[ \t]*$|Insufficient Permissions",
        "the command was not permitted",
        "run it as root, or give the worker's container access to the devices",
    ),
)


def find(text: str) -> Refusal | None:
    """Return the error in `text` with its fix, or None: long texts are none. O(len(text))."""
    if len(text.strip()) > _MAX_CHARS:
        return None
    for error in _TOOL_ERRORS:
        match = error.pattern.search(text)
        if match is not None:
            line = text.count("\n", 0, match.start()) + 1
            quoted = shorten(match.group(), 80)
            return Refusal(f"{error.what} ({quoted})", f"line {line}", error.fix)
    return None

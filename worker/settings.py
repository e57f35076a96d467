"""The worker's settings: the vendor's flags, and ours."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from topo.kit.durations import Seconds
from topo.kit.logs import LogSettings
from topo.kit.settings import Chart, Env
from topo.model.errors import Refusal

MIN_SWEEP_S = 1.0
_ADDRESS = re.compile(
    r"(?:\[[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,15})?\]|[^\s\[\]:/?#@\\%]{1,253}):(?P<port>[0-9]{1,5})",
    re.ASCII,
)
"""What a URL may hold between `//` and its path, less user information (RFC 3986 3.2)."""


class WorkerSettings(LogSettings):
    """Every field is a flag and a `TOPO_…` variable; the text under a field is its help."""

    server_address: str = "topo-master-service:10001"
    """The master's address for reports, host:port."""
    metrics_address: Annotated[str, Chart("topoDiscovery.worker.metricsPort", is_plain=False)] = (
        "9002"
    )
    """Port, or host:port, of this worker's /metrics and /health; port 0 takes a free one."""
    detect_mode: Literal["config", "dragonfly", "switchbox", "nvlink", "auto"] = "dragonfly"
    """Accepted for the vendor's chart, without effect: a worker reports all it sees and the master
    decides."""
    node_number: Annotated[
        int, Field(ge=1), Chart("topoDiscovery.dragonfly.nodeNumber", is_plain=False)
    ] = 2
    """Accepted for the vendor's chart, without effect: the master decides what makes a complete
    group."""
    enable_training: Annotated[
        bool, Chart("topoDiscovery.dragonfly.enableTraining", is_plain=False)
    ] = False
    """Accepted for the vendor's chart, without effect: this worker never trains links nor changes
    any hardware."""

    node_name: Annotated[str, Env("NODE_NAME"), Field(max_length=253)] = ""
    """This node's name in Kubernetes; without it the host name."""
    node_ip: Annotated[str, Env("NODE_IP", "HOST_IP"), Field(max_length=64)] = ""
    """This node's internal address, for managers that know machines by it."""
    token_file: Path | None = None
    """File with the token that the master knows; read again when it changes."""
    server_tls: Annotated[bool, Chart("topoDiscovery.tls.secret", is_plain=False)] = False
    """Report over https."""
    tls_ca: Annotated[Path | None, Chart("topoDiscovery.tls.secret", is_plain=False)] = None
    """PEM file of the authority that signed the master's certificate; the system's by default."""

    probe_interval: Annotated[Seconds, Field(gt=0)] = 2.0
    """Seconds between readings of libraries and of sysfs."""
    exporter_address: Annotated[str, Chart("topoDiscovery.worker.exporterPort", is_plain=False)] = (
        "127.0.0.1:8000"
    )
    """Address of a mx-exporter on this host, host:port."""
    mxsml_library: Path | None = None
    """The libmxsml.so to load, if it is not where drivers put it."""
    sysfs_root: Path = Path("/sys")
    """Where the host's sysfs is mounted."""

    sweep_interval: Annotated[
        Seconds, Field(ge=0), Chart("topoDiscovery.fabricSweep.interval", is_plain=False)
    ] = 0.0
    """Run ibnetdiscover this often and send the master what it prints, instead of reading this
    host; needs /dev/infiniband/umad* (docs/fabric.md). 0: read this host."""

    record: Path | None = None
    """Write a support bundle of all raw probe outputs into this folder, then end."""
    record_anonymous: bool = False
    """Replace user names, host names and addresses in the bundle."""
    replay: Path | None = None
    """Report the recording in this folder instead of this host."""

    @field_validator("detect_mode", mode="before")
    @classmethod
    def _in_any_case(cls, mode: object) -> object:
        return mode.lower() if isinstance(mode, str) else mode

    @field_validator("server_address", "exporter_address")
    @classmethod
    def _host_and_port(cls, address: str) -> str:
        if "://" in address:
            raise ValueError("write host:port; https is --server-tls")
        parts = _ADDRESS.fullmatch(address)
        if parts is None or not 0 < int(parts["port"]) < 65536:
            what = "write host:port with a port from 1 to 65535, an IPv6 address in brackets"
            raise ValueError(what)
        return address

    @field_validator("metrics_address")
    @classmethod
    def _port_at_the_end(cls, address: str) -> str:
        port = address.rpartition(":")[2]
        if not port.isdecimal() or not 0 <= int(port) < 65536:
            raise ValueError("write a port from 0 to 65535, or host:port")
        return address

    @property
    def metrics_host(self) -> str | None:
        """The interface of /metrics; None is every one."""
        return self.metrics_address.rpartition(":")[0].strip("[]") or None

    @property
    def metrics_port(self) -> int:
        """The port of /metrics."""
        return int(self.metrics_address.rpartition(":")[2])

    @property
    def server_url(self) -> str:
        """The master's address as a URL without a path."""
        return f"{'https' if self.server_tls else 'http'}://{self.server_address}"

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return flags that contradict each other."""
        found = []
        if 0 < self.sweep_interval < MIN_SWEEP_S:
            found.append(
                Refusal(
                    f"{self.sweep_interval:g} s are too short: a sweep asks every device",
                    "--sweep-interval",
                    f"give {MIN_SWEEP_S:g} s or more, or 0 for none",
                )
            )
        if self.sweep_interval and (self.record or self.replay) is not None:
            found.append(
                Refusal(
                    "a process that sweeps the fabric does not read this host",
                    "--sweep-interval",
                    "leave out --record and --replay",
                )
            )
        if self.record is not None and self.replay is not None:
            found.append(
                Refusal("one cannot record a replay", "--record, --replay", "give one of the two")
            )
        if self.tls_ca is not None and not self.server_tls:
            found.append(
                Refusal(
                    "an authority is given, and reports would travel in the clear",
                    "--tls-ca",
                    "add --server-tls",
                )
            )
        return tuple(found)

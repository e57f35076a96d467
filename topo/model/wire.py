"""The messages from worker to master (port 10001), and the answers.

A worker posts `Report` to `/v1/reports` and gets a `ReportAnswer`. The first report of a worker
process is `full`; after that a `change` carries only the sections that differ and a `beat` carries
nothing. `seq` grows by one per report of one `instance`; a master that missed one answers
`want: full`. The format is our own (the vendor's is not public). Unknown keys are ignored here, so
that workers and masters of neighbouring versions understand each other; requests of people are
strict elsewhere. A worker that sweeps a fabric says so in `SweepReport`.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from topo.model.ids import NodeName
from topo.model.machine import (
    MAX_GPUS,
    MAX_LINK_COUNTS,
    MAX_NEIGHBOURS,
    MAX_NICS,
    MAX_PORTS,
    Gpu,
    GpuFabric,
    LinkCount,
    LinkMatrix,
    LinkPort,
    NetworkPort,
    NicNeighbour,
    NodeFacts,
    ProbeHealth,
    ServerPeers,
)

MAX_REPORT_BYTES = 1 << 20
"""A full report of 16 GPUs with 36 links each is about 60 kB; one MiB bounds what we will read."""
REPORTS_PATH = "/v1/reports"

TRY_LIMIT_S = 10.0
"""A report without an answer is given up after this."""
RETRY_CEILING_S = 8.0
"""A worker tries again at the latest this long after a try that failed, whatever it is asked."""
RECONNECT_S = TRY_LIMIT_S + RETRY_CEILING_S
"""A running worker speaks within this to a master that has come back: a try that began too early,
then the longest wait. So the master counts no silence before it; both sides read it here."""


class _Message(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class FactsChange(_Message):
    """The sections of `NodeFacts` that differ from the report before; the others are unset.

    `None` is a value of `matrix` and `peers` ("not there any more"), so what matters is which
    fields are set (`model_fields_set`), not whether they are None.
    """

    gpus: Annotated[tuple[Gpu, ...], Field(max_length=MAX_GPUS)] = ()
    matrix: LinkMatrix | None = None
    ports: Annotated[tuple[LinkPort, ...], Field(max_length=MAX_PORTS)] = ()
    peers: ServerPeers | None = None
    fabrics: Annotated[tuple[GpuFabric, ...], Field(max_length=MAX_GPUS)] = ()
    nics: Annotated[tuple[NetworkPort, ...], Field(max_length=MAX_NICS)] = ()
    nic_neighbours: Annotated[tuple[NicNeighbour, ...], Field(max_length=MAX_NEIGHBOURS)] = ()
    probes: Annotated[tuple[ProbeHealth, ...], Field(max_length=64)] = ()


class Report(_Message):
    """One message of a worker. `instance` is fresh random text for every worker process.

    `counts` are all counters of errors that are not zero; None: as the worker said last.
    """

    v: Literal[1] = 1
    node: Annotated[NodeName, Field(min_length=1, max_length=253)]
    instance: Annotated[str, Field(min_length=8, max_length=64)]
    seq: Annotated[int, Field(ge=0, lt=1 << 53)]
    kind: Literal["full", "change", "beat"]
    facts: NodeFacts | None = None
    change: FactsChange | None = None
    counts: Annotated[tuple[LinkCount, ...], Field(max_length=MAX_LINK_COUNTS)] | None = None

    @model_validator(mode="after")
    def _body_fits_kind(self) -> "Report":
        if (self.facts is not None) != (self.kind == "full"):
            raise ValueError("facts: present if and only if kind is full")
        if (self.change is not None) != (self.kind == "change"):
            raise ValueError("change: present if and only if kind is change")
        if self.facts is not None and self.facts.identity.name != self.node:
            raise ValueError("facts.identity.name: differs from node")
        return self


class ReportAnswer(_Message):
    """The answer to a report: what to send next, and how often."""

    seq: int
    want: Literal["change", "full"] = "change"
    beat_s: Annotated[float, Field(allow_inf_nan=False)] = 10.0


SWEEPS_PATH = "/v1/fabric/sweeps"
"""A `SweepReport` is posted here, and the text of a dump to `/v1/fabric/sweeps/PORT/DIGEST`, packed
by gzip (RFC 1952), where the answer wants it. Both are answered by a `SweepAnswer`."""
MAX_SWEEP_REPORT_BYTES = 64 << 10
MAX_SWEPT_PORTS = 16
"""Dumps of one host: each port that it sweeps from is on a subnet of its own."""
MAX_DUMP_BYTES = 64 << 20
"""A dump of 10,000 hosts with eight adapters each has 32 MB."""
MAX_PACKED_DUMP_BYTES = 16 << 20
"""Such a dump is packed to a tenth or less."""
SWEPT_PORT = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""An adapter and its port, `mlx5_0-1`."""
SWEEP_DIGEST = r"[0-9a-f]{64}"


class SweptPort(_Message):
    """What sweeps from one port of a host gave.

    `digest` is that of the last dump less its comments, so that the same fabric has the same one;
    empty before the first. `age_s`: since that sweep ended. `trouble`: why the last sweep gave no
    dump, or what the tool complained about.
    """

    port: Annotated[str, Field(pattern=rf"^{SWEPT_PORT}$")]
    digest: Annotated[str, Field(pattern=rf"^({SWEEP_DIGEST})?$")] = ""
    age_s: Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)] = 0.0
    trouble: Annotated[str, Field(max_length=300)] = ""


class SweepReport(_Message):
    """The sweeps of one host, whose name is that of its token; also the sign that it sweeps.

    `trouble`: why there was no sweep at all.
    """

    v: Literal[1] = 1
    ports: Annotated[tuple[SweptPort, ...], Field(max_length=MAX_SWEPT_PORTS)] = ()
    trouble: Annotated[str, Field(max_length=300)] = ""


class SweepAnswer(_Message):
    """The ports whose dumps the master lacks, and how often to report."""

    want: Annotated[tuple[str, ...], Field(max_length=MAX_SWEPT_PORTS)] = ()
    beat_s: Annotated[float, Field(allow_inf_nan=False)] = 10.0

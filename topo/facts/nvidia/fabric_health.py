"""NVLink fabric facts in NVIDIA's words and numbers, made one `GpuFabric`.

Sources: `nvidia-smi -q` and `-q -x` of drivers 550 to 595 for the words; nvml.h of nvidia-ml-py
13.615 for the numbers (GpuFabricInfo v2 and v3, healthMask layout).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from topo.facts.reading.identity import fabric_uuid, known
from topo.facts.reading.text import in_range, shorten, whole
from topo.model.machine import MAX_CLIQUE, GpuFabric

NOT_SUPPORTED = "N/A"
STATES = {0: NOT_SUPPORTED, 1: "Not Started", 2: "In Progress", 3: "Completed"}
"""NVML_GPU_FABRIC_STATE_*, in nvidia-smi's words."""
STATUSES = {
    0: "Success",
    1: "Uninitialized",
    2: "Invalid Argument",
    3: "Not Supported",
    4: "Insufficient Permissions",
    6: "Not Found",
    7: "Insufficient Size",
    9: "Driver Not Loaded",
    10: "Timeout",
    15: "GPU is lost",
    16: "Reset Required",
    18: "Driver/library version mismatch",
    19: "In Use",
    20: "Insufficient Memory",
    23: "Insufficient Resources",
    999: "Unknown Error",
}
"""nvmlReturn_t values that `GpuFabricInfo.status` has been seen to or may carry."""
_SUMMARIES = {1: "Healthy", 2: "Unhealthy", 3: "Limited Capacity"}
_TRUE = 1
_FLAGS = (  # shift in the mask, finding when TRUE
    (0, "degraded bandwidth"),
    (2, "route recovery in progress"),
    (4, "route unhealthy"),
    (6, "access timeout recovery"),
)
_MISCONFIGURED = {
    2: "incorrect system GUID",
    3: "incorrect chassis serial number",
    4: "no partition",
    5: "insufficient NVLinks",
    6: "incompatible GPU firmware",
    7: "invalid location",
    8: "invalid GPU state",
}
_SPELT = {
    "routerecoveryinprogress": "route recovery in progress",
    "routeunhealthy": "route unhealthy",
    "accesstimeoutrecovery": "access timeout recovery",
    "incorrectconfiguration": "incorrect configuration",
}
_GOOD_WORDS = {
    "bandwidth": "full",
    "routerecoveryinprogress": "false",
    "routeunhealthy": "false",
    "accesstimeoutrecovery": "false",
    "incorrectconfiguration": "none",
}
"""Health keys without case, spaces and underscores, and the word that means all is well."""
KEYS = frozenset({"summary", *_GOOD_WORDS})
"""All keys of a health section, spelt so."""


@dataclass(frozen=True, slots=True)
class FabricHealth:
    """`healthy=None`: the source states no health (older drivers, single hosts)."""

    healthy: bool | None
    trouble: str = ""


def status_word(code: int) -> str:
    """Return the word of NVML's return code, `code N` for one that is not listed."""
    return STATUSES.get(code, f"code {code}")


def from_words(words: Mapping[str, str]) -> FabricHealth:
    """Return health from key and word pairs; the summary decides where there is one.

    Without a summary (drivers before 570) any word but the good one is trouble.
    """
    found = {key: known(words.get(key)) for key in (*_GOOD_WORDS, "summary")}
    bad = [
        f"{_SPELT.get(key, key)}: {word}"
        for key, good in _GOOD_WORDS.items()
        if (word := found[key]) is not None and word.lower() != good
    ]
    summary = found["summary"]
    if summary is not None:
        bad = [finding for finding in bad if not finding.endswith(summary)]
    return _health(summary, bad, stated=any(found.values()))


def from_mask(mask: int, summary: int) -> FabricHealth:
    """Return health from NVML's healthMask and healthSummary (0 where the struct has none).

    Each flag is two bits: 0 not applicable, 1 TRUE, 2 FALSE; so 0xaa is a healthy GPU and not one
    with half its paths down (NVIDIA/nccl issue 2186 read it so).
    """
    bad = [finding for shift, finding in _FLAGS if mask >> shift & 3 == _TRUE]
    misconfigured = _MISCONFIGURED.get(mask >> 8 & 15)
    if misconfigured:
        bad.append(misconfigured)
    return _health(_SUMMARIES.get(summary), bad, stated=bool(mask & 0xFFF))


def _health(summary: str | None, bad: list[str], *, stated: bool) -> FabricHealth:
    """Return the summary, else what is bad; unknown where nothing is stated."""
    if summary is None and not bad:
        return FabricHealth(healthy=True if stated else None)
    healthy = summary is not None and summary.lower() == "healthy"
    findings = bad if summary is None else [summary, *bad]
    return FabricHealth(healthy, "" if healthy else shorten("; ".join(findings)))


def from_text(gpu: int, words: Mapping[str, str], platform: Mapping[str, str]) -> GpuFabric | None:
    """Return the fabric of one GPU from nvidia-smi's words, or None where no state is stated.

    Keys have no case, spaces or underscores: `state`, `status`, `cliqueid`, `clusteruuid`, the
    health keys, and in `platform` `chassisserialnumber` and `trayindex`.
    """
    state = words.get("state", "").strip()
    if not state:
        return None
    health = from_words(words)
    return GpuFabric(
        gpu=gpu,
        state=shorten(state),
        status=shorten(words.get("status", "")),
        cluster_uuid=fabric_uuid(words.get("clusteruuid")),
        clique=in_range(whole((known(words.get("cliqueid")) or "").strip(), 10), MAX_CLIQUE),
        healthy=health.healthy,
        trouble=health.trouble,
        rack=known(shorten(platform.get("chassisserialnumber", ""))),
        tray=known(shorten(platform.get("trayindex", ""))),
    )

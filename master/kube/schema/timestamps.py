"""Timestamps of Kubernetes: RFC 3339 texts."""

from datetime import UTC, datetime
from functools import lru_cache


@lru_cache(maxsize=1024)
def unix_s(text: str) -> float | None:
    """Return the Unix time of a timestamp; None where there is none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def timestamp(at_s: float) -> str:
    """Return a Unix time as Kubernetes writes it."""
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

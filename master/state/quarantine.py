"""The name that an unusable file gets: in the same folder, never that of another file."""

import os
from pathlib import Path


def quarantine_path(path: Path, now_s: float) -> Path:
    """Return a free `NAME.<Unix time>.unusable`, numbered where two fall into one second."""
    stem, number = f"{path.name}.{int(now_s)}", 1
    quarantine = path.with_name(f"{stem}.unusable")
    while os.path.lexists(quarantine):
        number += 1
        quarantine = path.with_name(f"{stem}-{number}.unusable")
    return quarantine

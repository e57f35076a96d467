"""Where a file goes that cannot be used: beside where it was, and never over another one."""

import os
from pathlib import Path


def free_name(path: Path, now_s: float) -> Path:
    """`NAME.<Unix time>.unusable`, or numbered: two may be put aside in one second."""
    stem, number = f"{path.name}.{int(now_s)}", 1
    aside = path.with_name(f"{stem}.unusable")
    while os.path.lexists(aside):
        number += 1
        aside = path.with_name(f"{stem}-{number}.unusable")
    return aside

"""Commands of the documentation, typed as an administrator of the test cluster types them."""

import asyncio
import os
import re
import subprocess
import sysconfig
from pathlib import Path

from tests.e2e.controlplane.cluster import Cluster
from tests.support.waiting import CEILING_S

DOCS = Path(__file__).parents[3] / "docs"


def documented(page: str) -> list[str]:
    """The shell blocks of a page of docs/, in their order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


async def typed(cluster: Cluster, command: str) -> str:
    """What a command prints in a terminal with the rights of an administrator."""
    path = f"{sysconfig.get_path('scripts')}:{os.environ['PATH']}"
    place = {"KUBECONFIG": str(cluster.files.kubeconfig), "COLUMNS": "200", "PATH": path}

    def run() -> str:
        done = subprocess.run(
            ("sh", "-c", command),
            env={**os.environ, **place},
            capture_output=True,
            text=True,
            timeout=CEILING_S,
            check=False,
        )
        return done.stdout + done.stderr

    return await asyncio.to_thread(run)

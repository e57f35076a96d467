"""The commands of docs/kubernetes.md, typed in their order on a cluster with a release."""

import asyncio
import os
import re
import shutil
import sysconfig
from pathlib import Path

import pytest

from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.release import ALONE, Release
from tests.support.waiting import CEILING_S, eventually

PAGE = (Path(__file__).parents[3] / "docs" / "kubernetes.md").read_text(encoding="utf-8")
(BLOCK,) = re.findall(r"^```sh\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
COMMANDS = BLOCK.splitlines()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not on this machine")
async def test_the_commands_show_labels_hypernodes_events_and_annotations(
    release: Release, cluster: Cluster
) -> None:
    await release.install(*ALONE)
    labels, hypernodes, events, annotations, doctor = COMMANDS

    async def shows(command: str, *texts: str) -> bool:
        printed = await typed(cluster, command)
        return all(text in printed for text in texts)

    await eventually(lambda: shows(annotations, '"8":'))
    await eventually(lambda: shows(labels, "SWITCHBOX", "DRAGONFLY", "node-sample16"))
    await eventually(lambda: shows(hypernodes, "TIER"))
    near, far = release.hosts.cut("node-sample1")
    await eventually(lambda: shows(events, "LinkDown", f"node/{near}", f"node/{far}"))
    assert "all 1 pods of topo-master are ready" in await typed(cluster, doctor)


async def typed(cluster: Cluster, command: str) -> str:
    """What a command prints in a terminal with the rights of an administrator."""
    scripts = sysconfig.get_path("scripts")
    place = {"KUBECONFIG": str(cluster.files.kubeconfig), "COLUMNS": "200"}
    environment = {**os.environ, **place, "PATH": f"{scripts}:{os.environ['PATH']}"}
    process = await asyncio.create_subprocess_shell(
        command,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    async with asyncio.timeout(CEILING_S):
        printed, _ = await process.communicate()
    return printed.decode()

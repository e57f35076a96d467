"""No GET leaves cycles of objects behind: a master collects old ones next to never."""

import gc
from pathlib import Path

import pytest

from master.api.routes import ROUTES
from tests.master.placing import config, placing

pytestmark = pytest.mark.virtual_time
MORE = (
    "/v1/topology?group=s0",
    "/v1/topology?node=n0-0-0",
    "/v1/topology?depth=1",
    "/v1/topology/diff?from=1",
    "/v1/topology/graph?devices=vertices&format=graphml",
    "/v1/topology/graph?format=dot",
    "/v1/placements?pods=8&gpus_per_pod=8&explain=true",
)
FEW = 100
"""Objects of some calls; the tree has 512 nodes, and each answer is made of several of each."""


async def test_no_get_leaves_cycles_behind(tmp_path: Path) -> None:
    names = {"name": "n0-0-0", "id": "x", "release": "r", "file": "f"}
    gets = [each for each in ROUTES if each.method == "GET" and each.media != "text/event-stream"]
    async with placing(tmp_path, text=config(boxes=8, flies=8, nodes=8)) as caller:
        for path in (*(each.path.format(**names) for each in gets), *MORE):
            await caller.master.get(path)  # what is imported or kept at the first call
            gc.collect()
            gc.disable()
            try:
                for _ in range(4):
                    await caller.master.get(path)
                assert gc.collect() < FEW, path
            finally:
                gc.enable()

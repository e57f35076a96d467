"""npu-smi as the worker runs it: one chip after the other, a real program that prints them."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.parse.answers import items, understood
from tests.parse.test_super_pods import chip
from topo.model.machine import Gpu, ProbeState
from worker.probes.vendors.ascend import SuperPodTool


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of chips, `CARD-CHIP`, that a npu-smi on the PATH prints; others it refuses."""
    program = tmp_path / "npu-smi"
    program.write_text(
        f'#!/bin/sh\n[ "$1 $2 $3 $4 $6" = "info -t spod-info -i -c" ] || exit 9\n'
        f'echo "$5-$7" >> {tmp_path}/asked\ncat {tmp_path}/chips/"$5-$7" 2>/dev/null && exit 0\n'
        'echo "This device does not support querying spod-info."; exit 1\n'
    )
    program.chmod(0o755)
    (tmp_path / "chips").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return tmp_path


def put(host: Path, cards: int) -> None:
    """Cards with two chips each."""
    for device in range(2 * cards):
        (host / "chips" / f"{device // 2}-{device % 2}").write_text(chip(device=device))


async def test_all_chips_of_a_host_are_one_text_that_is_read(host: Path) -> None:
    put(host, 8)
    reading = await SuperPodTool().read()
    assert reading.state is ProbeState.OK
    assert [gpu.index for gpu in items(understood(reading.text), Gpu)] == list(range(16))


async def test_later_readings_ask_those_that_answered_and_miss_one_that_does_not(
    host: Path,
) -> None:
    put(host, 2)
    tool = SuperPodTool()
    await tool.read()
    (host / "asked").unlink()
    (host / "chips" / "1-1").unlink()
    reading = await tool.read()
    assert (host / "asked").read_text().split() == ["0-0", "0-1", "1-0", "1-1"]
    assert reading.text.count("SDID") == 3
    put(host, 3)
    for _ in range(10):
        assert (await tool.read()).text.count("SDID") == 4
    assert (await tool.read()).text.count("SDID") == 6


async def test_a_host_without_a_super_pod_is_absent_and_one_that_had_it_has_failed(
    host: Path,
) -> None:
    tool = SuperPodTool()
    assert (await tool.read()).state is ProbeState.ABSENT
    (host / "asked").unlink()
    assert (await tool.read()).state is ProbeState.ABSENT
    assert (host / "asked").read_text().split() == ["0-0", "0-1"]
    put(host, 1)
    assert (await tool.read()).state is ProbeState.OK
    for file in (host / "chips").iterdir():
        file.unlink()
    reading = await tool.read()
    assert (reading.state, "does not support" in reading.detail) == (ProbeState.FAILED, True)


async def test_a_host_without_npu_smi_is_absent_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    reading = await asyncio.wait_for(SuperPodTool().read(), 60)
    assert (reading.state, reading.detail) == (ProbeState.ABSENT, "npu-smi is not installed")

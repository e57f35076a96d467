"""NVML through nvidia-ml-py against a real shared library that the test compiles.

The library is found by name, so every reading happens in a helper process with LD_LIBRARY_PATH.
"""

import json
from pathlib import Path
from typing import Any

from tests.parse.answers import items
from topo.facts import parse
from topo.model.machine import LinkPort, PortState, ProbeState
from topo.model.observation import ParsedProbe
from worker.probes.helper_process import HelperProcess
from worker.probes.probe import Reading

CLUSTER = "01020304-0506-0708-090a-0b0c0d0e0f10"


async def ask(library: Path, fake: str = "", times: int = 1) -> Reading:
    """The last of some readings over a library in whose folder nothing else lies."""
    environment = {"LD_LIBRARY_PATH": str(library.parent), "FAKE_NVML": fake}
    process = HelperProcess(("worker.probes.nvidia_library",), environment=environment)
    try:
        for _ in range(times - 1):
            await process.read()
        return await process.read()
    finally:
        process.close()
        await process.wait_closed()


async def read(library: Path, fake: str = "") -> Any:
    """What a good reading says."""
    reading = await ask(library, fake, times=2)
    assert reading.state is ProbeState.OK, reading.detail
    return json.loads(reading.text)


async def test_a_tray_is_read_whole(nvml: Path) -> None:
    """Identity, memory, NUMA, matrix and driver of four GPUs."""
    text = await read(nvml)
    assert (text["format"], text["driver"]) == ("nvml", "570.124.06")
    assert [device["uuid"] for device in text["devices"]] == [f"GPU-{n:08}" for n in range(4)]
    first = text["devices"][0]
    assert (first["bdf"], first["name"]) == ("00000008:01:00.0", "NVIDIA GB200")
    assert first["memory_bytes"] == 198674743296
    assert [device["numa"] for device in text["devices"]] == [2, 10, 18, 26]
    assert text["topology"][0] == [0, 40, 50, 50]


async def test_the_fabric_comes_in_the_newest_form(nvml: Path) -> None:
    """Version 3 with its summary; 0xaa means that nothing is wrong."""
    fabric = (await read(nvml))["devices"][0]["fabric"]
    assert fabric == {
        "version": 3,
        "state": 3,
        "status": 0,
        "cluster_uuid": CLUSTER,
        "clique": 32766,
        "health_mask": 0xAA,
        "summary": 1,
    }


async def test_the_fabric_falls_back_to_older_forms(nvml: Path) -> None:
    """Version 2 has a mask and no summary, version 1 neither."""
    second = (await read(nvml, "v2"))["devices"][0]["fabric"]
    assert (second["version"], second["health_mask"], second["summary"]) == (2, 0xAA, None)
    first = (await read(nvml, "v1"))["devices"][0]["fabric"]
    assert (first["version"], first["health_mask"], first["clique"]) == (1, None, 7)
    assert first["cluster_uuid"] == CLUSTER


async def test_insufficient_resources_is_passed_on_as_it_is(nvml: Path) -> None:
    """Completed, status 24, zero UUID: the parser judges, not the probe."""
    fabric = (await read(nvml, "insufficient"))["devices"][0]["fabric"]
    assert (fabric["state"], fabric["status"]) == (3, 24)
    assert fabric["cluster_uuid"] == "00000000-0000-0000-0000-000000000000"


async def test_a_device_without_a_fabric_has_none_and_no_error(nvml: Path) -> None:
    """The answer "Not supported" is a plain answer."""
    text = await read(nvml, "nofabric")
    assert text["devices"][0]["fabric"] is None
    assert text["devices"][0]["platform"] is None
    assert {error["call"] for error in text["errors"]} == {"nvmlDeviceGetNvLinkRemotePciInfo"}


async def test_a_strange_fabric_answer_is_noted(nvml: Path) -> None:
    """The answer "Unknown error" is not a plain answer."""
    text = await read(nvml, "strangefabric")
    assert {"call": "nvmlDeviceGetGpuFabricInfoV", "device": 3, "code": 999} in text["errors"]


async def test_the_rack_position_survives_zero_bytes(nvml: Path) -> None:
    """The InfiniBand GUID holds NULs, and is whole."""
    platform = (await read(nvml))["devices"][2]["platform"]
    assert platform == {
        "chassis_serial": "1821624200001",
        "slot": 14,
        "tray": 4,
        "host": 1,
        "peer_type": 1,
        "module": 3,
        "ib_guid": "946d0000ae" + "00" * 11,
    }


async def test_links_are_asked_one_by_one(nvml: Path) -> None:
    """18 of 36 exist; a dead one has no remote; a failing call costs only its field."""
    links = (await read(nvml))["devices"][0]["links"]
    assert [link["link"] for link in links] == list(range(18))
    assert links[0] == {
        "link": 0,
        "state": 1,
        "remote_bdf": "00000000:C3:00.0",
        "remote_type": 2,
        "speed_mbps": 53125,
    }
    assert links[5] == {
        "link": 5,
        "state": 0,
        "remote_bdf": None,
        "remote_type": None,
        "speed_mbps": None,
    }
    assert (links[6]["state"], links[6]["remote_bdf"]) == (1, None)
    assert links[7]["speed_mbps"] is None


async def test_a_slow_link_is_reported_degraded(nvml: Path) -> None:
    """From the library to the facts: it is up, and its speed is its trouble."""
    reading = await ask(nvml, "slow")
    parsed = parse(reading.text, "nvml")
    assert isinstance(parsed, ParsedProbe)
    ports = items(parsed, LinkPort)
    degraded = [(port.gpu, port.port) for port in ports if port.trouble.startswith("degraded: ")]
    assert degraded == [(gpu, 3) for gpu in range(4)]
    assert {port.state for port in ports if port.trouble} == {PortState.UP}


async def test_a_lost_gpu_does_not_hide_the_others(nvml: Path) -> None:
    """The others keep their numbers, and it is listed among the errors."""
    text = await read(nvml, "lost")
    assert [device["index"] for device in text["devices"]] == [0, 1, 3]
    assert text["topology"] == [[0, 40, 50], [40, 0, 50], [50, 50, 0]]
    assert {"call": "nvmlDeviceGetHandleByIndex", "device": 2, "code": 15} in text["errors"]


async def test_an_old_driver_lacks_calls_and_is_read_all_the_same(old_nvml: Path) -> None:
    """No fabric, no platform, no error about either."""
    text = await read(old_nvml)
    device = text["devices"][0]
    assert (device["fabric"], device["platform"]) == (None, None)
    assert [link["speed_mbps"] for link in device["links"]] == [None] * 18
    assert {error["call"] for error in text["errors"]} == {"nvmlDeviceGetNvLinkRemotePciInfo"}


async def test_an_unloaded_driver_is_a_failure(nvml: Path) -> None:
    """The library is there and says so."""
    reading = await ask(nvml, "unloaded")
    assert reading.state is ProbeState.FAILED
    assert reading.detail == "Driver Not Loaded"


async def test_a_driver_that_goes_away_is_initialised_anew(nvml: Path) -> None:
    """Each failed reading starts over."""
    assert (await ask(nvml, "gone", times=2)).state is ProbeState.FAILED


async def test_a_host_without_nvml_is_absent(tmp_path: Path) -> None:
    """No library by that name."""
    reading = await ask(tmp_path / "libnvidia-ml.so.1")
    assert reading.state is ProbeState.ABSENT
    assert "Not Found" in reading.detail

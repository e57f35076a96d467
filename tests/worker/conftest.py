"""Vendor libraries, built once for all tests of the worker."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.ports import own_ports
from tests.worker.masters import TestMaster
from tests.worker.probes.compiling import compile_library
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import demo_world


@pytest.fixture
def away() -> Iterator[TestMaster]:
    """A master that does not listen yet, on a port that no other test takes meanwhile."""
    with own_ports() as (port, *_):
        yield TestMaster(beat_s=2, port=port)


@pytest.fixture(scope="session")
def mxsml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libmxsml.so of revision 2.3.1."""
    return compile_library("mxsml.c", tmp_path_factory.mktemp("new") / "libmxsml.so")


@pytest.fixture(scope="session")
def old_mxsml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libmxsml.so from before ETH, port states and several remotes."""
    return compile_library("mxsml.c", tmp_path_factory.mktemp("old") / "libmxsml.so", "OLD")


@pytest.fixture(scope="session")
def nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libnvidia-ml.so.1 of a driver of the 570 series, on a GB200 tray."""
    return compile_library("nvml.c", tmp_path_factory.mktemp("new-nvml") / "libnvidia-ml.so.1")


@pytest.fixture(scope="session")
def old_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A libnvidia-ml.so.1 from before fabrics."""
    folder = tmp_path_factory.mktemp("old-nvml")
    return compile_library("nvml.c", folder / "libnvidia-ml.so.1", "OLD")


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    """The bundle of node-sample3."""
    write_bundle(tmp_path / "node", demo_world().nodes[2])
    return tmp_path / "node"

"""A vendor is a folder of tables and a file of probes; nothing else has to be edited for it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
READERS = '''
"""Acme: what acme-smi prints."""
import re
from topo.facts.link_matrix import matrix
from topo.facts.reader import Mark, Reader, Vendor
from topo.facts.reading.identity import normal_bdf
from topo.model.errors import Refusal
from topo.model.machine import Gpu
from topo.model.observation import ParsedProbe

CARD = re.compile(r"^acme card ([0-9]+) at (\\S+)$", re.MULTILINE)

def read(text):
    cards = tuple(Gpu(int(number), bdf=normal_bdf(at)) for number, at in CARD.findall(text))
    return ParsedProbe("acme-list", (cards,)) if cards else Refusal("no card", "", "see acme-smi")

VENDOR = Vendor(
    readers=(
        Reader(
            name="acme-list",
            mark=Mark.TITLE,
            recognises=lambda text: CARD.search(text) is not None,
            read=read,
            command="acme-smi cards",
            gives=("gpus",),
            without_processes=lambda text: re.sub(r"(?m)^process .*\\n", "", text),
        ),
        matrix.reader(
            "acme-matrix",
            "acme-smi matrix",
            Mark.NAMED_MATRIX,
            re.compile(r"^XPU", re.MULTILINE),
            devices=("XPU",),
        ),
    ),
    pci_id="0xacce",
    devices=("XPU",),
)
'''
PROBES = '''
"""Acme: acme-smi."""
from worker.probes import sources

def probes(settings):
    yield sources.library(settings, "acme-library", "worker.probes.no_such_library")
    for name in ("acme-list", "acme-matrix"):
        yield sources.command(name, instead_of="acme-library")
'''
TOOL = """#!/bin/sh
case $1 in
cards) printf 'acme card 1 at 0000:0b:00.0\\nacme card 0 at 0000:0c:00.0\\nprocess 7: a.py\\n' ;;
matrix) printf '\\tXPU0\\tXPU1\\tNUMA Affinity\\nXPU0\\tX\\tMX\\t1\\nXPU1\\tMX\\tX\\t0\\n' ;;
esac
"""
ASK = """
import json, sys
from pathlib import Path
from topo.facts import parse, recognise
from topo.facts.assemble import assemble
from topo.placement.gpus.node_gpus import node_gpus
from topo.recording.bundle import read
bundle = read(Path(sys.argv[1]))
texts = {take.probe: take.text for take in bundle.probes if take.text}
facts = assemble(bundle.identity, [(probe, parse(text)) for probe, text in texts.items()], ())
print(json.dumps({
    "probes": [take.probe for take in bundle.probes],
    "texts": texts,
    "recognised": {probe: recognise(text) for probe, text in texts.items()},
    "gpus": [[gpu.index, gpu.bdf, gpu.numa] for gpu in facts.gpus],
    "names": facts.matrix.gpus,
    "rows": node_gpus(facts).rows,
    "codes": node_gpus(facts).codes,
}))
"""


def _card(sysfs: Path, address: str, numa: int) -> None:
    device = sysfs / "bus/pci/devices" / address
    device.mkdir(parents=True)
    for file, content in (("class", "0x120000"), ("vendor", "0xacce"), ("numa_node", str(numa))):
        (device / file).write_text(content)


@pytest.fixture(scope="module")
def acme(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a worker with the new vendor recorded, and what the product makes of the recording."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in ("topo", "topo/facts", "worker", "worker/probes", "worker/probes/vendors"):
        (tree / folder).mkdir()
        for child in (ROOT / folder).iterdir():
            if not (child.is_dir() and child.relative_to(ROOT).as_posix() in _EXTENDED):
                (tree / folder / child.name).symlink_to(child)
    (tree / "topo/facts/acme").mkdir()
    (tree / "topo/facts/acme/__init__.py").write_text(READERS)
    (tree / "worker/probes/vendors/acme.py").write_text(PROBES)
    (tree / "acme-smi").write_text(TOOL)
    (tree / "acme-smi").chmod(0o755)
    _card(tree / "sys", "0000:0b:00.0", 0)
    _card(tree / "sys", "0000:0c:00.0", 1)
    environment = {**os.environ, "PYTHONPATH": str(tree), "PATH": f"{tree}:{os.environ['PATH']}"}
    recording = tree / "recording"
    record = ("-m", "worker", f"--record={recording}", f"--sysfs-root={tree / 'sys'}")
    _printed(record, environment)
    answer: dict[str, Any] = json.loads(_printed(("-c", ASK, str(recording)), environment))
    return answer


def _printed(arguments: tuple[str, ...], environment: dict[str, str]) -> str:
    command = (sys.executable, "-P", *arguments)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


_EXTENDED = {"topo/facts", "worker/probes", "worker/probes/vendors"}


def test_its_probes_stand_in_for_its_library(acme: dict[str, Any]) -> None:
    """Libraries first, then the tools of every vendor, then the kernel."""
    probes = acme["probes"]
    assert probes.index("acme-library") < probes.index("mxsml") < probes.index("acme-list")
    assert probes.index("acme-matrix") < probes.index("mx-smi-list") < probes.index("sysfs-pci")


def test_its_texts_are_recognised(acme: dict[str, Any]) -> None:
    """Its matrix is not taken for that of a vendor whose matrix has no mark."""
    assert acme["recognised"] == {probe: probe for probe in acme["texts"]}
    assert {"acme-list", "acme-matrix", "sysfs-pci"} <= set(acme["texts"])


def test_its_processes_do_not_leave_the_host(acme: dict[str, Any]) -> None:
    """The recording has the cards and not the command lines."""
    assert acme["texts"]["acme-list"].endswith("at 0000:0c:00.0\n")


def test_its_tool_is_believed_before_the_kernel(acme: dict[str, Any]) -> None:
    """The tool numbers the cards; the kernel, which counts by address, adds the NUMA nodes."""
    assert acme["gpus"] == [[0, "0000:0c:00.0", 1], [1, "0000:0b:00.0", 0]]


def test_its_matrix_joins_with_its_gpus(acme: dict[str, Any]) -> None:
    """By the vendor's own word for a device."""
    assert acme["names"] == ["XPU0", "XPU1"]
    assert acme["rows"] == [0, 1]
    assert acme["codes"] == [["X", "MX"], ["MX", "X"]]

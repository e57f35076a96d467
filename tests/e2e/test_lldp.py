"""What a worker sees of real switches that speak LLDP, in networks of the test's own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import CEILING_S
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.machine import NicNeighbour

pytestmark = pytest.mark.slow

SWITCHES = ("LEAF01", "leaf02.dc1.example.com")
SCRIPT = Path(__file__).with_name("lldp_network.sh")


def test_a_worker_names_the_switch_port_at_the_end_of_each_interface(tmp_path: Path) -> None:
    """The daemon runs on the host and on two switches, each in a network of its own."""
    missing = [name for name in ("lldpd", "unshare", "nsenter", "ip") if not shutil.which(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install lldpd util-linux iproute2)")
    own = ("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child")
    made = subprocess.run(
        [*own, "sh", str(SCRIPT), str(tmp_path), sys.executable, *SWITCHES],
        check=False,
        timeout=CEILING_S,
        capture_output=True,
        text=True,
    )
    if "Operation not permitted" in made.stderr:
        pytest.skip("a network of its own takes rights that this user lacks")
    assert made.returncode == 0, made.stderr
    (found,) = tmp_path.glob("recorded/**/lldpcli.json")
    answer = parse(found.read_text())
    assert not isinstance(answer, Refusal), answer
    (neighbours,) = answer.facts
    assert isinstance(neighbours, tuple)
    assert {
        (each.nic, each.name, each.port_description)
        for each in neighbours
        if isinstance(each, NicNeighbour)
    } == {("eth-rdma1", SWITCHES[0], "etp1"), ("eth-rdma2", SWITCHES[1], "etp1")}
    assert json.loads(found.read_text())

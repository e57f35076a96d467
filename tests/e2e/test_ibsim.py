"""The real ibnetdiscover on simulated fabrics: what it prints is read, and gives the groups."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.builders import discovery, together
from tests.discovery.fabrics import dumped, listed, read
from tests.support.fabric import Built, pairs, rails
from tests.support.waiting import CEILING_S
from topo.discovery.modes import Mode
from topo.discovery.state import Discovery

pytestmark = pytest.mark.slow
SCRIPT = Path(__file__).with_name("ibsim_fabric.sh")


def answers(fabric: Built, folder: Path, requests: Sequence[str]) -> Mapping[str, str]:
    """The dumps by name, made in the order of the requests (see the script)."""
    tools = ("ibsim", "ibsim-run", "ibnetdiscover", "unshare")
    missing = [name for name in tools if not shutil.which(name)]
    if missing:
        pytest.skip(f"needs {', '.join(missing)} (apt-get install ibsim-utils infiniband-diags)")
    (folder / "net").write_text(fabric.text())
    (folder / "requests").write_text("".join(f"{line}\n" for line in requests))
    own = ("unshare", "--net", "--pid", "--fork", "--kill-child", "sh", str(SCRIPT), str(folder))
    made = subprocess.run(own, check=False, timeout=CEILING_S, capture_output=True, text=True)
    if "Operation not permitted" in made.stderr:
        pytest.skip("a network of its own takes rights that this user lacks")
    assert made.returncode == 0, made.stderr
    return {path.stem: path.read_text() for path in folder.glob("*.txt")}


def dump(fabric: Built, host: str, name: str) -> str:
    """The request of a dump on a host."""
    return f"dump H-{fabric.adapters[host][0]} {name}.txt"


def doubts(state: Discovery) -> list[str]:
    """What the source says about its dumps."""
    return [str(each.code) for source in state.snapshot.sources for each in source.warnings]


def test_dragonflies_outlive_a_leaf_without_uplinks_and_follow_a_cable(tmp_path: Path) -> None:
    """Two hosts on each leaf. The leaf alone is a subnet of its own, in no dump of the others."""
    fabric = pairs(4, 2)
    second, last = (f"S-{list(fabric.leaves.values())[at]}" for at in (1, 3))
    moved = f'"H-{fabric.adapters["gpu-05"][0]}"[1]'
    found = answers(
        fabric,
        tmp_path,
        (
            dump(fabric, "gpu-01", "whole"),
            *(f'Unlink "{second}"[{port}]' for port in (1, 2)),
            dump(fabric, "gpu-01", "others"),
            dump(fabric, "gpu-03", "alone"),
            *(f'ReLink "{second}"[{port}]' for port in (1, 2)),
            f"Unlink {moved}",
            f'Link {moved} "{last}"[9]',
            dump(fabric, "gpu-01", "moved"),
        ),
    )
    whole = {frozenset({f"gpu-0{n}", f"gpu-0{n + 1}"}) for n in (1, 3, 5, 7)}
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(fabric.adapters), dumped(found["whole"]))
    assert (together(state), doubts(state)) == (whole, [])

    state.advance(1.0, dumped(found["others"]))
    assert together(state) == whole
    state.advance(2.0, dumped(found["others"], found["alone"]))
    assert (together(state), doubts(state)) == (whole, ["doubtful-fabric"])

    for at in range(3, 8):
        state.advance(float(at), dumped(found["moved"]))
    state.validate()
    assert doubts(state) == []
    assert frozenset({"gpu-05", "gpu-07", "gpu-08"}) in together(state)


def test_rails_are_the_units_and_every_cut_of_a_dump_is_told_or_refused(tmp_path: Path) -> None:
    """Sixteen hosts on two rails each, two spines."""
    hosts = [f"gpu-{n:02}" for n in range(1, 17)]
    fabric = rails([hosts[:8], hosts[8:]], 2, 2)
    text = answers(fabric, tmp_path, [dump(fabric, "gpu-01", "whole")])["whole"]
    state = discovery(Mode.FABRIC)
    state.advance(0.0, listed(hosts), dumped(text))
    assert together(state) == {frozenset(hosts[:8]), frozenset(hosts[8:])}
    lines = text.splitlines(keepends=True)
    blocks = [at for at, line in enumerate(lines) if line == "\n" and at > 6]
    assert len(blocks) > 40
    for at in blocks:
        assert read("".join(lines[:at])).missing

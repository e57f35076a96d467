"""`topo fragmentation`: what is free, how whole it is, what fits."""

import json

from tests.cli import samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit


def test_the_report_has_a_bar_for_every_share(topo: Topo) -> None:
    shown = topo("fragmentation")
    assert shown.exit_code == Exit.OK
    lines = [" ".join(line.split()) for line in shown.stdout.splitlines()]
    assert lines[0] == "MXC500 16 nodes, 1 closed"
    assert "free █████████··· 75 % 96 of 128 GPUs" in lines
    assert "usable ██████████·· 85 % 81.6 of 96 free GPUs, for a usual job" in lines
    assert "1 dragonfly 2 1 1 0 0 1" in lines
    assert "64 █████████··· 96 12 x 8 GPUs" in lines
    assert "128 ············ 0 none fits now" in lines
    assert "256 and more: larger than any group of the tree" in lines
    assert not [line for line in lines if line.startswith("512")]


def test_json_is_the_masters_document(topo: Topo) -> None:
    assert json.loads(topo("fragmentation", "-o", "json").stdout) == samples.fragmentation()


def test_a_cluster_without_gpus_is_said_to_have_none(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.fragmentation = {"types": []}
    assert "topo doctor" in topo("fragmentation").stdout


def test_a_full_cluster_divides_by_nothing(topo: Topo, fake_master: FakeMaster) -> None:
    full = fake_master.fragmentation["types"][0]
    full.update(free_gpus=0, whole_groups=0, integrity=1.0, unusable_gpus=0.0)
    shown = topo("fragmentation")
    assert shown.exit_code == Exit.OK
    assert "0 of 128 GPUs" in shown.stdout

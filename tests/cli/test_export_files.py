"""`topo export` for Slurm and NFD: files that are replaced only where they change."""

import os
import stat
from pathlib import Path

import pytest
import yaml

from tests.cli.conftest import FakeMaster, Topo
from topo.cli.exit_codes import Exit


def test_a_file_is_written_once_and_then_left_alone(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    there = tmp_path / "topology.conf"
    words = ("export", "--format", "slurm-tree", "-o", str(there), "--exit-code")
    first = topo(*words)
    assert (first.exit_code, first.stdout) == (Exit.CHANGED, "")
    assert first.stderr == f"topo: written: {there}\n"
    assert "SwitchName=cluster Switches=switchbox-sample1\n" in there.read_text()
    assert stat.S_IMODE(there.stat().st_mode) == 0o644
    os.utime(there, ns=(1, 1))
    again = topo(*words)
    assert (again.exit_code, again.stderr) == (Exit.OK, f"topo: unchanged: {there}\n")
    assert there.stat().st_mtime_ns == 1
    fake_master.document["groups"][0]["child"].pop()
    assert topo(*words).exit_code == Exit.CHANGED
    assert os.listdir(tmp_path) == ["topology.conf"]  # noqa: PTH208 - and no hidden one


def test_a_link_to_the_file_stays_and_its_mode_too(topo: Topo, tmp_path: Path) -> None:
    target, link = tmp_path / "real.yaml", tmp_path / "topology.yaml"
    target.write_text("")
    target.chmod(0o640)
    link.symlink_to(target)
    assert topo("export", "-f", "slurm-yaml", "-o", str(link)).exit_code == Exit.OK
    assert link.is_symlink()
    assert stat.S_IMODE(target.stat().st_mode) == 0o640
    names = [each["topology"] for each in yaml.safe_load(target.read_text())]
    assert names == ["fabric", "dragonfly"]


def test_a_master_without_nodes_changes_no_file(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    there = tmp_path / "topology.conf"
    there.write_text("SwitchName=a Nodes=b\n")
    fake_master.document["groups"] = []
    shown = topo("export", "-f", "slurm-tree", "-o", str(there))
    assert shown.exit_code == Exit.REFUSED
    assert "knows no node" in shown.stderr
    assert there.read_text() == "SwitchName=a Nodes=b\n"


def test_nodes_that_stand_in_no_block_are_told(topo: Topo, fake_master: FakeMaster) -> None:
    node = {"name": "spare", "kind": "node", "status": "Ready"}
    fake_master.document["unplaced"] = [{**node, "reason": {"code": "no-peer", "text": "alone"}}]
    shown = topo("export", "-f", "slurm-block", "--block-size", "4")
    assert "BlockSizes=4,8\n" in shown.stdout
    assert "not written, since they stand in no block: spare" in shown.stderr


def test_nfd_has_an_object_for_each_node_with_the_labels_of_the_domain(topo: Topo) -> None:
    shown = topo("export", "-f", "nfd", "--domain", "example.com", "--kind", "dragonfly")
    made = list(yaml.safe_load_all(shown.stdout))
    assert {key for each in made for key in each["spec"]["labels"]} == {"example.com/dragonfly"}


@pytest.mark.parametrize("made", ["nfd", "kueue", "kai", "koordinator", "slurm-block"])
def test_a_kind_that_no_group_has_is_refused_with_those_that_there_are(
    topo: Topo, made: str
) -> None:
    shown = topo("export", "-f", made, "--kind", "rack")
    assert shown.exit_code == Exit.REFUSED
    assert "of kind rack" in shown.stderr
    assert "at --kind\n  next: name one of dragonfly, switchbox" in shown.stderr


@pytest.mark.parametrize(
    ("option", "value"), [("--domain", "Bad domain"), ("--namespace", "Bad_NS")]
)
def test_a_name_that_kubernetes_would_refuse_is_refused_before(
    topo: Topo, option: str, value: str
) -> None:
    shown = topo("export", "-f", "nfd", option, value)
    assert (shown.exit_code, shown.stdout) == (Exit.USAGE, "")
    assert f"at {option} {value}\n  next: write a" in shown.stderr


def test_a_file_that_cannot_be_read_back_is_named_with_its_line(topo: Topo, tmp_path: Path) -> None:
    there = tmp_path / "topology.conf"
    there.write_text("SwitchName=a Nodes=b\nSwitchName=c Nodes=n[1-\n")
    shown = topo("export", "-f", "slurm-tree", "-o", str(there))
    assert shown.exit_code == Exit.REFUSED
    assert f"at --output {there}: line 2" in shown.stderr


@pytest.mark.parametrize(
    ("scheduler", "kinds"),
    [
        ("kueue", ["Topology", "ResourceFlavor"]),
        ("kai", ["Topology"]),
        ("koordinator", ["ClusterNetworkTopology"]),
    ],
)
def test_a_scheduler_has_the_objects_that_its_controller_would_make(
    topo: Topo, scheduler: str, kinds: list[str]
) -> None:
    made = list(yaml.safe_load_all(topo("export", "-f", scheduler).stdout))
    assert [each["kind"] for each in made] == kinds
    assert "metax-tech.com/dragonfly" in str(made[0]["spec"])
    assert {each["metadata"]["labels"]["app.kubernetes.io/managed-by"] for each in made} == {
        "topo-export"
    }


@pytest.mark.parametrize(
    "words",
    [("-f", "dot", "--forget"), ("-f", "slurm-tree", "--devices"), ("-f", "dot", "--exit-code")],
)
def test_an_option_of_another_format_is_refused(topo: Topo, words: tuple[str, ...]) -> None:
    shown = topo("export", *words)
    assert shown.exit_code == Exit.USAGE
    assert "an option that only" in shown.stderr


def test_a_file_that_is_no_text_or_in_no_folder_is_refused(topo: Topo, tmp_path: Path) -> None:
    bad = tmp_path / "topology.conf"
    bad.write_bytes(b"\xff\xfe")
    assert "no text" in topo("export", "-f", "slurm-tree", "-o", str(bad)).stderr
    shown = topo("export", "-f", "slurm-tree", "-o", str(tmp_path / "away" / "t.conf"))
    assert "the file is not written: No such file" in shown.stderr


def test_a_launcher_gets_the_nodes_that_cannot_be_trusted_and_no_others(
    topo: Topo, fake_master: FakeMaster
) -> None:
    assert topo("export", "-f", "excluded-hosts").stdout == ""
    held: tuple[dict[str, object], ...] = (
        {"quarantine": "fan"},
        {"suspected": ["slot 1: 2 flaps"]},
        {"suspected": []},
    )
    fake_master.document["unplaced"] = [
        {"name": f"n{at:02}", "kind": "node", "status": "Ready"}
        | {"reason": {"code": "no-peer", "text": "alone"}}
        | more
        for at, more in enumerate(held, start=9)
    ]
    assert topo("export", "-f", "excluded-hosts").stdout == "n09\nn10\n"
    assert topo("export", "-f", "excluded-hostlist").stdout == "n[09-10]\n"
    assert topo("export", "-f", "excluded-hosts", "--kind", "x").exit_code == Exit.USAGE

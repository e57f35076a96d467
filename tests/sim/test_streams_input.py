"""Where streams come from: mixes, traces, and maps of clusters."""

from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.placement.streams import GRIDS
from topo.model.errors import BadInputError
from topo.sim.streams.jobs import (
    MEDIAN_S,
    MIXES,
    TAIL_GPUS,
    Flow,
    draw_jobs,
    read_pod_gpus,
    replay_sizes,
    request,
)
from topo.sim.worlds.maps import capacity_of, grid, read_map

TRACES = Path(__file__).parents[3] / "shared" / "data" / "traces"
FLOW = Flow(jobs=4000, load=0.9, capacity_gpus=10_240)


def trace(name: str) -> Path:
    path = TRACES / name
    if not path.exists():
        pytest.skip(f"{path} is not here")
    return path


def test_the_same_seed_draws_the_same_jobs_and_another_one_others():
    jobs = draw_jobs(MIXES["llm"], FLOW, 1)
    assert jobs == draw_jobs(MIXES["llm"], FLOW, 1)
    assert jobs != draw_jobs(MIXES["llm"], FLOW, 2)


@pytest.mark.parametrize("mix", MIXES)
def test_jobs_offer_the_load_that_was_asked_for(mix):
    jobs = draw_jobs(MIXES[mix], FLOW, 3)
    offered = sum(job.gpus * job.duration_s for job in jobs) / jobs[-1].arrival_s
    assert offered == pytest.approx(0.9 * 10_240, rel=0.15)
    assert sorted(job.duration_s for job in jobs)[2000] == pytest.approx(MEDIAN_S, rel=0.1)


def test_the_mix_with_tails_has_them_in_one_job_of_fifty():
    sizes = Counter(job.gpus for job in draw_jobs(MIXES["llm-tails"], FLOW, 4))
    assert sizes[TAIL_GPUS] / 4000 == pytest.approx(0.02, abs=0.007)
    assert request(TAIL_GPUS).tail == 4
    assert not any(request(gpus).tail for gpus, _ in MIXES["llm"] if gpus >= 64)


def test_a_job_has_one_pod_below_a_node_and_whole_nodes_from_there_on():
    assert [request(gpus).pods for gpus in (1, 4, 8, 16, 512)] == [1, 1, 1, 2, 64]
    assert [request(gpus).gpus_per_pod for gpus in (1, 4, 8, 16, 512)] == [1, 4, 8, 8, 8]


def test_a_trace_starts_again_when_it_is_over():
    jobs = replay_sizes((8, 4, 2), Flow(jobs=7, load=1.0, capacity_gpus=64), 1)
    assert [job.gpus for job in jobs] == [8, 4, 2, 8, 4, 2, 8]


def test_a_pod_list_gives_its_pods_of_whole_gpus(tmp_path):
    file = tmp_path / "pods.csv"
    file.write_text("name,num_gpu,gpu_milli\na,1,460\nb,8,1000\nc,0,0\nd,1,1000\n")
    assert read_pod_gpus(file) == (8, 1)


@pytest.mark.parametrize(
    ("text", "where"),
    [("name,num_gpu\na,1\n", "line 2"), ("num_gpu,gpu_milli\nx,1\n", "line 2"), ("", "pods.csv")],
)
def test_what_is_no_pod_list_is_refused_with_the_place(tmp_path, text, where):
    file = tmp_path / "pods.csv"
    file.write_text(text)
    with pytest.raises(BadInputError, match=where):
        read_pod_gpus(file)


def test_a_pod_list_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="CSV pod list"):
        read_pod_gpus(tmp_path / "none.csv")


MAP = """ip,DSW,PSW,ASW
a,G1,P2,S1
b,G1,P2,S1
c,G1,P10,S1
d,G1,P10,
"""


def test_a_map_names_groups_from_the_top_down_and_equal_names_under_two_parents_differ(tmp_path):
    file = tmp_path / "map.csv"
    file.write_text(MAP)
    hosts = {str(host.name): host for host in read_map(file)}
    assert [hosts[n].path for n in "abcd"] == [("P2", "S1")] * 2 + [("P10", "S1"), ("P10",)]
    assert hosts["a"].kinds == ("psw", "asw")
    assert (hosts["a"].tiers, hosts["d"].tiers) == ((2, 1), (2,))
    assert {host.gpus for host in hosts.values()} == {8}


def test_a_map_may_say_what_its_nodes_have(tmp_path):
    file = tmp_path / "nodes.csv"
    file.write_text("sn,cpu_milli,memory_mib,gpu,model\nn1,64000,1,2,P100\nn2,96000,2,8,V100\n")
    one, two = read_map(file)
    assert (one.gpus, one.gpu_type, one.path) == (2, "P100", ())
    assert (two.gpus, two.gpu_type, two.path) == (8, "V100", ())


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("ip,ASW\n", "no nodes"),
        ("ip,ASW\na\n", "row 2"),
        ("ip,ASW\na,S1\na,S2\n", "node a stands there twice"),
        ("ip,ASW\n,S1\n", "a node has no name"),
        ("ip,gpu\na,many\n", "'many' is not a number of GPUs"),
    ],
)
def test_what_is_no_map_is_refused_with_the_reason(tmp_path, text, what):
    file = tmp_path / "map.csv"
    file.write_text(text)
    with pytest.raises(BadInputError, match=what):
        read_map(file)


def test_a_map_that_is_not_there_or_no_text_is_refused(tmp_path):
    with pytest.raises(BadInputError, match="CSV file of nodes"):
        read_map(tmp_path / "none.csv")
    binary = tmp_path / "map.csv"
    binary.write_bytes(b"\xff\xfe\x00\x80")
    with pytest.raises(BadInputError, match="CSV file of nodes"):
        read_map(binary)


@given(st.text(alphabet='a1,"\n\r;gpu\x00é', max_size=60))
def test_any_text_is_a_map_and_a_pod_list_or_is_refused(tmp_path_factory, text):
    file = tmp_path_factory.mktemp("any") / "file.csv"
    file.write_text(text, encoding="utf-8", newline="")
    for read in (read_map, read_pod_gpus):
        with suppress(BadInputError):
            assert read(file)


@pytest.mark.parametrize(("shape", "nodes"), [("8", 1280), ("16", 1280), ("48", 1152)])
def test_the_grids_have_the_sizes_that_they_are_named_for(shape, nodes):
    capacity = capacity_of(grid(*GRIDS[shape]))
    assert sum(1 for _ in capacity.hosts()) == nodes
    assert capacity.peaks("MXC500", 8)[0] == int(shape)


def test_the_lingjun_map_has_its_three_top_groups_and_119_domains():
    """As its description counts them: 847 hosts, 68 of the 119 (PSW, ASW) hold 8 of them."""
    hosts = read_map(trace("lingjun_topo.csv"))
    domains = Counter(host.path for host in hosts)
    assert (len(hosts), len(domains)) == (847, 119)
    assert len({path[0] for path in domains}) == 3
    assert sum(size == 8 for size in domains.values()) == 68


def test_the_openb_nodes_have_their_gpus_and_types():
    """As its description counts them: 1,213 nodes, 6,212 GPUs, seven models."""
    hosts = read_map(trace("openb_node_list_gpu_node.csv"))
    assert len(hosts) == 1213
    assert sum(host.gpus for host in hosts) == 6212
    assert len({host.gpu_type for host in hosts}) == 7


def test_the_openb_pods_are_mostly_small():
    sizes = read_pod_gpus(trace("openb_pod_list_multigpu50.csv"))
    assert Counter(sizes)[8] == 556

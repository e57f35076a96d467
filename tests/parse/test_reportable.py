"""Whatever a parser understands, its worker can report: one wild number costs no node its place."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse import texts
from tests.parse.answers import understood
from tests.parse.texts import Tray
from topo.facts import parse
from topo.facts.assemble import assemble
from topo.model.errors import Refusal
from topo.model.ids import BootId, NodeName
from topo.model.machine import NodeFacts, NodeIdentity
from topo.model.observation import ParsedProbe
from topo.model.wire import Report

IDENTITY = NodeIdentity(NodeName("n1"), BootId("b"))
NUMBERS = st.one_of(
    st.none(), st.integers(-5, 5), st.integers(-(2**70), 2**70), st.just(2**64 - 1), st.just(2**32)
)


def reported(*found: ParsedProbe | Refusal) -> NodeFacts:
    """The facts as the master gets them."""
    facts = assemble(IDENTITY, [("probe", probe) for probe in found], ())
    message = Report(node=IDENTITY.name, instance="instance-1", seq=0, kind="full", facts=facts)
    taken = Report.model_validate_json(message.model_dump_json(exclude_unset=True)).facts
    assert taken == facts
    return taken


@given(memory=NUMBERS, numa=NUMBERS, speed=st.floats(allow_nan=False, allow_infinity=False))
def test_a_metax_library_may_say_any_number(memory, numa, speed):
    links = [{"link": 0, "speed": speed, "width": 16}]
    device = {"index": 0, "memory_bytes": memory, "numa_affinity": numa, "links": links}
    text = json.dumps({"format": "mxsml", "devices": [device], "topology": [[0]]})
    reported(parse(text, "mxsml"))


def test_a_wild_number_costs_its_field_and_no_more():
    device = {"index": 0, "memory_bytes": -1, "numa_affinity": 2**40, "name": "MXC500", "state": 1}
    (gpu,) = reported(understood(json.dumps({"format": "mxsml", "devices": [device]}))).gpus
    assert (gpu.memory_bytes, gpu.numa, gpu.model, gpu.healthy) == (None, None, "MXC500", True)


@given(memory=NUMBERS, clique=NUMBERS, state=st.integers(-(2**40), 2**40))
def test_nvml_may_say_any_number(memory, clique, state):
    fabric = {"state": state, "status": 0, "cluster_uuid": "a" * 32, "clique": clique}
    device = {"index": 0, "memory_bytes": memory, "fabric": fabric}
    text = json.dumps({"format": "nvml", "devices": [device], "topology": [[state]]})
    reported(parse(text, "nvml"))


@given(value=st.sampled_from(["1e300", "-1e300", "1e999", "NaN", "-5", "0", "32", "99999999999"]))
def test_an_exporter_may_say_any_number(value):
    page = "".join(
        f'{family}{{deviceId="0",mxlkId="1",type="vram",uuid="{"u" * 900}"}} {value}\n'
        for family in ("mx_memory_total", "mx_mxlk_speed", "mx_mxlk_width", "mx_gpu_state")
    )
    reported(parse(page, "mx-exporter"))


@pytest.mark.parametrize("clique", ["4294967295", "4294967296", "9999999999", "-1", "N/A"])
def test_a_clique_may_be_any_number(clique):
    text = texts.tray_text(Tray()).replace("CliqueId", "CliqueId", 1)
    assert "CliqueId" in text
    lines = (
        line.split(":")[0] + f": {clique}" if "CliqueId" in line else line
        for line in text.splitlines()
    )
    reported(parse("\n".join(lines) + "\n", "nvidia-smi-fabric"))

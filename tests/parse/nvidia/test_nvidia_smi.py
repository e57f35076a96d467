"""`nvidia-smi -q` as XML and as text: the same host, the same facts."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse import texts
from tests.parse.answers import items, refused, understood
from tests.parse.texts import Tray
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.ids import Bdf, GpuUuid
from topo.model.machine import FabricDomain, FabricKind, Gpu, GpuFabric
from topo.model.observation import ParsedProbe

RENDERED = pytest.mark.parametrize("render", [texts.tray_xml, texts.tray_text])
ZEROS = "00000000-0000-0000-0000-000000000000"


@RENDERED
def test_identity_memory_and_place_are_read(render):
    """Addresses in the spelling of sysfs, memory in bytes, rack and tray of the platform."""
    found = understood(render(Tray()))
    assert found.warnings == ()
    gpus, fabrics = items(found, Gpu), items(found, GpuFabric)
    assert gpus[2] == Gpu(
        2,
        GpuUuid(Tray().uuid(2)),
        Bdf("0002:3b:00.0"),
        "NVIDIA GB200",
        189471 * 2**20,
        healthy=True,
    )
    assert (fabrics[3].rack, fabrics[3].tray, fabrics[3].gpu) == ("1820000000001", "4", 3)


def nvlink_domain(cluster: str, clique: int) -> FabricDomain:
    return FabricDomain(cluster, clique, FabricKind.NVLINK)


@RENDERED
@pytest.mark.parametrize(
    ("tray", "member"),
    [
        (Tray(), nvlink_domain("dc6e40c4-d722-4357-9ba6-5291dd461278", 2)),
        (Tray(clique="4000000004"), nvlink_domain(Tray().cluster, 4000000004)),
        (Tray(cluster="DC6E40C4D72243579BA65291DD461278"), nvlink_domain(Tray().cluster, 2)),
        (Tray(summary="Unhealthy"), nvlink_domain(Tray().cluster, 2)),
        (Tray(clique="0", cluster=ZEROS), None),
        (Tray(status="Insufficient Resources"), None),
        (Tray(state="In Progress", status="N/A"), None),
        (Tray(state="N/A", status="N/A", clique="N/A", cluster="N/A", summary="N/A"), None),
        (Tray(cluster="GPU is lost"), None),
    ],
)
def test_membership_of_a_multi_node_domain(render, tray, member):
    """Completed, Success and a cluster that is not all zeros; health is another question."""
    assert {f.member_of for f in items(understood(render(tray)), GpuFabric)} == {member}


@RENDERED
@pytest.mark.parametrize(
    ("summary", "healthy", "trouble"),
    [
        ("Healthy", True, ""),
        ("Unhealthy", False, "Unhealthy"),
        ("Limited Capacity", False, "Limited Capacity"),
        ("N/A", True, ""),
    ],
)
def test_fabric_health(render, summary, healthy, trouble):
    """The summary decides; without one, words that are all good ones do."""
    fabric = items(understood(render(Tray(summary=summary))), GpuFabric)[0]
    assert (fabric.healthy, fabric.trouble) == (healthy, trouble)


def test_bad_words_without_a_summary_are_trouble():
    """Drivers before 570 have no summary."""
    text = texts.tray_text(Tray(gpus=1, summary="N/A"))
    fabric = items(
        understood(text.replace("Full", "Degraded").replace(": False", ": True")), GpuFabric
    )[0]
    assert fabric.healthy is False
    assert fabric.trouble == "bandwidth: Degraded; route unhealthy: True"


@RENDERED
@pytest.mark.parametrize(
    ("tray", "healthy", "trouble"),
    [
        (Tray(recovery="N/A"), None, ""),
        (Tray(recovery="Reset"), False, "recovery action: Reset"),
        (Tray(memory="GPU is lost"), False, "GPU is lost"),
        (Tray(memory="Unknown Error"), False, "Unknown Error"),
    ],
)
def test_gpu_health(render, tray, healthy, trouble):
    """What the driver wants done, and values that a dead GPU cannot give."""
    gpu = items(understood(render(tray)), Gpu)[0]
    assert (gpu.healthy, gpu.trouble) == (healthy, trouble)


@RENDERED
def test_fewer_gpus_than_attached_are_told(render):
    """`-i 0` selects one of them, or the text was cut."""
    text = render(Tray(gpus=1))
    found = understood(text.replace(">1<", ">4<", 1).replace(": 1\n", ": 4\n", 1))
    assert found.warnings[-1].startswith("1 of 4 GPUs are listed")


def sections(text: str) -> list[str]:
    """The head of a query and then the section of each GPU, tags and all."""
    return re.split(r"(?m)^(?=GPU 0|[ \t]*<gpu )", text)


@RENDERED
def test_a_gpu_without_a_fabric_where_the_others_have_one_is_told(render):
    """The text was cut, or the GPU has lost its fabric: neither is a GPU that needs none."""
    text = render(Tray())
    head, *gpus = sections(text)
    assert len(gpus) == 4
    gpus[2] = re.sub(r"(?s)    Fabric\n.*?(?=\n    \S)", "    Other\n", gpus[2])
    gpus[2] = re.sub(r"(?s)<fabric>.*</fabric>", "", gpus[2])
    found = understood("".join([head, *gpus]))
    assert [f.gpu for f in items(found, GpuFabric)] == [0, 1, 3]
    assert found.warnings == ("no Fabric section of GPU 2, where 3 others have one",)


@RENDERED
def test_one_uuid_of_two_gpus_is_told_and_counts_as_two(render):
    """They are at two addresses: a clone is odd, and a card less would be worse."""
    text = render(Tray(gpus=2))
    found = understood(text.replace(Tray().uuid(1), Tray().uuid(0)))
    assert len(items(found, Gpu)) == 2
    (told,) = found.warnings
    assert told.startswith(f"GPUs 0, 1 have one UUID, {Tray().uuid(0).lower()}: ")


@RENDERED
def test_a_card_that_is_listed_twice_is_refused(render):
    """Two queries of one host in one text would be a host of twice as many GPUs."""
    head, *gpus = sections(render(Tray(gpus=1)))
    end = "</nvidia_smi_log>" if "</nvidia_smi_log>" in gpus[0] else ""
    one = gpus[0].removesuffix("\n").removesuffix(end)
    what = refused(head + one + "\n" + one + end).what
    assert what.startswith("GPU 0 and GPU 1 are both at ")


def test_fabric_sections_alone_are_numbered_in_order():
    """`grep -A9 Fabric` leaves no GPU lines, and `--` between the sections."""
    section = "    Fabric\n        State    : Completed\n        Status   : Success\n"
    found = understood(section + "--\n" + section)
    assert [f.gpu for f in items(found, GpuFabric)] == [0, 1]
    assert "numbered in the order" in found.warnings[0]
    assert items(found, Gpu) == []


def test_a_query_without_fabrics_still_lists_gpus():
    """Drivers before 525 know no fabric."""
    text = texts.tray_text(Tray(gpus=2)).replace("Fabric", "Fibre")
    found = understood(text)
    assert len(items(found, Gpu)) == 2
    assert items(found, GpuFabric) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("==============NVSMI LOG==============\n\n", "no Fabric section"),
        ("    Fabric\n        CliqueId : 2\n", "no Fabric section with a State"),
        ("    Fabric\n        State : Completed\n--\n" * 129, "129 GPUs are more than 128"),
    ],
)
def test_queries_without_a_fact_are_refused(text, what):
    """A clique without a state is no membership."""
    assert what in refused(text).what


def test_xml_that_declares_an_entity_is_refused():
    """That is what XML bombs are made of, and no nvidia-smi does it."""
    bomb = '<!DOCTYPE nvidia_smi_log [\n<!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    text = texts.tray_xml(Tray()).replace(
        '<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v13.dtd">', bomb
    )
    refusal = refused(text)
    assert "declares an entity (a)" in refusal.what
    assert refusal.where == "line 3"


def test_cut_xml_is_refused_with_the_gpu_it_ends_in():
    """Well-formedness tells that something is missing."""
    text = texts.tray_xml(Tray())
    cut = text[: text.index("</fabric>", text.index(Tray().bdf(2)))]
    refusal = refused(cut)
    assert Tray().bdf(2) in refusal.what
    assert refusal.where == f"line {cut.count(chr(10)) + 1}"


def test_xml_between_a_prompt_and_another_command_is_found():
    """Only the document is read; lines count from the top of the text."""
    text = f"$ nvidia-smi -q -x\n{texts.tray_xml(Tray())}$ <exit>"
    assert len(items(understood(text), Gpu)) == 4
    broken = text.replace("</uuid>", "</uuid", 1)
    assert refused(broken).where == f"line {text[: text.index('</uuid>')].count(chr(10)) + 2}"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("<nvidia_smi_log>" + "<a>" * 40, "nested deeper than 32"),
        ("<nvidia_smi_log></nvidia_smi_log>", "no GPU is listed"),
        ("<nvidia_smi_log>&amp;&x;</nvidia_smi_log>", "undefined entity"),
    ],
)
def test_xml_of_no_nvidia_smi_is_refused(text, what):
    """Depth, emptiness, undefined entities."""
    assert what in refused(text).what


@given(st.integers(0, 100_000), st.sampled_from(["", "\x00", "<", "]]>", "\ufffd", "&"]))
def test_xml_with_one_wound_is_read_or_refused(at, wound):
    """Nothing is raised, wherever the text is hurt."""
    text = texts.tray_xml(Tray(gpus=2))
    at %= len(text)
    found = parse(text[:at] + wound + text[at + 1 :], "nvidia-smi-xml")
    assert isinstance(found, ParsedProbe | Refusal)


@given(st.sampled_from([texts.tray_xml, texts.tray_text]), st.integers(1, 9))
def test_xml_and_text_agree(render, gpus):
    """Two outputs of one driver state one thing."""
    tray = Tray(gpus=gpus)
    assert understood(render(tray)).facts == understood(texts.tray_xml(tray)).facts

"""`nvidia-smi -q` without its indentation: read by the names of sections, or told."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse import texts, variants
from tests.parse.answers import items, understood
from tests.parse.texts import Tray
from topo.model.machine import Gpu, GpuFabric

BAD = Tray(gpus=3, state="Completed", summary="Unhealthy")


def flush_left(text: str) -> str:
    """As `sed 's/^ *//'`."""
    return "\n".join(line.lstrip() for line in text.split("\n"))


def tight(text: str) -> str:
    """As `sed 's/^ *//; s/ *: */:/'`."""
    return "\n".join(":".join(p.strip() for p in line.split(" : ")) for line in text.split("\n"))


def with_mig(text: str, total: str = "20096 MiB") -> str:
    """The first GPU with one MIG device, which has memory of its own."""
    device = "    MIG Device\n        Index : 0\n        FB Memory Usage\n"
    device += f"            Total : {total}\n"
    at = text.index("    MIG Mode")
    return text[:at] + device + text[at:]


@pytest.mark.parametrize("change", [flush_left, variants.squeezed, tight])
def test_a_query_without_indentation_says_what_the_indented_one_says(change):
    """An unhealthy fabric stays unhealthy, and no GPU loses its memory."""
    text = texts.tray_text(BAD)
    whole, found = understood(text), understood(change(text))
    assert (found.facts, found.warnings) == (whole.facts, whole.warnings)
    assert {fabric.healthy for fabric in items(found, GpuFabric)} == {False}
    assert {gpu.memory_bytes for gpu in items(found, Gpu)} == {189471 << 20}


@pytest.mark.parametrize("spaces", [0, 1, 2, 3, 8])
def test_any_depth_of_indentation_says_the_same(spaces):
    """Four blanks a level become fewer or more; tabs are wider still."""
    text = texts.tray_text(BAD)
    lines = text.split("\n")
    levels = [(len(line) - len(line.lstrip())) // 4 for line in lines]
    changed = zip(levels, lines, strict=True)
    found = understood("\n".join(" " * spaces * level + line.lstrip() for level, line in changed))
    assert found.facts == understood(text).facts


def test_sections_that_were_cut_out_without_indentation_are_read():
    """`nvidia-smi -q | grep -A9 Fabric` on a web page."""
    lines = texts.tray_text(replace(BAD, gpus=1)).split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip() == "Fabric")
    cut = "\n".join(lines[at : at + 9]) + "\n"
    whole, found = understood(cut), understood(flush_left(cut))
    assert found.facts == whole.facts
    assert items(found, GpuFabric)[0].healthy is False


def test_the_memory_of_a_mig_device_is_never_that_of_its_gpu():
    """With indentation the sections tell them apart; without, the memory is unknown and told."""
    text = with_mig(texts.tray_text(BAD))
    assert items(understood(text), Gpu)[0].memory_bytes == 189471 << 20
    found = understood(flush_left(text))
    first, second, _ = items(found, Gpu)
    assert (first.memory_bytes, second.memory_bytes) == (None, 189471 << 20)
    assert any("or of a MIG device" in warning for warning in found.warnings)


@given(
    st.builds(
        Tray,
        gpus=st.integers(1, 4),
        state=st.sampled_from(["Completed", "In Progress", "Not Started", "N/A"]),
        status=st.sampled_from(["Success", "Insufficient Resources", "N/A"]),
        summary=st.sampled_from(["Healthy", "Unhealthy", "Limited Capacity", "N/A"]),
        recovery=st.sampled_from(["None", "Reset", "N/A"]),
    ),
    st.sampled_from([flush_left, variants.squeezed, tight]),
)
def test_any_query_without_indentation_says_the_same(tray, change):
    """Whatever its words."""
    text = texts.tray_text(tray)
    assert understood(change(text)).facts == understood(text).facts

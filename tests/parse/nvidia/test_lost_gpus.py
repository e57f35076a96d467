"""A GPU that does not answer in the middle of an output: unhealthy, told, and in its place."""

import pytest

from tests.parse import texts
from tests.parse.answers import items, understood
from tests.parse.texts import Tray
from topo.facts.outputs import outputs
from topo.model.errors import Refusal
from topo.model.machine import Gpu, GpuFabric, LinkPort

LOST = "GPU is lost.  Reboot the system to recover this GPU"
HANDLE = "Unable to determine the device handle for "
SPELLINGS = (
    "GPU 0000:02:00.0: {}",
    "GPU0000:02:00.0: {}",
    "GPU2: 0000:02:00.0: {}",
    "GPU 00000000:02:00.0: {}",
    "gpu GPU2: {}",
)
"""Of GPU 2, by drivers 470 to 610."""
LINKS = "".join(f"\t Link {link}: 26.562 GB/s\n" for link in range(18))


def head(gpu: int) -> str:
    return f"GPU {gpu}: NVIDIA H100 80GB HBM3 (UUID: GPU-6968dfc2-d444-d92c-c36b-{gpu:012})\n"


def status(*gpus: int) -> str:
    """`nvidia-smi nvlink -s` of these."""
    return "".join(head(gpu) + LINKS for gpu in gpus)


def query(lost: int, line: str) -> str:
    """`nvidia-smi -q` of four GPUs, with a line in the place of one."""
    text = texts.tray_text(Tray(gpus=4))
    for gpu in range(4):
        text = text.replace(f"0000000{gpu}:3B:00.0", f"00000000:0{gpu}:00.0")
    begin, end = (text.find(f"GPU 00000000:0{gpu}:00.0") for gpu in (lost, lost + 1))
    return text[:begin] + line + "\n" + (text[end:] if end >= 0 else "")


def health(text: str) -> dict[int, bool | None]:
    return {gpu.index: gpu.healthy for gpu in items(understood(text), Gpu)}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("why", [LOST, "Unknown Error"])
def test_a_lost_gpu_among_links_is_unhealthy_and_has_none(spelling, why):
    """The others keep their numbers and links."""
    line = HANDLE + spelling.format(why) + "\n"
    text = status(0, 1) + line + status(3)
    assert health(text) == {0: None, 1: None, 2: False, 3: None}
    found = understood(text)
    assert {port.gpu for port in items(found, LinkPort)} == {0, 1, 3}
    (warning,) = found.warnings
    assert "line 39: a GPU does not answer its driver" in warning


@pytest.mark.parametrize("above", [True, False])
def test_the_last_gpu_that_is_lost_is_not_passed_over(above):
    """No gap in the numbers shows it, and its line may stand above all others."""
    line = f"{HANDLE}GPU 0000:02:00.0: {LOST}\n"
    text = line + status(0, 1) if above else status(0, 1) + line
    assert health(text) == {0: None, 1: None, 2: False}


def test_a_gpu_that_is_lost_below_its_own_line_is_unhealthy():
    """The driver still knows its name; in the place of its links, or of each of their values."""
    for words in (
        "\t GPU is lost\n",
        f"\t {LOST}\n",
        "\t Link 0: <GPU is lost>\n\t Link 1: <GPU is lost>\n",
    ):
        text = status(0) + head(1) + words + status(2)
        assert health(text) == {0: None, 1: False, 2: None}


def test_nobody_guesses_which_of_two_missing_gpus_is_lost():
    """One line, two gaps: the line is told, and so is that GPUs are missing."""
    found = understood(status(0) + f"{HANDLE}GPU 0000:02:00.0: {LOST}\n" + status(3))
    assert [gpu.index for gpu in items(found, Gpu)] == [0, 3]
    told = "\n".join(found.warnings)
    assert "does not answer its driver" in told
    assert "2 of 4 GPUs are listed" in told


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("spelling", ["GPU 0000:0{gpu}:00.0: {why}", "GPU{gpu}: {why}"])
def test_a_lost_gpu_in_a_query_keeps_its_number_from_the_next(lost, spelling):
    """GPU 3 behind it stays GPU 3, with its own fabric."""
    text = query(lost, HANDLE + spelling.format(gpu=lost, why=LOST))
    assert health(text) == {gpu: gpu != lost for gpu in range(4)}
    found = understood(text)
    assert [fabric.gpu for fabric in items(found, GpuFabric)] == [g for g in range(4) if g != lost]
    assert [gpu.uuid for gpu in items(found, Gpu) if gpu.index != lost] == [
        Tray().uuid(gpu) for gpu in range(4) if gpu != lost
    ]
    assert len(found.warnings) == 1


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("spelling", ["GPU 0000:0{gpu}:00.0: {why}", "GPU{gpu}: {why}"])
def test_a_lost_gpu_that_is_told_above_a_query_has_its_place_by_what_names_it(lost, spelling):
    """What goes to stderr comes first."""
    line = f"{HANDLE}{spelling.format(gpu=lost, why=LOST)}\n"
    for text in (line + query(lost, ""), query(lost, "") + line):
        assert health(text) == {gpu: gpu != lost for gpu in range(4)}


@pytest.mark.parametrize("lost", range(4))
@pytest.mark.parametrize("above", [True, False])
def test_a_lost_gpu_beside_xml_has_its_place_by_its_address(lost, above):
    """The document lists the others; `2>&1` puts the line before or behind it."""
    xml = texts.tray_xml(Tray(gpus=4)).replace("<attached_gpus>4<", "<attached_gpus>3<")
    blocks = xml.split("\n    <gpu id=")
    end = blocks[-1].partition("</gpu>")[2]
    kept = [block.partition("</gpu>")[0] + "</gpu>" for block in blocks[1:]]
    xml = "\n    <gpu id=".join([blocks[0], *kept[:lost], *kept[lost + 1 :]]) + end
    line = f"{HANDLE}GPU 000{lost}:3B:00.0: {LOST}\n"
    text = line + xml if above else xml + line
    assert health(text) == {gpu: gpu != lost for gpu in range(4)}
    assert len(understood(text).warnings) == 1


def test_a_line_within_the_words_of_another_gpu_takes_none_of_them():
    """Both outputs of the tool go to one file, in whatever order."""
    lines = query(2, "").split("\n")
    whole = understood("\n".join(lines))
    for at in range(len(lines)):
        text = "\n".join([*lines[:at], f"{HANDLE}GPU 0000:02:00.0: {LOST}", *lines[at:]])
        found = understood(text)
        assert health(text) == {0: True, 1: True, 2: False, 3: True}
        words = {gpu.uuid: gpu.memory_bytes for gpu in items(found, Gpu) if gpu.uuid}
        assert words == {gpu.uuid: gpu.memory_bytes for gpu in items(whole, Gpu)}
        assert len(items(found, GpuFabric)) == 3


@pytest.mark.parametrize("key", ["Product Name", "FB Memory Usage", "State", "CliqueId"])
def test_a_gpu_without_an_answer_to_any_key_is_unhealthy(key):
    """Text and XML: the driver answers from its memory until it asks the card."""
    lines = texts.tray_text(Tray(gpus=2)).split("\n")
    at = next(i for i, line in enumerate(lines) if line.strip().startswith(key))
    at += key == "FB Memory Usage"
    lines[at] = lines[at].partition(":")[0] + ": GPU is lost"
    assert health("\n".join(lines)) == {0: False, 1: True}
    xml = texts.tray_xml(Tray(gpus=2)).replace("<state>Completed<", "<state>GPU is lost<", 1)
    assert health(xml) == {0: False, 1: True}


def test_a_sensor_that_fails_is_no_lost_gpu():
    """`ERR!` in the place of a fan's speed says nothing of the GPU; in that of its name it does."""
    text = texts.tray_text(Tray(gpus=1))
    assert health(text.replace("    MIG Mode", "    Fan Speed : ERR!\n    MIG Mode")) == {0: True}
    assert health(text.replace("NVIDIA GB200", "ERR!")) == {0: False}


@pytest.mark.parametrize(
    "text",
    [
        texts.tabbed(texts.islands(7, 7, inside="NV18")),
        texts.tray_xml(Tray(gpus=3)),
        head(0) + "\t Link 0: Replay Errors: 0\n",
        head(0) + "\t Link 0: Remote Device 00000000:D5:00.0: Link 6\n",
    ],
    ids=["matrix", "XML", "errors", "remote ends"],
)
def test_a_line_about_a_lost_gpu_is_told_in_whatever_output_it_stands(text):
    """What is left reads like a smaller machine."""
    for line in (f"{HANDLE}GPU 0000:99:00.0: {LOST}\n", "GPU is lost\n"):
        for log in (line + text, text + line):
            told = understood(log).warnings
            assert any("does not answer its driver" in warning for warning in told)


def test_a_line_about_a_lost_gpu_above_an_output_belongs_to_it():
    """What went to stderr comes first in a file; behind another prompt it is another command's."""
    line = f"{HANDLE}GPU 0000:99:00.0: {LOST}\n"
    matrix = texts.tabbed(texts.islands(7, 7, inside="NV18"))
    told = outputs(line + matrix)
    assert isinstance(told, tuple)
    assert [output.answer for output in told] == [understood(line + matrix)]
    log = outputs(f"{line}root@b:~# nvidia-smi topo -m\n{matrix}")
    assert isinstance(log, tuple)
    complaint, links = log
    assert isinstance(complaint.answer, Refusal)
    assert not isinstance(links.answer, Refusal)
    assert links.answer.warnings == ()


@pytest.mark.parametrize("spelling", ["GPU0000:02:00.0: {}", "GPU2: {}", "GPU2: 0000:02:00.0: {}"])
@pytest.mark.parametrize("again", [1, 2, 5])
def test_a_lost_gpu_is_one_however_often_the_tool_says_so(spelling, again):
    """Once above everything on stderr and once in its place: no other GPU is lost with it."""
    line = f"{HANDLE}{spelling.format(LOST)}\n"
    links = status(0, 1) + line * again + status(3)
    assert health(line + links) == {0: None, 1: None, 2: False, 3: None}
    assert health(line + query(2, line * again)) == {gpu: gpu != 2 for gpu in range(4)}


def test_a_lost_gpu_that_is_told_twice_beside_xml_is_one():
    """By its address or by its number."""
    xml = texts.tray_xml(Tray(gpus=3)).replace("<attached_gpus>3<", "<attached_gpus>4<")
    for named in ("GPU 0003:3B:00.0", "GPU3"):
        line = f"{HANDLE}{named}: {LOST}\n"
        assert health(line * 2 + xml + line) == {0: True, 1: True, 2: True, 3: False}


def test_two_gpus_that_no_line_names_are_two():
    """Older drivers say nothing of which."""
    line = f"{HANDLE}GPU: Unknown Error\n"
    found = health(status(0, 1) + line * 2 + status(4))
    assert found == {0: None, 1: None, 2: False, 3: False, 4: None}

"""`mx-smi -L` and the table of plain `mx-smi` in its five layouts."""

import pytest

from tests.parse import texts
from tests.parse.answers import items, refused, understood
from topo.model.ids import Bdf, GpuUuid
from topo.model.machine import Gpu

CARDS = [(f"MetaX C5{i}0", f"0000:{i:02x}:00.0", "Available") for i in range(8)]
LIST = "\n".join(
    f"GPU#{i}    MXC500      0000:0{i}:00.0   Available (UUID: GPU-e702f06b-bbd6-bc06-5196-{i:012})"
    for i in range(4)
)


@pytest.mark.parametrize("version", texts.TABLE_VERSIONS)
def test_every_layout_of_the_table_gives_the_same_cards(version):
    """Index, address, model and memory are where their headings are."""
    found = understood(texts.mx_table(version, CARDS))
    assert found.format == "mx-smi-table"
    assert found.warnings == ()
    gpus = items(found, Gpu)
    assert [g.index for g in gpus] == list(range(8))
    assert gpus[5].bdf == "0000:05:00.0"
    assert gpus[5].memory_bytes == 64 * 2**30


@pytest.mark.parametrize("version", texts.TABLE_VERSIONS)
def test_the_table_names_models_as_the_library_does(version):
    """`MetaX C500` and `MXC500` are one card under two names; the persistence mode is none."""
    gpus = items(understood(texts.mx_table(version, CARDS)), Gpu)
    assert gpus[1].model == "MXC510"


def test_the_table_of_the_oem_is_the_same_table():
    """`ht-smi` of HPCC boards."""
    cards = [("Mars X201", f"0000:4{i}:00.0", "Available") for i in range(8)]
    found = understood(texts.mx_table("2.2.9", cards, tool="ht"))
    assert found.format == "mx-smi-table"
    gpus = items(found, Gpu)
    assert [gpu.index for gpu in gpus] == list(range(8))
    assert {(gpu.model, gpu.healthy) for gpu in gpus} == {("Mars X201", True)}


def test_a_table_of_unknown_headings_is_refused_for_what_it_lacks():
    """It has a Bus-id column, so that is not the reason."""
    text = texts.mx_table("2.2.4", CARDS).replace("GPU         NAME", "Card        Kind")
    refusal = refused(text)
    assert refusal.what.startswith("no headings GPU and NAME beside Bus-id: Card")


@pytest.mark.parametrize(
    ("version", "healthy"), [("2.1.6", None), ("2.1.12", None), ("2.2.4", False), ("2.2.9", False)]
)
def test_health_is_told_only_by_layouts_that_have_a_state(version, healthy):
    """Older tables say nothing, which is not the same as well."""
    cards = [("MetaX C500", "0000:0e:00.0", "Not Available")]
    (gpu,) = items(understood(texts.mx_table(version, cards)), Gpu)
    assert gpu.healthy is healthy
    assert gpu.trouble == ("Not Available" if healthy is False else "")


def test_a_state_that_the_table_leaves_open_is_unsaid():
    """N/A is no state."""
    (gpu,) = items(understood(texts.mx_table("2.2.4", [("MetaX C500", "N/A", "N/A")])), Gpu)
    assert (gpu.healthy, gpu.bdf) == (None, None)


@pytest.mark.parametrize("version", texts.TABLE_VERSIONS)
def test_a_cut_table_tells_how_many_cards_are_missing(version):
    """The head line counts the cards; the boxes that are there are true."""
    whole = texts.mx_table(version, CARDS)
    at = whole.index("0000:05:00.0")
    found = understood(whole[: whole.index("\n", at)])
    assert len(items(found, Gpu)) == 5
    assert found.warnings[-1].startswith("5 of 8 GPUs are listed")


def test_more_cards_than_are_attached_are_told():
    """The head line of another output."""
    text = texts.mx_table("2.2.4", CARDS).replace(": 8\n", ": 4\n")
    found = understood(text)
    assert found.warnings == ("8 GPUs are listed and 4 attached: are these two outputs?",)
    found = understood(texts.spaced(texts.islands(8, 4)).replace(": 8\n", ": 4\n"))
    assert found.warnings == ("the header names 8 GPUs and 4 are attached",)


def test_the_processes_below_the_table_are_no_cards():
    """Their first column is a GPU's number too."""
    assert len(items(understood(texts.mx_table("2.1.6", CARDS[:1])), Gpu)) == 1


def test_a_table_without_cards_is_refused():
    """No card is not a host with zero healthy cards."""
    assert "no GPU is listed" in refused(texts.mx_table("2.2.9", [])).what


def test_a_table_without_its_columns_is_refused():
    """A title alone says nothing."""
    text = "| MX-SMI 2.2.9 |\n| Bus-id is elsewhere |\n"
    assert "no Bus-id column" in refused(text, "mx-smi-table").what


def test_boxes_of_another_shape_are_passed_over():
    """A note in a box is no card."""
    text = texts.mx_table("2.1.6", CARDS[:1])
    note = "| note: all well | | |\n| x | y | z |\n+---+\n"
    at = text.index("| 0           MetaX")
    assert len(items(understood(text[:at] + note + text[at:]), Gpu)) == 1


@pytest.mark.parametrize("version", ["2.1.6", "2.2.9"])
@pytest.mark.parametrize("damage", ["rule", "index"])
def test_a_card_that_is_not_understood_is_told(version, damage):
    """The last one: its rule above is gone, or its number; nothing counts the cards."""
    lines = texts.mx_table(version, CARDS[:2]).replace("Attached GPUs", "GPUs").split("\n")
    second = next(at for at, line in enumerate(lines) if line.startswith("| 1 "))
    if damage == "rule":
        del lines[second - 1]
    else:
        lines[second] = lines[second].replace("| 1 ", "| ? ")
    found = understood("\n".join(lines))
    assert len(items(found, Gpu)) == 1
    (warning,) = found.warnings
    assert warning.endswith("a card of this box is not understood and was left out")


def test_the_second_gpu_of_a_board_has_the_boards_name():
    """A broken rule parts them, and the board's cell is empty."""
    table = texts.mx_table("2.2.9", [("MetaX C600", "0000:0e:00.0", "Available")] * 2)
    lines = table.split("\n")
    second = next(i for i, line in enumerate(lines) if line.startswith("| 1     MetaX C600"))
    lines[second] = lines[second].replace("1     MetaX C600", " " * 16, 1)
    lines[second - 1] = "|" + " " * 18 + lines[second - 1][19:]
    gpus = items(understood("\n".join(lines)), Gpu)
    assert [(gpu.index, gpu.model) for gpu in gpus] == [(0, "MXC600"), (1, "MXC600")]


def test_the_list_gives_cards_in_order():
    """Model, address, UUID and availability of each."""
    found = understood("mx-smi  version: 2.2.9\n" + "\n".join(reversed(LIST.split("\n"))))
    assert found.format == "mx-smi-list"
    gpus = items(found, Gpu)
    assert [g.index for g in gpus] == [0, 1, 2, 3]
    uuid = GpuUuid("GPU-e702f06b-bbd6-bc06-5196-000000000000")
    assert gpus[0] == Gpu(0, uuid, Bdf("0000:00:00.0"), "MXC500", healthy=True)


def test_a_broken_card_of_the_list_keeps_its_place_and_its_reason():
    """It has neither an address nor a UUID, only the word bus."""
    line = "GPU#4 MXC550 bus Not Available(MetaX Sysfs File Unaccessible)"
    gpu = items(understood(f"{LIST}\n{line}"), Gpu)[4]
    assert gpu == Gpu(
        4,
        model="MXC550",
        healthy=False,
        trouble="Not Available: MetaX Sysfs File Unaccessible",
    )


@pytest.mark.parametrize("line", ["GPU#0 Not Available", "GPU#0 MXC600-AL N/A Unavailable ()"])
def test_a_broken_card_may_say_even_less(line):
    """The word alone is enough."""
    (gpu,) = items(understood(line), Gpu)
    assert (gpu.healthy, gpu.bdf, gpu.uuid) == (False, None, None)
    assert gpu.trouble == "Not Available"


def test_a_card_in_a_state_that_nobody_knows_is_told():
    """It is the last one, so no gap tells it."""
    line = (
        "GPU#4  MXC500  0000:d5:00.0  Resetting  (UUID: GPU-e702f06b-bbd6-bc06-5196-000000000004)"
    )
    (warning,) = understood(f"{LIST}\n{line}").warnings
    assert warning.startswith("line 5 has no known state and was left out: GPU#4 MXC500")


def test_gaps_in_the_list_are_told():
    """An excerpt is true line by line and incomplete as a list."""
    found = understood("\n".join(LIST.split("\n")[::3]))
    assert found.warnings == ("2 of 4 GPUs are listed: the text is cut before or at GPU 1, 2",)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (LIST + "\n" + LIST, "GPU 0 is listed twice"),
        (LIST.replace("GPU#3", "GPU#999"), "GPU 999 is beyond the 128"),
    ],
)
def test_lists_that_contradict_themselves_are_refused(text, what):
    """One index is one card."""
    assert what in refused(text).what

"""`nvidia-smi nvlink`: which links are up, and what an inactive one means."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.facts import parse, recognise
from topo.facts.nvidia.nvlink import far_link
from topo.model.ids import GpuUuid
from topo.model.machine import Gpu, LinkPort, PortState
from topo.model.observation import ParsedProbe

SXM, PCIE = "NVIDIA B200", "NVIDIA H100 PCIe"
NEW = "NVIDIA R900"
"""A chip of which nobody told us how many links it has."""
DEAD = "NVML: Unable to retrieve NVLink information as all links are inActive"


def status(*gpus: tuple[str, str]) -> str:
    """One (model, links) per GPU; a link is `+` or `-`, and `!` is a GPU without any."""
    lines: list[str] = []
    for index, (model, links) in enumerate(gpus):
        lines.append(f"GPU {index}: {model} (UUID: GPU-6968dfc2-d444-d92c-c36b-{index:012})")
        lines += [DEAD] if links == "!" else []
        lines += [
            f"\t Link {number}: {'26.562 GB/s' if sign == '+' else '<inactive>'}"
            for number, sign in enumerate(links)
            if sign in "+-"
        ]
    return "\n".join(lines)


def states(text: str) -> list[str]:
    """Per GPU the states of its ports: u(p), d(own), `.` for unused."""
    letters = {PortState.UP: "u", PortState.DOWN: "d", PortState.UNUSED: "."}
    found = understood(text, "nvlink-status")
    ports = items(found, LinkPort)
    return [
        "".join(letters[p.state] for p in ports if p.gpu == gpu.index) for gpu in items(found, Gpu)
    ]


@pytest.mark.parametrize(
    ("gpus", "expected"),
    [
        ([(SXM, "++++"), (SXM, "++++")], ["uuuu", "uuuu"]),
        ([(PCIE, "++--++"), (PCIE, "++--++")], ["uu..uu", "uu..uu"]),
        ([(SXM, "++++"), (SXM, "+-++")], ["uuuu", "uduu"]),
        ([(SXM, "++++"), (SXM, "----")], ["uuuu", "dddd"]),
        ([(SXM, "++++"), (SXM, "!")], ["uuuu", "dddd"]),
        ([(PCIE, "++++"), (PCIE, "----"), (PCIE, "!")], ["uuuu", "....", "...."]),
        ([(PCIE, "++++"), (PCIE, "++-+")], ["uuuu", "uudu"]),
        ([(SXM, "----"), (SXM, "----")], ["....", "...."]),
        ([(SXM, "++"), ("NVIDIA T400", "--")], ["uu", ".."]),
    ],
)
def test_what_an_inactive_link_means(gpus, expected):
    """Down only where another GPU of the model has it, and this one must or does have some."""
    assert states(status(*gpus)) == expected


def test_gpus_bring_their_identity_along():
    """Index, UUID and model stand in the section's first line."""
    gpus = items(understood(status((SXM, "++"), (SXM, "++"))), Gpu)
    assert gpus[1] == Gpu(1, GpuUuid("GPU-6968dfc2-d444-d92c-c36b-000000000001"), model=SXM)


def test_a_host_whose_links_are_all_inactive_has_gpus_and_no_ports():
    """nvidia-smi lists no numbers then."""
    found = understood(status((SXM, "!")))
    assert found.format == "nvlink-status"
    assert items(found, LinkPort) == []


REMOTE = """
GPU 0: NVIDIA H100 PCIe (UUID: GPU-6968dfc2-d444-d92c-c36b-000000000000)
\t Link 0: Remote Device 00000000:D5:00.0: Link 0
\t Link 1: Remote Device 00000000:D5:00.0: Link 6
GPU 1: NVIDIA H100 PCIe (UUID: GPU-6968dfc2-d444-d92c-c36b-000000000001)
\t Link 0: Remote Device 00000000:C2:00.0: Link 0
\t Link 1: <unidentifiable>
"""


def test_remote_ends_carry_the_true_link_number():
    """The tool renumbers its own links; the far end's number is the one to join by."""
    found = understood(REMOTE)
    assert found.format == "nvlink-remote"
    ports = items(found, LinkPort)
    assert [far_link(p.remote or "") for p in ports] == [
        ("0000:d5:00.0", 0),
        ("0000:d5:00.0", 6),
        ("0000:c2:00.0", 0),
    ]
    assert found.warnings == ("GPU 1 link 1: <unidentifiable>",)


def test_remote_addresses_alone_are_read_too():
    """`nvlink -p` prints no link number."""
    found = understood("GPU 0: NVIDIA A100 (UUID: GPU-6968dfc2)\n\t Link 0: 00000000:C3:00.0\n")
    (port,) = items(found, LinkPort)
    assert port.remote == "0000:c3:00.0"
    assert far_link(port.remote or "") is None


@pytest.mark.parametrize("format_name", ["nvlink-status", "nvlink-remote"])
def test_text_without_gpus_is_refused(format_name):
    """With the command that gives them."""
    assert "nvidia-smi nvlink" in refused("Link 0: 25 GB/s", format_name).fix


def test_links_of_another_vendor_are_not_nvlinks():
    """ppu-smi prints the same shape under another name."""
    text = REMOTE.replace("GPU 0", "PPU 0").replace("GPU 1", "PPU 1")
    assert recognise(text) == "ppu-smi"


def test_a_gpu_whose_links_were_cut_off_is_told():
    """The header of the last GPU is there, its links are not: no GPU without links in silence."""
    whole = status((NEW, "++++"), (NEW, "++++"))
    cut = "\n".join(whole.splitlines()[:6]) + "\n"
    assert understood(whole).warnings == ()
    assert understood(cut).warnings == ("GPU 1 (line 6) has no link below it: the text is cut",)


def test_a_list_shorter_than_that_of_an_equal_gpu_is_told():
    """Every GPU of a model has as many links; an inactive one is listed, too."""
    cut = status((NEW, "++++"), (NEW, "++"))
    (warning,) = understood(cut).warnings
    assert warning == "GPU 1 (line 6) has 2 of 4 links: the text is cut or shortened at link 2, 3"
    assert understood(status((NEW, "+++-"), ("NVIDIA T400", "++"))).warnings == ()


@pytest.mark.parametrize(
    "mark", ["[...]", "...", "…", "<snip>", "(4 lines omitted)", "[truncated]"]
)
def test_an_elided_list_is_told_with_its_line(mark):
    """As people shorten what they post; the numbers that are gone are named."""
    lines = status((NEW, "++++++")).splitlines()
    text = "\n".join([*lines[:2], f"\t {mark}", *lines[6:]]) + "\n"
    assert understood(text).warnings == (
        f"line 3: the text is shortened here ({mark})",
        "GPU 0 (line 1) has 2 of 6 links: the text is cut or shortened at link 1, 2, 3, 4",
    )


def test_a_gpu_number_that_is_left_out_is_told():
    """nvidia-smi numbers GPUs without gaps."""
    lines = status((NEW, "++"), (NEW, "++"), (NEW, "++")).splitlines()
    text = "\n".join([*lines[:3], *lines[6:]]) + "\n"
    assert understood(text).warnings == (
        "2 of 3 GPUs are listed: the text is cut before or at GPU 1",
    )


@pytest.mark.parametrize("fragment", ["GPU 1", "G", "\t Lin", "\t Link 4", "\t Link 4:"])
def test_a_text_that_ends_within_a_line_is_told(fragment):
    """The next GPU or the next link was about to come: with nothing beside it to compare with."""
    (warning,) = understood(status((NEW, "++++")) + "\n" + fragment).warnings
    assert warning == f"line 6: {fragment.strip()!r} is not a whole line"


def test_every_cut_of_a_list_is_told():
    """At any character but a line's end between two GPUs, where nothing shows that more came."""
    volta = "Tesla V100-SXM2-32GB"
    whole = status((volta, "++++++"), (volta, "+-++++")) + "\n"
    between = whole.index("GPU 1")
    for end in range(len(whole) - 1):
        found = parse(whole[:end])
        silent = isinstance(found, ParsedProbe) and not found.warnings
        assert not silent or end in (between - 1, between), whole[:end]


def test_a_speed_that_is_cut_is_no_inactive_link():
    """`26.5` was going to be a speed: the link is left out with a warning, not called down."""
    text = status((NEW, "++"), (NEW, "++")).rstrip("\n")[: -len("62 GB/s")]
    found = understood(text)
    assert [(p.gpu, p.port) for p in items(found, LinkPort)] == [(0, 0), (0, 1), (1, 0)]
    assert {p.state for p in items(found, LinkPort)} == {PortState.UP}
    assert found.warnings == ("GPU 1 link 1: 26.5",)


@pytest.mark.parametrize("width", [80, 72, 60, 50])
def test_a_narrow_console_changes_nothing(width):
    """The line of a GPU with a long name is wider than 80 columns; folded, it is the same GPU."""
    long = "NVIDIA RTX PRO 6000 Blackwell Server Edition"
    text = status((long, "++++"), (long, "+-++")).expandtabs()
    folded = "\n".join(
        line[at : at + width] for line in text.splitlines() for at in range(0, len(line), width)
    )
    assert folded.count("\n") > text.count("\n")
    assert understood(folded + "\n") == understood(text)


def test_a_link_far_slower_than_its_siblings_is_up_and_degraded():
    """It carries data, so it is up; at a sixteenth of the speed, so it has a trouble."""
    lines = status((NEW, "++++"), (NEW, "++++")).splitlines()
    lines[2] = "\t Link 1: 1.562 GB/s"
    found = understood("\n".join(lines) + "\n")
    assert {port.state for port in items(found, LinkPort)} == {PortState.UP}
    troubled = [(p.gpu, p.port, p.trouble) for p in items(found, LinkPort) if p.trouble]
    assert troubled == [(0, 1, "degraded: 1.562 GB/s, its siblings 26.562 GB/s")]


def test_links_of_two_models_are_no_siblings():
    """25.781 beside 53.125 GB/s are two generations on one host, not a broken link."""
    text = status((NEW, "++"), ("Tesla V100-NEW2-32GB", "++"))
    older = text.replace("26.562", "53.125", 2).replace("26.562", "25.781")
    assert not [p for p in items(understood(older), LinkPort) if p.trouble]


def test_a_gpu_that_does_not_support_nvlink_has_no_ports():
    """A virtual machine: its GPUs are listed and nothing is wrong."""
    head = status(("NVIDIA A100-NEW4-80GB", "")).rstrip("\n")
    text = f"{head}\nDevice does not have or support Nvlink\n"
    assert recognise(text) == "nvlink-status"
    found = understood(text)
    assert [gpu.model for gpu in items(found, Gpu)] == ["NVIDIA A100-NEW4-80GB"]
    assert (items(found, LinkPort), found.warnings) == ([], ())


@pytest.mark.parametrize("option", ["nvlink-status", "nvlink-remote"])
def test_links_below_a_gpu_whose_line_is_gone_are_told_and_given_to_nobody(option):
    """The second GPU has more links than the first: none of them becomes one of the first."""
    words = "26.562 GB/s" if option == "nvlink-status" else "Remote Device 00000008:00:00.0: Link 1"
    lines = [f"GPU 0: {NEW} (UUID: GPU-6968dfc2-d444-d92c-c36b-000000000000)"]
    lines += [f"\t Link {number}: {words}" for number in (0, 1, 0, 1, 2)]
    found = understood("\n".join(lines), option)
    assert found.warnings == ("line 4: links of GPU 0 begin again: the line of a GPU is missing",)
    assert [port.port for port in items(found, LinkPort)] == [0, 1]


FAR = "00000008:00:00.0"


def remotes(*counts: int, model: str = SXM) -> str:
    """`nvidia-smi nvlink -R` of GPUs with so many active links."""
    return "".join(
        f"GPU {gpu}: {model} (UUID: GPU-6968dfc2-d444-d92c-c36b-{gpu:012})\n"
        + "".join(f"\t Link {n}: Remote Device {FAR}: Link {n}\n" for n in range(count))
        for gpu, count in enumerate(counts)
    )


def test_remote_ends_that_are_cut_inside_a_gpu_are_told():
    """The tool numbers active links anew, so no gap shows the cut: the other GPUs do."""
    assert understood(remotes(18, 18)).warnings == ()
    (warning,) = understood(remotes(18, 7)).warnings
    assert warning.startswith("GPU 1 (line 20) has 7 links, others of its model 18")


def test_addresses_of_remote_ends_that_are_cut_inside_a_gpu_are_told():
    """`nvlink -p` has no number of the far link."""
    text = re.sub(r"Remote Device (\S+): Link [0-9]+", r"\1", remotes(18, 7))
    (warning,) = understood(text).warnings
    assert warning.startswith("GPU 1 (line 20) has 7 links")


@given(st.integers(1, 4), st.integers(2, 18), st.data())
def test_remote_ends_that_are_cut_anywhere_name_no_false_link(gpus, links, data):
    """Each far end that is read is one of the whole text, and a loss within a GPU is told."""
    whole = remotes(*[links] * gpus)
    at = data.draw(st.integers(whole.index("Link 0") + 50, len(whole)))
    found = parse(whole[:at])
    assert isinstance(found, ParsedProbe)
    ends = {(p.gpu, p.port): p.remote for p in items(understood(whole), LinkPort)}
    for port in items(found, LinkPort):
        known = ends[port.gpu, port.port] or ""
        assert port.remote in {known, known.partition(" ")[0]}
    last = max(gpu.index for gpu in items(found, Gpu))
    read = [port for port in items(found, LinkPort) if port.gpu == last]
    if last and len(read) < links:
        assert found.warnings


def test_a_number_at_the_end_of_the_text_that_may_go_on_is_left_out():
    """`Link 1` of `Link 14`: with a line end it is whole, and 4 is no beginning of a number."""
    for number, remote in (("1", FAR), ("4", f"{FAR} link 4"), ("14", f"{FAR} link 14")):
        text = f"GPU 0: {SXM} (UUID: GPU-6968dfc2)\n\t Link 0: Remote Device {FAR}: Link {number}"
        (port,) = items(understood(text), LinkPort)
        assert port.remote == remote.replace("00000008", "0008")
        (port,) = items(understood(text + "\n"), LinkPort)
        assert port.remote == f"{FAR} link {number}".replace("00000008", "0008")


MIG = "\t NVLink: queries are not supported for Devices in MIG mode"


@pytest.mark.parametrize("option", ["status", "remote ends"])
def test_the_links_of_a_gpu_in_mig_mode_are_unknown(option):
    """Neither none nor down, and the text is not cut."""
    line = "26.562 GB/s" if option == "status" else f"Remote Device {FAR}: Link 0"
    lines = [
        f"GPU {gpu}: {NEW} (UUID: GPU-6968dfc2-d444-d92c-c36b-{gpu:012})\n{words}"
        for gpu, words in enumerate([f"\t Link 0: {line}", MIG, f"\t Link 0: {line}"])
    ]
    found = understood("\n".join(lines) + "\n")
    assert found.absent_links == ("unknown in MIG mode: GPU 1",)
    assert found.warnings == ()
    assert [gpu.index for gpu in items(found, Gpu)] == [0, 1, 2]
    assert {(port.gpu, port.state) for port in items(found, LinkPort)} == {
        (0, PortState.UP),
        (2, PortState.UP),
    }


def test_a_host_whose_gpus_are_all_in_mig_mode_is_read():
    """It was taken for `nvidia-smi -L`."""
    heads = [f"GPU {gpu}: {SXM} (UUID: GPU-6968dfc2-d444-d92c-c36b-{gpu:012})" for gpu in range(2)]
    found = understood("".join(f"{head}\n{MIG}\n" for head in heads))
    assert (found.format, found.absent_links) == (
        "nvlink-status",
        ("unknown in MIG mode: GPU 0, 1",),
    )
    assert items(found, LinkPort) == []

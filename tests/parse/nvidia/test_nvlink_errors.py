"""`nvidia-smi nvlink -e`: a counter is what the text has whole, and never zero for lack of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.parse.answers import items, refused, understood
from topo.facts import parse
from topo.model.errors import Refusal
from topo.model.machine import Gpu, LinkErrorKind, LinkErrors

HEAD = "GPU {}: NVIDIA H100 80GB HBM3 (UUID: GPU-6968dfc2-d444-d92c-c36b-00000000000{})"
NAMES = ("Replay Errors", "Recovery Errors", "CRC Errors")
BLACKWELL = (
    "Malformed packet Errors: 1",
    "Buffer overrun Errors: 2",
    "Rx Errors: 3",
    "Rx remote Errors: 4",
    "Rx General Errors: 5",
    "Local link integrity Errors: 6",
    "Tx discards: 7",
    "Link recovery successful events: 90",
    "Link recovery failed events: 8",
    "Total link recovery events: 9",
    "Effective Errors: 10",
    "Effective BER: 15e-255",
    "FEC Errors - 0: 36140749276",
    "Raw BER Lane 0: 2061",
    "Raw Errors Lane 0: 82",
    "Symbol Errors: 11",
    "Symbol BER: 15e-255",
)


def host(*lines: str, gpu: int = 0) -> str:
    """One GPU with these lines below it."""
    return "\n".join([HEAD.format(gpu, gpu), *(f"\t {line}" for line in lines), ""])


def counted(text: str) -> dict[tuple[int, int, str], int]:
    """(GPU, link, kind) to the count."""
    found = items(understood(text, "nvlink-errors"), LinkErrors)
    return {(each.gpu, each.link, each.kind.value): each.count for each in found}


def test_blackwell_counts_by_other_names_and_what_a_healthy_link_has_is_passed_over() -> None:
    found = counted(host(*(f"Link 3: {line}" for line in BLACKWELL)))
    assert found == {
        (0, 3, "malformed-packet"): 1,
        (0, 3, "buffer-overrun"): 2,
        (0, 3, "receive"): 3,
        (0, 3, "receive-remote"): 4,
        (0, 3, "receive-general"): 5,
        (0, 3, "link-integrity"): 6,
        (0, 3, "transmit-discard"): 7,
        (0, 3, "recovery-failed"): 8,
        (0, 3, "recovery"): 9,
        (0, 3, "effective"): 10,
        (0, 3, "symbol"): 11,
    }
    assert understood(host(*(f"Link 3: {line}" for line in BLACKWELL))).warnings == ()


def test_every_kind_that_a_gpu_of_nvidia_can_count_is_read() -> None:
    """The rest are MetaX's and InfiniBand's."""
    lines = (*BLACKWELL, *(f"{name}: 1" for name in NAMES if not name.startswith("Recovery")))
    read = {kind for _, _, kind in counted(host(*(f"Link 0: {line}" for line in lines)))}
    assert {kind.value for kind in LinkErrorKind} - read == {
        "corrected",
        "uncorrected",
        "link-downed",
    }


def test_a_list_of_links_stands_for_each() -> None:
    found = counted(host("Links 0-1, 4: Replay/Recovery/CRC Errors: 7"))
    assert {link for _, link, _ in found} == {0, 1, 4}
    assert len(found) == 9
    assert set(found.values()) == {7}


@pytest.mark.parametrize(
    ("line", "warned"),
    [
        ("Link 0: CRC Errors: N/A", False),
        ("Link 0: CRC Errors:", True),
        ("Link 0: CRC Err", True),
        ("Link 0", True),
        ("Link 0: CRC Errors: -1", True),
        ("Link 0: Flux Errors: 3", True),
        ("Links 5-0: No errors", True),
        ("Links 0-9999: No errors", True),
        ("Links 0-: No errors", True),
    ],
)
def test_what_is_no_number_of_errors_is_no_counter(line: str, *, warned: bool) -> None:
    text = host("Link 1: CRC Errors: 2", line)
    assert counted(text) == {(0, 1, "crc"): 2}
    assert bool(understood(text, "nvlink-errors").warnings) is warned


def test_a_gpu_whose_line_is_missing_does_not_count_on_the_one_before() -> None:
    text = host("Link 0: CRC Errors: 1", "Link 1: CRC Errors: 2", "Link 0: CRC Errors: 9")
    assert counted(text) == {(0, 0, "crc"): 1, (0, 1, "crc"): 2}
    assert "the line of a GPU is missing" in understood(text).warnings[0]


def test_gpus_without_nvlink_have_no_counter_and_no_fault() -> None:
    """As on an A100 in a virtual machine, and where the tool prints a GPU and nothing else."""
    for lines in (("GPU 0 does not have or support Nvlink",), ()):
        answer = parse(host(*lines), "nvlink-errors")
        assert not isinstance(answer, Refusal)
        assert (answer.facts, answer.warnings) == ((), ())


def test_no_gpu_is_stated() -> None:
    """A list that is read once a minute would keep alive what fell off the bus 2 s ago."""
    assert not items(understood(host("Link 0: CRC Errors: 0")), Gpu)


def test_one_gpu_twice_is_refused() -> None:
    text = host("Link 0: CRC Errors: 0") * 2
    assert "GPU 0 is listed twice" in refused(text, "nvlink-errors").what


LINES = st.one_of(
    st.builds(
        "Link {}: {}: {}".format,
        st.integers(0, 17),
        st.sampled_from(NAMES),
        st.integers(0, 99999),
    ),
    st.just("Links 0-5: No errors"),
)


@given(st.lists(LINES, max_size=6), st.lists(LINES, max_size=6), st.data())
def test_a_text_that_was_cut_counts_nothing_that_the_whole_does_not(
    first: list[str], second: list[str], data: st.DataObject
) -> None:
    """Wherever it was cut, also inside a number: 88 of 8814 is no counter."""
    text = host(*first) + host(*second, gpu=1)
    at = data.draw(st.integers(len(HEAD), len(text)))
    assert counted(text[:at]).items() <= counted(text).items()

"""`nvidia-smi topo -mp` has the shape of `topo -m` and says nothing of NVLinks."""

import pytest

from tests.parse import texts, variants
from tests.parse.answers import matrix_of, refused, understood
from topo.facts import recognise
from topo.facts.outputs import outputs
from topo.model.errors import Refusal
from topo.model.observation import ParsedProbe

SWITCHES = texts.tabbed(texts.islands(8, 2, inside="PXB", across="SYS"))
"""Eight GPUs on NVLink, as `-mp` shows them, or eight without."""
PCI_LEGEND, WHOLE_LEGEND = texts.nvidia_legend(nvlinks=False), texts.nvidia_legend()
UNTOLD = "no cell has NVLinks, and no whole legend says that they were looked for"


@pytest.mark.parametrize("format_name", [None, "nvidia-smi-topo"])
def test_a_matrix_of_pci_alone_is_refused_by_its_option(format_name):
    """Read as `-m` it would be a host whose eight GPUs have no NVLink."""
    refusal = refused(SWITCHES + PCI_LEGEND, format_name)
    assert "topo -mp" in refusal.what
    assert refusal.fix == "give `nvidia-smi topo -m`"


@pytest.mark.parametrize("command", ["topo -mp", "topo --matrix_pci"])
def test_a_matrix_of_pci_without_its_legend_is_known_by_the_command_above(command):
    refusal = refused(f"root@node-1:~# nvidia-smi {command}\n{SWITCHES}")
    assert "topo -mp" in refusal.what


def test_a_host_without_nvlinks_is_read_where_the_legend_says_that_they_were_looked_for():
    found = understood(SWITCHES + WHOLE_LEGEND)
    assert found.warnings == ()
    assert len(matrix_of(found).gpus) == 8


def test_a_matrix_without_nvlinks_and_without_a_legend_is_told():
    """Nobody knows which of the two options printed it."""
    (warning,) = understood(SWITCHES).warnings
    assert warning.startswith(UNTOLD)


@pytest.mark.parametrize(
    "legend",
    [
        WHOLE_LEGEND[: WHOLE_LEGEND.index("  PIX")],
        "\nLegend:\n  PIX  = one bridge\n  PXB  = more\n",
    ],
    ids=["cut", "edited"],
)
def test_a_legend_that_is_not_whole_tells_nothing_and_is_told(legend):
    """Its last line may have been that of NVLinks, or nobody needed it."""
    (warning,) = understood(SWITCHES + legend).warnings
    assert warning.startswith(UNTOLD)


@pytest.mark.parametrize("text", [
    texts.tabbed(texts.islands(8, 8, inside="NV18")),
    texts.tabbed(texts.islands(1, 1)),
])  # fmt: skip
def test_a_matrix_with_nvlinks_or_of_one_gpu_needs_no_legend(text):
    assert understood(text).warnings == ()


@pytest.mark.parametrize("prose", [
    "GPU0 is slow, see:\n", "GPU0 GPU1 are slow:\n", "GPU0, GPU0 and GPU0 again:\n\n",
])  # fmt: skip
def test_prose_about_the_first_gpu_above_a_matrix_hides_none_of_its_legend(prose):
    assert understood(prose + SWITCHES + WHOLE_LEGEND).warnings == ()
    assert "topo -mp" in refused(prose + SWITCHES + PCI_LEGEND).what
    assert "topo -mp" in refused(f"{prose}$ nvidia-smi topo -mp\n{SWITCHES}").what


@pytest.mark.parametrize("first", [1, 4])
def test_a_container_that_sees_the_last_gpus_is_judged_by_its_legend(first):
    """Whatever the number of its first GPU."""
    text = SWITCHES
    for gpu in reversed(range(8)):
        text = text.replace(f"GPU{gpu}", f"GPU{gpu + first}")
    assert "topo -mp" in refused(text + PCI_LEGEND).what
    (gap,) = understood(text + WHOLE_LEGEND).warnings
    assert gap.startswith("the header has 8 GPUs and not GPU0")


@pytest.mark.parametrize("change", [*variants.FOLDS, *variants.SQUEEZES])
def test_a_matrix_of_pci_is_never_read_in_another_shape(change):
    """Folded at seven widths, or with other white space."""
    for width in variants.WIDTHS if change in variants.FOLDS else (0,):
        text = SWITCHES + PCI_LEGEND
        refused(change(text, width) if width else change(text))


def test_both_options_in_one_log_are_told_apart():
    """In whichever order: the one is read, the other refused."""
    bonded = texts.tabbed(texts.islands(8, 8, inside="NV18")) + WHOLE_LEGEND
    for log in (f"{SWITCHES}{PCI_LEGEND}\n{bonded}", f"{bonded}\n{SWITCHES}{PCI_LEGEND}"):
        told = outputs(log)
        assert isinstance(told, tuple)
        kinds = {type(output.answer) for output in told}
        assert (len(told), kinds) == (2, {ParsedProbe, Refusal})


def test_the_first_of_two_matrices_is_judged_by_its_own_legend():
    """The legend of the second one names NVLinks."""
    bonded = texts.tabbed(texts.islands(2, 2, inside="NV18")) + WHOLE_LEGEND
    assert recognise(SWITCHES + PCI_LEGEND + bonded) == "nvidia-smi-topo"
    refused(SWITCHES + PCI_LEGEND + bonded)

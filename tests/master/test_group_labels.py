"""Which labels of nodes name groups: what the setting takes, and what it says of the rest."""

import pytest

from master.settings import MasterSettings
from master.settings.group_labels import parse_group_labels
from topo.discovery.label_families import AUTO, FAMILIES, UNLABELLED, LabelSource
from topo.discovery.modes import Mode
from topo.discovery.sources import SOURCES
from topo.kit.settings import read
from topo.model.errors import Refusal
from topo.model.observation import CLUSTER_MANAGER, CLUSTER_NODES, CONFIG_FILE, FABRIC, WORKERS

CLUSTER = ("--kubeconfig=/k", "--mode=labels")
OWN = "metax-tech.com/dragonfly"
BY_NFD = ("--controllers=node-features", "--pod-namespace=topo")


def levels(*words: str) -> list[tuple[str, str]]:
    """The kind and the key of each level that the words mean."""
    source = parse_group_labels(words, "metax-tech.com")
    assert isinstance(source, LabelSource), source
    (family,) = source.families
    return [(level.kind, level.key) for level in family.levels]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_each_family_is_called_by_its_name(family):
    """A family by name is read alone, without a choice."""
    assert parse_group_labels((family.name,), "a.b") == LabelSource((family,))


def test_keys_make_groups_of_their_own_names_unless_a_kind_is_given():
    """Outermost first, with or without a prefix, in small letters."""
    assert levels("example.com/Room", "topology.kubernetes.io/zone", "rack=k8s.io/x") == [
        ("room", "example.com/Room"),
        ("zone", "topology.kubernetes.io/zone"),
        ("rack", "k8s.io/x"),
    ]
    assert levels("example.com/node") == [("node-group", "example.com/node")]
    assert levels("shelf=aws") == [("shelf", "aws")]


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("auto", "gke"), "auto alone"),
        (("gke", "gke"), "each once"),
        (("gke", "awz"), "did you mean aws?"),
        (("gke", "a/b"), "families alone"),
        (("topogragh",), "did you mean topograph? a key: rack=topogragh"),
        (("a/b c",), "outermost first"),
        (("A_/b",), "outermost first"),
        (("Rack=a/b",), "in small letters"),
        (("node=a/b",), "in small letters"),
        (("a/rack", "b/rack"), "another kind"),
    ],
)
def test_words_that_mean_no_labels_are_refused_with_the_fix(words, part):
    """A slip of a name, a mixture, no key, no kind."""
    found = parse_group_labels(words, "metax-tech.com")
    assert isinstance(found, Refusal)
    assert part in found.fix


@pytest.mark.parametrize(
    ("flags", "where", "part"),
    [
        (["--mode=labels"], "--mode", "--kubernetes=on"),
        (["--mode=dragonfly", "--group-labels=gke"], "--group-labels", "--kubernetes=on"),
        ([*CLUSTER, "--group-labels=topo"], "--group-labels", "leave labels out"),
        ([*CLUSTER, f"--group-labels={OWN}"], "--group-labels", "leave labels out"),
        ([*CLUSTER, *BY_NFD, f"--group-labels={OWN}"], "--group-labels", "leave node-features out"),
    ],
)
def test_labels_that_cannot_be_read_or_that_we_write_are_refused(flags, where, part):
    """Without Kubernetes, in a mode with other sources, and in a circle."""
    refused = read(MasterSettings, flags)
    assert isinstance(refused, tuple)
    assert refused[0].where == where
    assert part in refused[0].fix


LABELLED = ("--kubeconfig=/k", "--group-labels=gke")
MANAGED = ("--cluster-manager-address=https://10.0.0.1",)


@pytest.mark.parametrize(
    ("flags", "where", "part"),
    [
        (["--mode=config", "--precedence=config,label"], "--precedence", "did you mean labels?"),
        (["--mode=config", "--precedence=config,config"], "--precedence", "each once"),
        ([*LABELLED, "--mode=config", "--precedence=labels"], "--precedence", "add config"),
        (["--mode=switchbox", *MANAGED, "--precedence=config"], "--precedence", "add manager"),
        (["--mode=auto", "--precedence=labels"], "--precedence", "--group-labels"),
        (["--mode=config", "--precedence=config,manager"], "--precedence", "switchbox"),
        (["--mode=auto", "--precedence=manager"], "--cluster-manager-address", "https://10.0.0.1"),
    ],
)
def test_an_order_of_sources_that_cannot_be_is_refused_with_the_fix(flags, where, part):
    """A misspelt or repeated source, a missing one, labels that are not read, no manager."""
    refused = read(MasterSettings, flags)
    assert isinstance(refused, tuple)
    assert refused[0].where == where
    assert part in refused[0].fix


def test_a_named_source_is_used_and_needed_in_any_mode():
    """The config file beside workers, and the cluster manager above NVLink domains."""
    flags = ["--mode=auto", *LABELLED, *MANAGED, "--precedence=manager,fabric,labels,config"]
    found = read(MasterSettings, flags)
    assert isinstance(found, MasterSettings)
    assert found.discovery.stated == (CLUSTER_MANAGER, FABRIC, CLUSTER_NODES, CONFIG_FILE)
    assert all(found.uses(source) for source in SOURCES)
    plain = read(MasterSettings, ["--mode=auto"])
    assert isinstance(plain, MasterSettings)
    assert [source.name for source in SOURCES if plain.uses(source)] == [WORKERS]


def test_a_mode_reads_the_labels_that_it_is_given():
    """Mode labels looks for a family; another mode reads labels if the setting names some."""
    found = {
        flags: read(MasterSettings, ("--kubeconfig=/k", *flags))
        for flags in (
            ("--mode=labels",),
            ("--mode=auto",),
            ("--mode=config", "--group-labels=auto"),
            ("--mode=labels", "--group-labels=topo", "--controllers=hypernodes"),
        )
    }
    labels = [each.labels for each in found.values() if isinstance(each, MasterSettings)]
    assert labels[:3] == [AUTO, UNLABELLED, AUTO]
    assert labels[3].keys == {"metax-tech.com/dragonfly", "metax-tech.com/switchbox"}
    assert found["--mode=labels",].discovery.mode is Mode.LABELS  # type: ignore[union-attr]

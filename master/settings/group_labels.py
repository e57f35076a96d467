"""Which labels of nodes name groups: families by name, or keys of the operator's own."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated

from master.controllers.names import LABELLING
from master.settings.cluster import ClusterSettings
from topo.discovery.label_families import (
    AUTO,
    FAMILIES,
    UNLABELLED,
    LabelFamily,
    LabelLevel,
    LabelSource,
    family_of_keys,
    own_family,
)
from topo.discovery.modes import Mode
from topo.kit.settings import Chart, CommaList
from topo.model.errors import Refusal
from topo.model.ids import NODE, Kind
from topo.model.nearest import did_you_mean
from topo.publish.names import LABEL_VALUE, is_dns_name
from topo.publish.node_labels import every_key

WHERE = "--group-labels"
FOUND = "auto"
_KIND = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_NO_KIND = re.compile(r"[^a-z0-9]+", re.ASCII)


class GroupLabelSettings(ClusterSettings):
    """Which labels of nodes name groups, and how groups are found."""

    mode: Annotated[Mode, Chart("topoDiscovery.mode")] = Mode.CONFIG
    """How groups are found: config (the file), dragonfly (the workers' peers), switchbox (the
    cluster manager, and dragonflies inside from the workers), nvlink (clusterUuid and clique, or
    Ascend super pods), auto (whatever the workers see), labels (labels of the cluster's nodes),
    fabric (dumps of an InfiniBand fabric)."""
    group_labels: Annotated[CommaList, Chart("topoDiscovery.groupLabels")] = ()
    """Labels of nodes that name their groups: auto (one known family, the default of mode labels),
    families by name, or keys from the outermost group to the innermost, each `<key>` or
    `<kind>=<key>`. In modes dragonfly, nvlink and auto these groups stand above those that workers
    see; in config and switchbox they are for nodes that the file or the manager does not list,
    unless precedence says otherwise."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        source = self._group_labels
        if isinstance(source, Refusal):
            return (source,)
        if not source.families:
            return ()
        if self.kube_config is None:
            what = "labels are read from the nodes of Kubernetes, which is not asked"
            fix = "give --kubernetes=on, or another --mode"
            where = "--mode" if self.mode is Mode.LABELS else WHERE
            return (Refusal(what, where, fix),)
        by = next((name for name in LABELLING if name in self.controllers), "")
        written = every_key(self.label_keys) if by else frozenset[str]()
        if circle := sorted(source.keys & written):
            what = f"{circle[0]} is written by {by} of this master, which would read itself"
            fix = f"name other labels, or leave {by} out of --controllers"
            return (Refusal(what, WHERE, fix),)
        return ()

    @property
    def labels(self) -> LabelSource:
        """The labels that are read."""
        source = self._group_labels
        return UNLABELLED if isinstance(source, Refusal) else source

    @property
    def _group_labels(self) -> LabelSource | Refusal:
        words = self.group_labels or ((FOUND,) if self.mode is Mode.LABELS else ())
        return parse_group_labels(words, self.domain)


def parse_group_labels(words: Sequence[str], domain: str) -> LabelSource | Refusal:
    """Return the labels that the words mean, or why they mean none."""
    known = {family.name: family for family in (*FAMILIES, own_family(domain))}
    if not words:
        return UNLABELLED
    if FOUND in words:
        fix = f"write {FOUND} alone, or the names of families, or keys"
        return AUTO if len(words) == 1 else Refusal(f"{FOUND} is given beside others", WHERE, fix)
    if len(set(words)) < len(words):
        return Refusal("a word is given twice", WHERE, "write each once")
    families = [known[word] for word in words if word in known]
    if families and len(families) < len(words):
        other = next(word for word in words if word not in known)
        fix = did_you_mean(other, known, "write families alone, or keys alone")
        return Refusal(f"{other!r} is not a family, and is given beside one", WHERE, fix)
    return LabelSource(tuple(families)) if families else _of_keys(words, known)


def _of_keys(words: Sequence[str], known: dict[str, LabelFamily]) -> LabelSource | Refusal:
    levels: list[LabelLevel] = []
    for word in words:
        kind, has_kind, key = word.rpartition("=")
        if not _is_key(key):
            fix = "write keys as on the node, such as example.com/rack, outermost first"
            return Refusal(f"{word!r} is not a key of a label", WHERE, fix)
        if "/" not in word and not has_kind and (hint := did_you_mean(word, (*known, FOUND))):
            return Refusal(
                f"{word!r} is not a family of labels", WHERE, f"{hint} a key: rack={word}"
            )
        if has_kind and (not _KIND.fullmatch(kind) or kind == NODE):
            fix = "write <kind>=<key>, the kind in small letters, such as rack=example.com/rack"
            return Refusal(f"{kind!r} is not a kind of a group", WHERE, fix)
        levels.append(LabelLevel(key, Kind(kind) if has_kind else _kind_of(key)))
    (most, number), *_ = Counter(level.kind for level in levels).most_common(1)
    if number > 1:
        fix = "give one of them another kind: <kind>=<key>"
        return Refusal(f"two keys would make groups of the kind {most}", WHERE, fix)
    return LabelSource((family_of_keys(levels),))


def _is_key(text: str) -> bool:
    """Return whether a label may be called so. Source: kubernetes.io, "Labels and Selectors"."""
    prefix, slash, name = text.rpartition("/")
    return (not slash or is_dns_name(prefix)) and LABEL_VALUE.valid.fullmatch(name) is not None


def _kind_of(key: str) -> Kind:
    """Return the kind of groups that a key names: its own name, without its prefix."""
    kind = _NO_KIND.sub("-", key.rpartition("/")[2].lower()).strip("-")
    return Kind("node-group" if kind == NODE else kind)

"""What `topo export` writes from the tree: Slurm's topology files, objects of NFD and schedulers.

A file is replaced whole, and only where it changes: slurmctld may read it at any moment, and a
file that keeps its time needs no `scontrol reconfigure`.
"""

import stat
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from topo.cli.exit_codes import CliError, Exit, usage
from topo.cli.render import terminal
from topo.cli.render.safe import plain
from topo.kit.files import AbsentFile, NotAFile, read_bounded, replace_whole
from topo.model.errors import Refusal
from topo.model.forest import Forest
from topo.model.ids import FabricName, Kind, natural_key
from topo.model.rest.topology import NodeDocument, TopologyDocument, is_group, walk
from topo.publish.names import OBJECT_NAME, is_dns_name
from topo.publish.node_features import MANAGED_BY, can_name, manifest, node_features
from topo.publish.node_labels import Fabrics, label_keys
from topo.publish.slurm.document import SlurmChoice, slurm_file
from topo.publish.slurm.hostlist import compress, is_host
from topo.publish.topologies import kai, koordinator, kueue
from topo.publish.topologies.chains import TierChain, all_chains
from topo.publish.topologies.wanted import WantedObjects, documents

MAX_FILE_BYTES = 64 << 20
_SHOWN = 5
_MODE = 0o644
_TOPOLOGIES: Mapping[str, tuple[Callable[[Iterable[TierChain]], WantedObjects], str]] = {
    "kueue": (kueue.kueue_objects, kueue.API_VERSION),
    "kai": (kai.kai_objects, kai.API_VERSION),
    "koordinator": (koordinator.koordinator_objects, koordinator.API_VERSION),
}
"""What each format is made of, and the version of its objects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForestFile:
    """The text, and remarks about what is not in it."""

    text: str
    remarks: tuple[str, ...] = ()

    def remarked(self, remark: str) -> "ForestFile":
        """Return the same text with one more remark."""
        return replace(self, remarks=(*self.remarks, remark))


def slurm(
    forest: Forest, choice: SlurmChoice, output: Path | None, others: Mapping[FabricName, Forest]
) -> ForestFile:
    """Return Slurm's file; names of the one at `output` stay. Raises `CliError`.

    `others` are the forests of further fabrics.
    """
    made = slurm_file(forest, choice, _there(output), others)
    if isinstance(made, Refusal):
        where = made.where.replace("--output", f"--output {output}", 1)
        raise CliError(Exit.REFUSED, replace(made, where=where))
    remarks = (
        *_remark(made.unnameable, "cannot be named in a hostlist of Slurm"),
        *_remark(made.in_no_block, "stand in no block"),
    )
    return ForestFile(text=made.text, remarks=remarks)


def node_feature_objects(
    forest: Forest, beside: Fabrics, domain: str, kinds: Sequence[str], *, namespace: str
) -> ForestFile:
    """Return the NodeFeature objects of all nodes in groups; of these kinds, else the known ones.

    `beside` are the forests of further fabrics.
    Raises `CliError` where there is none: applied with `--prune` it would delete all.
    """
    if not OBJECT_NAME.valid.fullmatch(namespace):
        fix = "write a name in small letters, such as node-feature-discovery"
        raise usage("this is no name of a namespace", f"--namespace {namespace}", fix)
    keys = _keys(domain, kinds)
    text = manifest(node_features(forest, keys, namespace, beside))
    _require_groups(text, (forest, *beside.values()), kinds)
    unnameable = tuple(node.name for node in forest.nodes() if not can_name(node.name))
    return ForestFile(text=text, remarks=_remark(unnameable, "cannot be named in a label"))


def topology_objects(
    forest: Forest, beside: Fabrics, domain: str, kinds: Sequence[str], *, scheduler: str
) -> ForestFile:
    """Return the topologies of a scheduler for the tiers of these kinds, else of the known ones.

    `beside` are the forests of further fabrics.
    Raises `CliError` where there is none.
    """
    keys = _keys(domain, kinds)
    objects, api_version = _TOPOLOGIES[scheduler]
    wanted = objects(all_chains(forest, keys, domain, beside))
    text = manifest(documents(wanted, api_version, dict([MANAGED_BY])))
    _require_groups(text, (forest, *beside.values()), kinds)
    return ForestFile(text=text)


def excluded_hosts(document: TopologyDocument, *, as_hostlist: bool) -> ForestFile:
    """Return the nodes with suspected links or in quarantine: a line each, or as Slurm's hostlist.

    An empty list is an answer, too: nobody is to be left out.
    """
    leaves = (vertex for _, vertex in walk(document["groups"]) if not is_group(vertex))
    held = (node for node in (*leaves, *document["unplaced"]) if is_held(node))
    names = sorted({node["name"] for node in held}, key=natural_key)
    if not as_hostlist:
        return ForestFile(text="".join(f"{name}\n" for name in names))
    listed = [name for name in names if is_host(name)]
    remarks = _remark(sorted(set(names) - set(listed)), "cannot be named in a hostlist of Slurm")
    return ForestFile(text=f"{compress(listed)}\n" if listed else "", remarks=remarks)


def is_held(node: NodeDocument) -> bool:
    """Return whether something is held against a node."""
    return bool(node["suspected"]) or node["quarantine"] is not None


def _keys(domain: str, kinds: Sequence[str]) -> Mapping[Kind, str]:
    """Return the label of each kind. Raises `CliError` for a domain that no label can have."""
    if not is_dns_name(domain):
        fix = "write a DNS name in small letters, such as metax-tech.com"
        raise usage("this is no prefix of labels", f"--domain {domain}", fix)
    keys = label_keys(domain, {Kind(kind): f"{domain}/{kind}" for kind in kinds})
    return {kind: key for kind, key in keys.items() if not kinds or kind in kinds}


def _require_groups(text: str, forests: Iterable[Forest], kinds: Sequence[str]) -> None:
    """Raise `CliError` for an empty text: no node is in a group of these kinds, if any are named,
    or of those that have labels.
    """
    if text:
        return
    there = sorted({group.kind for forest in forests for _, group in forest.groups()})
    if not there:
        fix = "ask again when `topo tree` shows groups"
        raise CliError(Exit.REFUSED, Refusal("no node is in a group", "the answer", fix))
    what = "no node is in a group of a kind that has a label"
    if kinds:
        what = f"no node is in a group of kind {' or '.join(kinds)}"
    raise CliError(Exit.REFUSED, Refusal(what, "--kind", f"name one of {', '.join(there)}"))


def _remark(names: Sequence[str], why: str) -> tuple[str, ...]:
    if not names:
        return ()
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    shown = ", ".join(names[:_SHOWN])
    return (f"not written, since they {why}: {shown}{more}",)


def _there(output: Path | None) -> str:
    """Return what stands in the file; "" where there is none, or what is there is no file."""
    if output is None:
        return ""
    found = read_bounded(output, MAX_FILE_BYTES)
    if isinstance(found, AbsentFile | NotAFile):
        return ""
    if isinstance(found, Refusal):
        raise CliError(Exit.USAGE, found)
    try:
        return found.decode()
    except UnicodeDecodeError:
        fix = "name the file of this format, or move it away"
        raise usage("the file there is no text", f"--output {output}", fix) from None


def put(file: ForestFile, output: Path | None) -> bool:
    """Write the file and the remarks; return whether something changed. Raises `CliError`."""
    for remark in file.remarks:
        terminal.err().print(plain(f"topo: {remark}"), style="yellow", highlight=False)
    if output is None:
        sys.stdout.write(file.text)
        return True
    target = output.resolve()
    try:
        before = target.stat() if target.exists() else None
        if before is not None and not stat.S_ISREG(before.st_mode):
            target.write_text(file.text)
            return True
        if before is not None and target.read_bytes() == file.text.encode():
            return False
        mode = _MODE if before is None else stat.S_IMODE(before.st_mode)
        replace_whole(target, file.text.encode(), mode=mode)
    except OSError as error:
        why = error.strerror or str(error)
        fix = "name a file in a folder that you can write to"
        raise usage(f"the file is not written: {why}", f"--output {output}", fix) from None
    return True

"""How groups are found: the sources, and the limits by which their facts are judged."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from master.settings.cluster_manager import NETBOX_FLAGS, address_refusal
from master.settings.group_labels import GroupLabelSettings
from topo.discovery.modes import (
    JOIN_KEYS,
    MISSED,
    STATING,
    WITHOUT_WORKERS,
    DiscoverySettings,
    Mode,
)
from topo.discovery.sources import DUMPED, MANAGED, Source
from topo.kit.durations import Seconds
from topo.kit.settings import Chart, CommaList, Count
from topo.model.errors import Refusal
from topo.model.ids import SourceName
from topo.model.nearest import did_you_mean

MAX_SWEEPING_NODES = 16


class FindingSettings(GroupLabelSettings):
    """How groups are found: the sources, and the limits by which their facts are judged."""

    node_number: Annotated[Count, Chart("topoDiscovery.dragonfly.nodeNumber", is_plain=False)] = 2
    """Nodes that make a complete dragonfly; a larger component is reported as a wiring fault."""
    gpus_per_node: Annotated[int, Field(ge=0, le=128), Chart("topoDiscovery.gpusPerNode")] = 0
    """GPUs of a healthy node; 0: unknown."""
    config_file: Path = Path("/config/nodegroup.yaml")
    """The configured tree, used in mode config and where precedence names config; read again when
    it changes."""
    fabric_dir: Annotated[Path, Chart("topoDiscovery.fabricVolume", is_plain=False)] = Path(
        "/fabric"
    )
    """Folder with dumps of an InfiniBand fabric by ibnetdiscover, a file for each subnet; used in
    mode fabric and where precedence names fabric, read again when they change."""
    fabric_sweep_nodes: Annotated[CommaList, Chart("topoDiscovery.fabricSweep.nodes")] = ()
    """Nodes that run ibnetdiscover (`topo-worker --sweep-interval`) and whose dumps are believed,
    each by a token of its own; by default none."""
    wiring_plan: Annotated[Path | None, Chart("topoDiscovery.wiringPlanVolume", is_plain=False)] = (
        None
    )
    """File with the plan of the cables (docs/wiring.md), which is compared with those that are
    seen; read again when it changes."""
    wiring_netbox_address: Annotated[
        str, Chart("topoDiscovery.wiringNetBox.address", is_plain=False)
    ] = ""
    """URL of a NetBox or Nautobot whose cables are the plan, such as https://netbox.example.com, in
    place of `--wiring-plan`."""
    wiring_netbox_token_file: Annotated[
        Path, Chart("topoDiscovery.wiringNetBox.tokenSecret", is_plain=False)
    ] = Path("/netbox/token")
    """File with the token of its API, which needs to view cables, in Nautobot also interfaces,
    devices and statuses; read again for each request."""
    wiring_netbox_ca_file: Annotated[
        Path | None, Chart("topoDiscovery.wiringNetBox.caConfigMap", is_plain=False)
    ] = None
    """PEM authorities that verify its certificate; without it those of the system do."""
    cluster_manager_address: Annotated[
        str, Chart("topoDiscovery.switchbox.clusterManagerAddress")
    ] = ""
    """URL of the cluster manager, such as https://10.0.0.1; needed in switchbox mode and where
    precedence names manager. With a mapping file that has the section fabric it is also asked in
    mode fabric and where precedence names fabric."""
    cluster_manager_poll_topo_period: Annotated[
        Seconds, Field(ge=0.1), Chart("topoDiscovery.switchbox.clusterManagerPollTopoPeriod")
    ] = 30.0
    """How often the cluster manager's whole topology is read."""
    cluster_manager_poll_event_period: Annotated[
        Seconds, Field(ge=0.1), Chart("topoDiscovery.switchbox.clusterManagerPollEventPeriod")
    ] = 10.0
    """How often the cluster manager's events are read."""
    cluster_manager_ca_file: Annotated[
        Path | None, Chart("topoDiscovery.switchbox.clusterManagerCaConfigMap", is_plain=False)
    ] = None
    """PEM authorities that verify the cluster manager's certificate."""
    cluster_manager_insecure: Annotated[
        bool, Chart("topoDiscovery.switchbox.clusterManagerInsecure")
    ] = False
    """Send credentials to a cluster manager whose certificate is not verified, or whose address is
    http://. For trials only."""
    cluster_manager_mapping_file: Annotated[
        Path | None, Chart("topoDiscovery.switchbox.clusterManagerMappingConfigMap", is_plain=False)
    ] = None
    """How to read a cluster manager of another shape; see docs/cluster-manager.md."""
    credentials_dir: Annotated[
        Path, Chart("topoDiscovery.switchbox.clusterManagerSecret", is_plain=False)
    ] = Path("/secret")
    """Directory with the files username and password for the cluster manager."""
    join_keys: Annotated[CommaList, Chart("topoDiscovery.switchbox.joinKeys")] = JOIN_KEYS
    """Names that match machines of the cluster manager to nodes, in this order."""
    precedence: Annotated[CommaList, Chart("topoDiscovery.precedence")] = ()
    """Order of the sources that write groups down: manager, fabric, labels and config; of those
    that place a node the first is followed. By default the source of the mode, then labels; config
    and fabric beside another mode have to be named."""
    worker_token_file: Path | None = None
    """Tokens of workers, one per line: `<token>`, or `<node-name> <token>`; read again when it
    changes."""
    allow_anonymous_workers: bool = False
    """Accept reports without a token. For trials only."""
    beat_interval: Annotated[Seconds, Field(ge=0.1, le=3600)] = 10.0
    """How often a worker without changes reports that it is alive. A node is stale after three
    missed beats."""
    missed_hardware: Annotated[CommaList, Chart("topoDiscovery.master.missedHardware")] = MISSED
    """Kinds of hardware that make their node NotReady when they vanish: gpus, their ports and
    links, nics."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        return (
            *self._join_key_refusals(),
            *self._missed_refusals(),
            *self._precedence_refusals(),
            *self._manager_refusals(),
            *self._netbox_refusals(),
            *self._sweep_refusals(),
        )

    def _join_key_refusals(self) -> tuple[Refusal, ...]:
        wrong = [key for key in self.join_keys if key not in JOIN_KEYS]
        if wrong:
            fix = did_you_mean(wrong[0], JOIN_KEYS, f"choose among {', '.join(JOIN_KEYS)}")
            return (Refusal(f"{wrong[0]!r} is not a join key", "--join-keys", fix),)
        if not self.join_keys or len(set(self.join_keys)) < len(self.join_keys):
            fix = "name each key once, at least one"
            return (Refusal("the join keys are empty or repeat", "--join-keys", fix),)
        return ()

    def _missed_refusals(self) -> tuple[Refusal, ...]:
        wrong = [kind for kind in self.missed_hardware if kind not in MISSED]
        fix = did_you_mean(wrong[0] if wrong else "", MISSED, f"choose among {', '.join(MISSED)}")
        what = "is no hardware that can be missed"
        return tuple(Refusal(f"{kind!r} {what}", "--missed-hardware", fix) for kind in wrong[:1])

    def _precedence_refusals(self) -> tuple[Refusal, ...]:
        found = refusal_of_precedence(
            self.precedence, self.mode, reads_labels=bool(self.labels.families)
        )
        return () if found is None else (found,)

    def uses(self, source: Source) -> bool:
        """Return whether a source is listened to."""
        return source.is_used_in(self.mode, self.named_sources)

    @property
    def named_sources(self) -> tuple[SourceName, ...]:
        """The sources that write groups down in the order of `precedence`; empty without one."""
        return tuple(STATING[word] for word in self.precedence if word in STATING)

    @property
    def asks_manager(self) -> bool:
        """Whether the cluster manager is asked, for its groups or for the fabric."""
        return self.uses(MANAGED) or self.polls_fabric

    @property
    def polls_fabric(self) -> bool:
        """Whether the cluster manager is asked for the fabric, if its mapping file reads one."""
        mapped = self.cluster_manager_mapping_file is not None
        return self.uses(DUMPED) and mapped and bool(self.cluster_manager_address)

    def _manager_refusals(self) -> tuple[Refusal, ...]:
        if not self.asks_manager:
            return ()
        if not self.cluster_manager_address:
            own = self.mode is Mode.SWITCHBOX
            asking = f"mode {self.mode}" if own else "--precedence"
            what = f"{asking} needs a cluster manager and there is no address"
            fix = "give its URL, such as https://10.0.0.1"
            return (Refusal(what, "--cluster-manager-address", fix),)
        insecure = self.cluster_manager_insecure
        refused = address_refusal(self.cluster_manager_address, insecure=insecure)
        return () if refused is None else (refused,)

    def _netbox_refusals(self) -> tuple[Refusal, ...]:
        if not self.wiring_netbox_address:
            return ()
        if self.wiring_plan is not None:
            what, fix = "the plan of the cables is a file and a NetBox", "name one of the two"
            return (Refusal(what, "--wiring-netbox-address", fix),)
        refused = address_refusal(self.wiring_netbox_address, NETBOX_FLAGS, insecure=False)
        return () if refused is None else (refused,)

    def _sweep_refusals(self) -> tuple[Refusal, ...]:
        named, where = self.fabric_sweep_nodes, "--fabric-sweep-nodes"
        if len(named) > MAX_SWEEPING_NODES or len(set(named)) < len(named):
            what = f"{len(named)} nodes are named, of which some may stand twice"
            fix = f"name one or two hosts of each subnet, once, {MAX_SWEEPING_NODES} at most"
            return (Refusal(what, where, fix),)
        if named and not self.uses(DUMPED):
            what = f"mode {self.mode} reads no dump of the fabric"
            return (Refusal(what, where, "choose --mode=fabric, or add fabric to --precedence"),)
        return ()

    @property
    def discovery(self) -> DiscoverySettings:
        """The numbers that the discovery core judges by."""
        return DiscoverySettings(
            mode=self.mode,
            node_number=self.node_number,
            gpus_per_node=self.gpus_per_node,
            beat_s=self.beat_interval,
            missed=self.missed_hardware,
            join_keys=self.join_keys,
            labels=self.labels,
            precedence=self.named_sources,
        )


_OWN: Mapping[Mode, str] = {
    Mode.CONFIG: "config",
    Mode.SWITCHBOX: "manager",
    Mode.LABELS: "labels",
    Mode.FABRIC: "fabric",
}
"""The source of which each mode is made."""


def refusal_of_precedence(
    words: Sequence[str], mode: Mode, *, reads_labels: bool
) -> Refusal | None:
    """Return why these words are no order of sources in a mode; None where they are, or none is."""
    where, own = "--precedence", _OWN.get(mode)
    for word in words:
        if word not in STATING:
            fix = did_you_mean(word, STATING, f"choose among {', '.join(STATING)}")
            return Refusal(f"{word!r} is not a source that writes groups down", where, fix)
    if len(set(words)) < len(words):
        return Refusal("a source is named twice", where, "write each once")
    if words and own is not None and own not in words:
        return Refusal(f"{own} is missing, of which mode {mode} is made", where, f"add {own}")
    if "labels" in words and not reads_labels:
        return Refusal("no label is read", where, "say which in --group-labels, such as auto")
    if "manager" in words and mode in WITHOUT_WORKERS:
        what = f"workers join the manager's machines to nodes, and mode {mode} needs no worker"
        return Refusal(what, where, "choose another --mode, such as switchbox")
    return None

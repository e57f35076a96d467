"""One of several masters: who leads, and where the state is kept."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from master.kube.leader_election.election import LeaseTimes
from master.settings.cluster import ClusterSettings
from master.settings.listening import ListeningSettings, network_refusals
from topo.kit.durations import Seconds
from topo.kit.settings import Chart, CommaList
from topo.model.errors import Refusal

REPLICA_TOKEN = Path("/var/run/secrets/topo-master/token")
"""Where the chart puts it."""


class ReplicaSettings(ListeningSettings, ClusterSettings):
    """One of several masters: who leads, and where the state is kept."""

    state_file: Path | None = None
    """File with the last good state, so that a restart answers at once; with --state-config-maps a
    copy of it for reads while the API server cannot be asked for the state."""
    state_config_maps: Annotated[bool, Chart("topoDiscovery.master.stateConfigMaps")] = False
    """Keep the last good state in ConfigMaps of this pod's namespace."""
    state_save_interval: Annotated[Seconds, Field(ge=0.05)] = 5.0
    """The state is written at most this often, and less often if it is large."""
    leader_elect: Literal["auto", "true", "false"] = "auto"
    """Whether this is one of several masters that elect a leader by a Lease; auto: with Kubernetes,
    if the pod's name, namespace, address and the replica token are known."""
    lease_duration: Annotated[Seconds, Field(ge=5, le=3600)] = 12.0
    """How long the others wait for a silent leader. The leader itself ends 4 s earlier, and renews
    its lease four times in the time before."""
    replica_token_file: Path = REPLICA_TOKEN
    """Token that identifies masters to each other: of their service account, with the audience
    topo-master-replica, or one that all share."""

    replica_addresses: CommaList = ()
    """Addresses or networks of the other masters, where all share a token: no other address on the
    Lease is sent anything, unless it has to show the certificate of --tls-cert."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        where = "--replica-addresses"
        networks = network_refusals(where, self.replica_addresses)
        return (*self._replica_refusals(), *self._store_refusals(), *networks)

    def _replica_refusals(self) -> tuple[Refusal, ...]:
        found = []
        if self.leader_elect == "true" and self.kube_config is None:
            what, fix = "the lease is kept in Kubernetes", "give --kubernetes=on, or do not elect"
            found.append(Refusal(what, "--leader-elect", fix))
        for field, value in self._place.items() if self.leader_elect == "true" else ():
            if not value:
                what = "other masters have to know this one, and it does not say who it is"
                fix = f"set {field.removeprefix('--').replace('-', '_').upper()} from the pod's own"
                found.append(Refusal(what, field, f"{fix} fields, or do not elect"))
        if self.elects_leader and not (self.server_port and self.rpc_server_port):
            what, fix = "other masters have to know the ports", "give ports that are not 0"
            found.append(Refusal(what, "--server-port, --rpc-server-port", fix))
        return tuple(found)

    def _store_refusals(self) -> tuple[Refusal, ...]:
        if not self.state_config_maps:
            return ()
        where = "--state-config-maps"
        if self.kube_config is None or not self.pod_namespace:
            what = "ConfigMaps are kept in the pod's namespace, and there is none"
            fix = "give --kubernetes=on and POD_NAMESPACE, or --state-file"
            return (Refusal(what, where, fix),)
        if self.state_file is not None and not self.elects_leader:
            what = "the state is to be kept in two places, and this master stands for no election"
            return (Refusal(what, where, "give --leader-elect=true, or name one of them"),)
        return ()

    @property
    def kept_file(self) -> Path | None:
        """The file that keeps the state, None where ConfigMaps do or nothing does."""
        return None if self.state_config_maps else self.state_file

    @property
    def copy_file(self) -> Path | None:
        """The file for a copy of the state in ConfigMaps."""
        return self.state_file if self.state_config_maps else None

    @property
    def _place(self) -> dict[str, str]:
        return {
            "--pod-name": self.pod_name,
            "--pod-namespace": self.pod_namespace,
            "--pod-ip": self.pod_ip,
        }

    @property
    def elects_leader(self) -> bool:
        """Whether this master stands for election. Asks the disk."""
        if self.leader_elect == "auto":
            is_known = all(self._place.values()) and self.replica_token_file.exists()
            return self.kube_config is not None and is_known
        return self.leader_elect == "true"

    @property
    def lease_times(self) -> LeaseTimes:
        """How long a term is."""
        return LeaseTimes.of(self.lease_duration)

"""Settings of topo-master: the vendor's flags and environment, plus ours."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from master.controllers.nomination.queue_counts import QueuePlugin
from master.controllers.table import BY_DEFAULT, HYPERNODES, NOMINATION, ROWS
from master.kube.accounts import ACCOUNT_NAME, Wanted
from master.kube.config import KubeConfig
from master.kube.election import JITTER, WORK_ENDS_S, LeaseTimes
from master.sources.cluster_manager.settings import address_refusal
from topo.discovery.modes import JOIN_KEYS, MISSED, DiscoverySettings, Mode
from topo.discovery.sources import MANAGED
from topo.gangs.line import Order
from topo.gangs.words import Words
from topo.kit.addresses import networks
from topo.kit.durations import Seconds
from topo.kit.logs import LogSettings
from topo.kit.settings import CommaList, Env, ServiceSettings
from topo.model.errors import Refusal
from topo.model.ids import NODE, GroupName, GroupPath, Kind
from topo.model.nearest import did_you_mean
from topo.placement.booking.holds import Limits
from topo.placement.job.policy import CANONICAL_GPUS, OTHERS_SHARED, Policy
from topo.publish.names import MAX_DNS_NAME_CHARS, is_dns_name
from topo.publish.node_labels import is_label_key, label_keys

WORKER_ACCOUNT = "topo-worker"
AUDIENCE = "topo-master"
"""The same word as in the chart, where kubelet is asked for the workers' tokens."""
REPLICA_TOKEN = Path("/var/run/secrets/topo-master/token")
"""Where the chart puts it."""
_CONFIG_MAP = re.compile(r"([a-z0-9][-a-z0-9]{0,62}/)?[a-z0-9][-a-z0-9.]{0,252}")
NO_CONTROLLERS = "none"
ADMISSION = "topo-master-admission"
"""What the chart calls everything of the admission webhook."""

Port = Annotated[int, Field(ge=0, le=65535)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]


class MasterSettings(ServiceSettings, LogSettings):
    """Every field is a flag and a `TOPO_…` variable; docs/master.md is the same list."""

    mode: Mode = Mode.CONFIG
    """How groups are found: config (the file), dragonfly (workers' peers), switchbox (cluster
    manager, dragonflies inside from the workers), nvlink (clusterUuid, clique), auto (whatever the
    workers see)."""
    server_port: Port = 9001
    """Port of the HTTP API; 0 takes a free one, which the log names."""
    rpc_server_port: Port = 10001
    """Port that workers report to; 0 takes a free one, which the log names."""
    bind_address: str = ""
    """Address to listen on; all of them by default."""
    node_number: Count = 2
    """Nodes that make a complete dragonfly; a larger component is reported as a wiring fault."""
    gpus_per_node: Annotated[int, Field(ge=0, le=128)] = 0
    """GPUs a healthy node has; 0 means that nobody says."""

    config_file: Path = Path("/config/nodegroup.yaml")
    """The configured tree, read in config mode; reloaded when it changes."""
    config_poll_interval: Annotated[Seconds, Field(ge=0.05)] = 1.0
    """How often files (configuration, tokens, certificate) are looked at for a change."""

    cluster_manager_address: str = ""
    """URL of the cluster manager, such as https://10.0.0.1; needed in switchbox mode."""
    cluster_manager_poll_topo_period: Annotated[Seconds, Field(ge=0.1)] = 30.0
    """How often the cluster manager's whole topology is read."""
    cluster_manager_poll_event_period: Annotated[Seconds, Field(ge=0.1)] = 10.0
    """How often the cluster manager's events are read."""
    cluster_manager_ca_file: Path | None = None
    """PEM authorities that the cluster manager's certificate is verified against."""
    cluster_manager_insecure: bool = False
    """Do not verify the cluster manager's certificate. For trials only."""
    cluster_manager_allow_http: bool = False
    """Send credentials to the cluster manager over plain http. For trials only."""
    cluster_manager_mapping_file: Path | None = None
    """How to read a cluster manager of another shape; see docs/cluster-manager.md."""
    credentials_dir: Path = Path("/secret")
    """Directory with the files username and password for the cluster manager."""
    join_keys: CommaList = JOIN_KEYS
    """Names by which machines of the cluster manager are matched to nodes, in this order."""

    worker_token_file: Path | None = None
    """Tokens of workers, a line each: `<token>`, or `<node-name> <token>`; re-read on change."""
    allow_anonymous_workers: bool = False
    """Accept reports without a token. For trials only."""
    worker_rate_limit: Annotated[float, Field(gt=0, le=1000)] = 20.0
    """Reports per second that one worker may send before it is told to wait."""
    beat_interval: Annotated[Seconds, Field(ge=0.1, le=3600)] = 10.0
    """How often a worker that sees no change says that it is alive."""
    stale_beats: Count = 3
    """Missed beats after which a worker is stale and its node NotReady."""
    bad_readings: Count = 2
    """Readings in a row after which a GPU or link counts as bad."""
    good_readings: Count = 3
    """Readings in a row after which it counts as good again."""
    missed_hardware: CommaList = MISSED
    """What makes its node NotReady when it vanishes: gpus, their ports and links, nics."""
    max_nodes: Count = 20_000
    """Nodes that may report; one more is refused."""

    state_file: Path | None = None
    """Where the last good state is kept, so that a restart answers at once."""
    state_config_maps: bool = False
    """Keep the last good state in ConfigMaps of this pod's namespace, not in a file."""
    state_copy_file: Path | None = None
    """A file on this master's own disk that answers reads after a restart in which the API server
    cannot be asked for the state; one of several masters that keep it in ConfigMaps has it."""
    state_save_interval: Annotated[Seconds, Field(ge=0.05)] = 5.0
    """The state is written at most this often, and more seldom where it is large."""

    api_token_file: Path | None = None
    """Tokens for calls that write (holds), a line each: `<token>`, or `<name> <token>`; re-read on
    change. Without it nothing can be held; reads are open."""
    canonical_group_size: Annotated[int, Field(ge=1, le=1_000_000)] = CANONICAL_GPUS
    """GPUs of the groups whose whole copies placement keeps free for the next job."""
    reserve_groups: CommaList = ()
    """Groups of that size to keep free: `<path>=<groups>`, the path's names joined with /. They are
    used only when nothing else fits."""
    gpu_type_order: CommaList = ()
    """GPU types in the order that decides between equal placements of a job that names none."""
    extra_domains: Annotated[int, Field(ge=0, le=1_000)] = 0
    """Groups of a tier that a placement may use beyond the fewest where that keeps more groups of
    the canonical size whole."""
    max_hold: Annotated[Seconds, Field(ge=1)] = 86_400.0
    """The longest time that a placement may be held before it is committed."""
    max_holds: Count = 1000
    """Holds that there may be at once, committed ones too."""
    max_hold_pods: Count = 100_000
    """Pods that one hold may have."""
    recount_interval: Annotated[Seconds, Field(ge=1)] = 60.0
    """How often the free capacity is counted anew; a difference is logged and corrected."""
    booking_log: Path | None = None
    """Where holds, pods and nodes are recorded as they change, for `topo sim replay`."""
    tls_cert: Path | None = None
    """PEM certificate chain of this server; re-read on change."""
    tls_key: Path | None = None
    """PEM private key of this server."""
    tls_scope: Literal["all", "reports"] = "all"
    """Which ports speak TLS when a certificate is given: all of them, or reports: the workers'
    one."""
    tls_proxies: CommaList = ()
    """Addresses or networks of proxies that end TLS before this master: a token that comes from
    there is no secret in clear text."""

    queue_limit: Count = 50_000
    """Events that may wait for the engine; beyond it workers are told to come back."""
    history_limit: Count = 50_000
    """Changes that are remembered for diffs and resumed event streams."""
    history_bytes: Annotated[int, Field(ge=1 << 20, le=256 << 20)] = 16 << 20
    """Memory for moments of the tree that are kept for longer, packed; the oldest go."""
    history_age: Annotated[Seconds, Field(ge=60)] = 7 * 86400.0
    """How long such a moment is kept."""
    event_stream_limit: Count = 256
    """Event streams that may be open at once."""
    connection_limit: Count = 2048
    """Connections that the port of the API holds at once; beyond it the one that has been idle
    longest is closed."""
    unread_limit: Annotated[int, Field(ge=1024 * 1024)] = 64 * 1024 * 1024
    """Bytes of answers of the API that wait for their readers; beyond it the slowest are cut."""
    group_metrics: bool = False
    """Whether /metrics has a series for each group; there may be thousands."""

    pod_name: Annotated[str, Env("POD_NAME")] = ""
    """This pod's name."""
    pod_namespace: Annotated[str, Env("POD_NAMESPACE")] = ""
    """This pod's namespace."""
    deployment_name: str = ""
    """Deployment that this pod belongs to, on which lost sources are told as Events; else on the
    pod."""
    pod_ip: Annotated[str, Env("POD_IP")] = ""
    """This pod's address, at which other masters reach this one."""
    kubernetes: Literal["auto", "on", "off"] = "auto"
    """Whether this master works with Kubernetes; auto: in a pod with a service account, or with a
    kubeconfig."""
    kubeconfig: Path | None = None
    """File by which Kubernetes is found and asked; without it, by the pod's service account."""
    kube_qps: Annotated[float, Env("CLIENT_GO_QPS"), Field(gt=0)] = 100.0
    """Requests per second to Kubernetes; watches and the lease do not wait for it."""
    kube_burst: Annotated[int, Env("CLIENT_GO_BURST", "CLIENT_GO_BRUST"), Field(gt=0)] = 100
    """Requests to Kubernetes in one go. The vendor writes BRUST."""
    gang_qps: Annotated[float, Field(gt=0)] = 400.0
    """Requests per second to Kubernetes by which gangs are placed, besides `--kube-qps`."""
    gang_burst: Annotated[int, Field(gt=0)] = 400
    """Such requests in one go."""
    gpu_resources: CommaList = ()
    """Resources of nodes and pods that are whole GPUs, of which the first that a node has counts;
    `<domain>/gpu` and `nvidia.com/gpu` unless given."""
    node_usage_key: str = ""
    """Label and taint of nodes that say what they are for (training, inference, hybrid);
    `<domain>/node.usage` unless given."""
    device_config_map: str = "metax-device-config"
    """The vendor's ConfigMap that says which nodes share their cards: `<name>` in the namespace of
    this pod, or `<namespace>/<name>`. One that is not there says nothing."""
    worker_token_audience: str = AUDIENCE
    """Audience of the service-account tokens by which Kubernetes says who a worker is."""
    worker_service_account: str = ""
    """Service account of the workers, namespace:name; else topo-worker in this pod's namespace."""
    domain: str = "metax-tech.com"
    """Prefix of the labels and annotations that this master writes in Kubernetes."""
    controllers: CommaList = BY_DEFAULT
    """What this master writes in Kubernetes while it leads: labels and annotations of nodes,
    hypernodes of Volcano, events, nomination of the nodes of gangs; or none."""
    gang_order: Order = Order.RESERVE
    """What gangs behind the first one that does not fit may do: reserve (start where they do not
    delay it), fifo (wait for it), greedy (start where there is room)."""
    gate_timeout: Annotated[Seconds, Field(ge=0)] = 900.0
    """After so long in which nobody places gangs, though a master lives and hears the API server,
    the gates of their pods are opened without a plan; 0: never."""
    preempt_after: Seconds = 0.0
    """After this time in line a gang is opened to its scheduler over pods of lower priority, where
    evicting them costs the least; the scheduler evicts, if it is set up to; 0: never."""
    queue_plugin: QueuePlugin = QueuePlugin.PROPORTION
    """Volcano's plugin that keeps queues, as its scheduler's configuration names it: proportion (a
    gang waits for its queue's share by weight) or capacity (it does not)."""
    label_names: CommaList = ()
    """Labels that are called otherwise than `<domain>/<kind>`: `<kind>=<label>`, such as
    dragonfly=example.com/pair."""

    placement: Literal["off", "nomination", "native"] = "off"
    """What is done for jobs that ask for groups: nomination (an admission webhook marks them and
    has their pods wait for a plan), native (it asks Volcano, whose scheduler chooses by HyperNodes;
    a job may name the other way), or off: nothing."""
    volcano_config_map: str = "volcano-system/volcano-scheduler-configmap"
    """ConfigMap with the configuration of Volcano's scheduler, `<namespace>/<name>`: without its
    plugin network-topology-aware it ignores what a native job asks for."""
    admission_port: Port = 9443
    """Port of the admission webhook, HTTPS; 0 takes a free one, which the log names."""
    admission_invalid: Literal["warn", "deny"] = "warn"
    """What becomes of a job whose groups cannot be: warn: it runs without, or deny: it is refused
    with 422 and the fix."""
    admission_certificates: Literal["own", "external"] = "own"
    """Who makes and renews the webhook's certificates: the leading master, or somebody else, such
    as cert-manager."""
    admission_certificate_life: Annotated[Seconds, Field(ge=600)] = 90 * 86400.0
    """How long a certificate of our own is valid; it is renewed after two thirds of that."""
    admission_secret: str = ADMISSION
    """Secret of this pod's namespace that holds the webhook's certificate."""
    admission_service: str = ADMISSION
    """Service by which API servers reach the webhook; its certificate names it."""
    admission_configuration: str = ADMISSION
    """MutatingWebhookConfiguration that is told which authority to trust."""

    leader_elect: Literal["auto", "true", "false"] = "auto"
    """Whether this is one of several masters, of which one leads by a Lease; auto: with Kubernetes
    where the pod's name, namespace and address are known, and the token is there."""
    lease_duration: Annotated[Seconds, Field(ge=1, le=3600)] = 12.0
    """How long a leader that is silent is respected by the others."""
    renew_deadline: Annotated[Seconds, Field(gt=0)] = 8.0
    """A leader that could not renew its lease for so long ends."""
    retry_period: Annotated[Seconds, Field(ge=0.1)] = 2.0
    """How often the lease is renewed, and looked at; no call about it takes longer."""
    replica_token_file: Path = REPLICA_TOKEN
    """Token by which masters know each other: of their service account, with the audience
    topo-master-replica, or one that all share."""
    replica_poll_interval: Annotated[Seconds, Field(ge=0.1)] = 1.0
    """How often a follower asks the leader whether its state has changed."""

    def refusals(self) -> tuple[Refusal, ...]:
        """What is wrong between fields, or with files that must be there from the start."""
        return (
            *self._join_key_refusals(),
            *self._missed_refusals(),
            *self._manager_refusals(),
            *self._tls_refusals(),
            *self._proxy_refusals(),
            *self._reserve_refusals(),
            *self._kubernetes_refusals(),
            *self._replica_refusals(),
            *self._store_refusals(),
            *self._admission_refusals(),
        )

    def _join_key_refusals(self) -> tuple[Refusal, ...]:
        wrong = [key for key in self.join_keys if key not in JOIN_KEYS]
        if wrong:
            fix = did_you_mean(wrong[0], JOIN_KEYS, f"choose among {', '.join(JOIN_KEYS)}")
            return (Refusal(f"{wrong[0]!r} is no join key", "--join-keys", fix),)
        if not self.join_keys or len(set(self.join_keys)) < len(self.join_keys):
            fix = "name each key once, at least one"
            return (Refusal("the join keys are empty or repeat", "--join-keys", fix),)
        return ()

    def _missed_refusals(self) -> tuple[Refusal, ...]:
        wrong = [kind for kind in self.missed_hardware if kind not in MISSED]
        fix = did_you_mean(wrong[0] if wrong else "", MISSED, f"choose among {', '.join(MISSED)}")
        what = "is no hardware that can be missed"
        return tuple(Refusal(f"{kind!r} {what}", "--missed-hardware", fix) for kind in wrong[:1])

    def _manager_refusals(self) -> tuple[Refusal, ...]:
        if not MANAGED.is_used_in(self.mode):
            return ()
        if not self.cluster_manager_address:
            what = f"mode {self.mode} needs a cluster manager and there is no address"
            fix = "give its URL, such as https://10.0.0.1"
            return (Refusal(what, "--cluster-manager-address", fix),)
        allow_http = self.cluster_manager_allow_http
        refused = address_refusal(self.cluster_manager_address, allow_http=allow_http)
        return () if refused is None else (refused,)

    def _tls_refusals(self) -> tuple[Refusal, ...]:
        if (self.tls_cert is None) == (self.tls_key is None):
            return ()
        given, missing = (
            ("--tls-cert", "--tls-key") if self.tls_cert else ("--tls-key", "--tls-cert")
        )
        return (Refusal(f"{given} is given without {missing}", missing, f"give {missing} too"),)

    def _proxy_refusals(self) -> tuple[Refusal, ...]:
        try:
            networks(self.tls_proxies)
        except ValueError as error:
            fix = "write addresses or networks, such as 10.0.0.7,10.1.0.0/16"
            return (Refusal(f"that is no network: {error}", "--tls-proxies", fix),)
        return ()

    def _reserve_refusals(self) -> tuple[Refusal, ...]:
        fix = "write <path>=<groups>, such as switchbox-1=2 or switchbox-1/dragonfly-3=1"
        wrong = [text for text in self.reserve_groups if _reserve(text) is None]
        return tuple(
            Refusal(f"{text!r} is no reserve", "--reserve-groups", fix) for text in wrong[:1]
        )

    def _kubernetes_refusals(self) -> tuple[Refusal, ...]:
        found = []
        if self.kubernetes == "on" and not self._kube_config.is_given:
            what = "this is no pod with a service account, and there is no kubeconfig"
            fix = "give --kubeconfig=FILE, or --kubernetes=off"
            found.append(Refusal(what, "--kubernetes", fix))
        account = self.worker_service_account
        if account and not ACCOUNT_NAME.fullmatch(account):
            fix = "write namespace:name, such as topo:topo-worker"
            what = f"{account!r} is no service account"
            found.append(Refusal(what, "--worker-service-account", fix))
        longest, _, _ = Words(self.domain).node_label("").partition("/")
        if not is_dns_name(longest):
            most = MAX_DNS_NAME_CHARS - (len(longest) - len(self.domain))
            fix = "write a DNS name in small letters, such as metax-tech.com,"
            fix += f" of {most} characters at most"
            found.append(Refusal(f"{self.domain!r} is no prefix of labels", "--domain", fix))
        if not _CONFIG_MAP.fullmatch(self.device_config_map):
            fix = "write <name> or <namespace>/<name>, such as metax/metax-device-config"
            what = f"{self.device_config_map!r} is no name of a ConfigMap"
            found.append(Refusal(what, "--device-config-map", fix))
        return (*found, *self._controller_refusals(), *self._label_refusals())

    def _controller_refusals(self) -> tuple[Refusal, ...]:
        names = (*ROWS, NO_CONTROLLERS)
        wrong = [name for name in self.controllers if name not in names]
        if wrong:
            fix = did_you_mean(wrong[0], names, f"choose among {', '.join(names)}")
            return (Refusal(f"{wrong[0]!r} is no controller", "--controllers", fix),)
        if NO_CONTROLLERS in self.controllers and len(self.controllers) > 1:
            fix = f"write {NO_CONTROLLERS}, or the names of those that are wanted"
            what = f"{NO_CONTROLLERS} stands beside other names"
            return (Refusal(what, "--controllers", fix),)
        return ()

    def _label_refusals(self) -> tuple[Refusal, ...]:
        where, fix = "--label-names", "write <kind>=<label>, such as dragonfly=example.com/pair"
        pairs = [_label_name(text) for text in self.label_names]
        wrong = [text for text, pair in zip(self.label_names, pairs, strict=True) if pair is None]
        if wrong:
            return (Refusal(f"{wrong[0]!r} names no label that Kubernetes takes", where, fix),)
        if len({pair[0] for pair in pairs if pair}) < len(pairs):
            return (Refusal("a kind has two labels", where, "name each kind once"),)
        if len(set(self.label_keys.values())) < len(self.label_keys):
            fix = "give each kind a label of its own"
            return (Refusal("two kinds have one label", where, fix),)
        return ()

    @property
    def label_keys(self) -> Mapping[Kind, str]:
        """The label of each kind of group."""
        pairs = (_label_name(text) for text in self.label_names)
        return label_keys(self.domain, dict(pair for pair in pairs if pair is not None))

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
        if not self.lease_times.is_safe:
            times = (self.lease_duration, self.renew_deadline, self.retry_period)
            given = ", ".join(f"{time:g}s" for time in times)
            what = (
                f"with {given} what a leader wrote may come beside the next one, or it tries once"
            )
            where = "--lease-duration, --renew-deadline, --retry-period"
            fix = f"let the first be more than the second and {WORK_ENDS_S:g}s, and the second "
            fix += f"more than {1 + JITTER:g} times the third, such as 12s, 8s, 2s"
            found.append(Refusal(what, where, fix))
        return tuple(found)

    def _store_refusals(self) -> tuple[Refusal, ...]:
        if self.state_copy_file is not None and not self._has_copy:
            what = "the copy is of what a master that stands for election keeps in ConfigMaps"
            fix = "give --state-config-maps and --leader-elect=true; else --state-file is enough"
            return (Refusal(what, "--state-copy-file", fix),)
        if not self.state_config_maps:
            return ()
        where = "--state-config-maps"
        if self.state_file is not None:
            return (Refusal("the state is to be kept in two places", where, "name one of them"),)
        if self.kube_config is None or not self.pod_namespace:
            what = "ConfigMaps are kept in the pod's namespace, and there is none"
            fix = "give --kubernetes=on and POD_NAMESPACE, or --state-file"
            return (Refusal(what, where, fix),)
        return ()

    def _admission_refusals(self) -> tuple[Refusal, ...]:
        if self.placement == "off":
            return ()
        if self.kube_config is None or not self.pod_namespace:
            what = "jobs of Kubernetes are placed through a webhook of the pod's namespace"
            fix = "give --kubernetes=on and POD_NAMESPACE, or --placement=off"
            return (Refusal(what, "--placement", fix),)
        if NOMINATION not in self.controllers:
            what = "the webhook would gate pods, and no controller opens their gates"
            fix = f"name {NOMINATION} among them, or give --placement=off"
            return (Refusal(what, "--controllers", fix),)
        if self.placement == "native" and HYPERNODES not in self.controllers:
            what = "Volcano would choose by HyperNodes, and no controller writes them"
            fix = f"name {HYPERNODES} among them, or give --placement={NOMINATION}"
            return (Refusal(what, "--controllers", fix),)
        if not _CONFIG_MAP.fullmatch(self.volcano_config_map) or "/" not in self.volcano_config_map:
            fix = "write <namespace>/<name>, such as volcano-system/volcano-scheduler-configmap"
            what = f"{self.volcano_config_map!r} is no ConfigMap of a namespace"
            return (Refusal(what, "--volcano-config-map", fix),)
        fix = "write a name of Kubernetes in small letters, such as topo-master-admission"
        return tuple(
            Refusal(f"{name!r} is no name of an object", f"--admission-{of}", fix)
            for of, name in (
                ("secret", self.admission_secret),
                ("service", self.admission_service),
                ("configuration", self.admission_configuration),
            )
            if not is_dns_name(name)
        )

    @property
    def _has_copy(self) -> bool:
        return self.state_config_maps and self.elects_leader

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
        return LeaseTimes(
            duration_s=self.lease_duration,
            renew_deadline_s=self.renew_deadline,
            retry_s=self.retry_period,
        )

    @property
    def worker_account(self) -> Wanted | None:
        """Which account in Kubernetes is that of the workers; None where nobody says."""
        name = self.worker_service_account
        if not name and self.pod_namespace:
            name = f"{self.pod_namespace}:{WORKER_ACCOUNT}"
        if not name:
            return None
        return Wanted(account=name, audience=self.worker_token_audience, on_node=True)

    @property
    def _kube_config(self) -> KubeConfig:
        return KubeConfig(kubeconfig=self.kubeconfig)

    @property
    def kube_config(self) -> KubeConfig | None:
        """How Kubernetes is found and asked; None without it. Asks the disk."""
        config = self._kube_config
        is_on = self.kubernetes == "on" or (self.kubernetes == "auto" and config.is_given)
        return config if is_on else None

    @property
    def volcano_config(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap of Volcano's scheduler."""
        namespace, _, name = self.volcano_config_map.partition("/")
        return namespace, name

    @property
    def device_config(self) -> tuple[str, str] | None:
        """Namespace and name of the vendor's ConfigMap of devices; None where none is read."""
        namespace, _, name = self.device_config_map.rpartition("/")
        namespace = namespace or self.pod_namespace
        return (namespace, name) if namespace and name else None

    @property
    def policy(self) -> Policy:
        """What the operator decides about placement."""
        reserves = (_reserve(text) for text in self.reserve_groups)
        domain = self.domain
        return Policy(
            canonical_gpus=self.canonical_group_size,
            reserves=tuple(reserve for reserve in reserves if reserve is not None),
            gpu_types=self.gpu_type_order,
            extra_domains=self.extra_domains,
            domain=domain,
            gpu_resources=self.gpu_resources or (f"{domain}/gpu", "nvidia.com/gpu"),
            usage_key=self.node_usage_key or f"{domain}/node.usage",
            hold_key=f"{domain}/hold",
            shared_resources=(f"{domain}/sgpu", *OTHERS_SHARED),
        )

    @property
    def hold_limits(self) -> Limits:
        """How much may be held."""
        return Limits(self.max_holds, self.max_hold, self.max_hold_pods)

    @property
    def discovery(self) -> DiscoverySettings:
        """The numbers that the discovery core judges by."""
        return DiscoverySettings(
            mode=self.mode,
            node_number=self.node_number,
            gpus_per_node=self.gpus_per_node,
            beat_s=self.beat_interval,
            stale_beats=self.stale_beats,
            bad_readings=self.bad_readings,
            good_readings=self.good_readings,
            missed=self.missed_hardware,
            join_keys=self.join_keys,
        )


def _label_name(text: str) -> tuple[Kind, str] | None:
    """`dragonfly=example.com/pair` as a kind and a label; None for another text."""
    kind, _, key = text.partition("=")
    return (Kind(kind), key) if kind and kind != NODE and is_label_key(key) else None


def _reserve(text: str) -> tuple[GroupPath, int] | None:
    """`switchbox-1/dragonfly-3=2` as a path and a number; None for another text."""
    path, _, number = text.rpartition("=")
    names = path.split("/")
    if not all(names) or not (number.isascii() and number.isdigit()) or len(number) > 6:
        return None
    return GroupPath(tuple(map(GroupName, names))), int(number)

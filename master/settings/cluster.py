"""What this master has of Kubernetes, and what it writes there."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from master.controllers.names import (
    BY_DEFAULT,
    HYPERNODE_ANNOTATIONS,
    HYPERNODES,
    NAMES,
    NODE_FEATURES,
    NOMINATION,
    OF_GANGS,
)
from master.kube.credentials.config import KubeConfig
from master.kube.service_accounts.accounts import Wanted
from topo.gangs.annotation_keys import AnnotationKeys
from topo.kit.settings import Chart, CommaList, Env, ServiceSettings
from topo.model.errors import Refusal
from topo.model.ids import NODE, Kind
from topo.model.nearest import did_you_mean
from topo.publish.names import MAX_DNS_NAME_CHARS, is_dns_name
from topo.publish.node_labels import is_label_key, label_keys

WORKER_ACCOUNT = "topo-worker"
"""Service account of the workers, in the masters' namespace: the chart makes both."""
AUDIENCE = "topo-master"
"""Audience of the workers' tokens: the chart asks kubelet for it."""
CONFIG_MAP = re.compile(r"([a-z0-9][-a-z0-9]{0,62}/)?[a-z0-9][-a-z0-9.]{0,252}")
NO_CONTROLLERS = "none"


class ClusterSettings(ServiceSettings):
    """What this master has of Kubernetes, and what it writes there."""

    pod_name: Annotated[str, Env("POD_NAME")] = ""
    """This pod's name."""
    pod_namespace: Annotated[str, Env("POD_NAMESPACE")] = ""
    """This pod's namespace; the account of workers there, topo-worker, may report."""
    pod_ip: Annotated[str, Env("POD_IP")] = ""
    """This pod's address, where other masters reach this one."""
    kubernetes: Literal["auto", "on", "off"] = "auto"
    """Whether this master works with Kubernetes; auto: in a pod with a service account, or with a
    kubeconfig."""
    kubeconfig: Path | None = None
    """How to reach the API server and with which credentials; without it the pod's service account
    is used."""
    kube_qps: Annotated[float, Env("CLIENT_GO_QPS"), Field(gt=0)] = 100.0
    """Requests per second to Kubernetes. Watches and the lease are not limited; calls that place
    gangs have four times this rate of their own."""
    kube_burst: Annotated[int, Env("CLIENT_GO_BURST", "CLIENT_GO_BRUST"), Field(gt=0)] = 100
    """Requests to Kubernetes at once; of calls that place gangs, four times as many. The vendor
    writes BRUST."""
    device_config_map: Annotated[str, Chart("topoDiscovery.master.deviceConfigMap")] = (
        "metax-device-config"
    )
    """The vendor's ConfigMap that says which nodes share their cards: `<name>` in this pod's
    namespace, or `<namespace>/<name>`. It need not exist."""
    domain: Annotated[str, Chart("domain")] = "metax-tech.com"
    """Prefix of the labels and annotations that the masters write in Kubernetes."""
    controllers: Annotated[CommaList, Chart("topoDiscovery.master.controllers", is_plain=False)] = (
        BY_DEFAULT
    )
    """What the leader writes in Kubernetes: labels and annotations of nodes, HyperNodes of Volcano,
    Events, nominations of gangs' pods, objects and Kubernetes' own PodGroups of gangs, taints of
    broken GPUs, taints, conditions and annotations of what cannot be trusted, topologies of Kueue,
    KAI and Koordinator, objects of NFD; or none."""
    device_taint_effect: Annotated[
        Literal["None", "NoSchedule", "NoExecute"], Chart("topoDiscovery.master.deviceTaintEffect")
    ] = "None"
    """What the taint of a broken GPU does, with the controller device-taints: None (it only shows),
    NoSchedule (no new claim gets the GPU), NoExecute (pods that have it are deleted, too)."""
    label_names: Annotated[CommaList, Chart("topoDiscovery.master.labelNames", is_plain=False)] = ()
    """Labels of kinds of groups where they are not `<domain>/<kind>`: `<kind>=<label>`, such as
    dragonfly=example.com/pair."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        found = []
        if self.kubernetes == "on" and not self._kube_config.is_given:
            what = "this is no pod with a service account, and there is no kubeconfig"
            fix = "give --kubeconfig=FILE, or --kubernetes=off"
            found.append(Refusal(what, "--kubernetes", fix))
        longest, _, _ = AnnotationKeys(self.domain).node_label_prefix.partition("/")
        if not is_dns_name(longest):
            most = MAX_DNS_NAME_CHARS - (len(longest) - len(self.domain))
            fix = "write a DNS name in small letters, such as metax-tech.com,"
            fix += f" of {most} characters at most"
            found.append(Refusal(f"{self.domain!r} is not a prefix of labels", "--domain", fix))
        if not CONFIG_MAP.fullmatch(self.device_config_map):
            fix = "write <name> or <namespace>/<name>, such as metax/metax-device-config"
            what = f"{self.device_config_map!r} is not a name of a ConfigMap"
            found.append(Refusal(what, "--device-config-map", fix))
        return (*found, *self._controller_refusals(), *self._label_refusals())

    def _controller_refusals(self) -> tuple[Refusal, ...]:
        names = (*NAMES, NO_CONTROLLERS)
        wrong = [name for name in self.controllers if name not in names]
        if wrong:
            fix = did_you_mean(wrong[0], names, f"choose among {', '.join(names)}")
            return (Refusal(f"{wrong[0]!r} is not a controller", "--controllers", fix),)
        if NO_CONTROLLERS in self.controllers and len(self.controllers) > 1:
            fix = f"write {NO_CONTROLLERS}, or the names of those that are wanted"
            what = f"{NO_CONTROLLERS} is given beside other names"
            return (Refusal(what, "--controllers", fix),)
        of_gangs = [name for name in OF_GANGS if name in self.controllers]
        if of_gangs and NOMINATION not in of_gangs:
            fix = f"name {NOMINATION} among them, too"
            what = f"{of_gangs[0]} is for the gangs of {NOMINATION}, which is not on"
            return (Refusal(what, "--controllers", fix),)
        if HYPERNODE_ANNOTATIONS in self.controllers and HYPERNODES not in self.controllers:
            fix = f"name {HYPERNODES} among them, too"
            what = f"{HYPERNODE_ANNOTATIONS} is for the objects of {HYPERNODES}, which is not on"
            return (Refusal(what, "--controllers", fix),)
        if NODE_FEATURES in self.controllers and not self.pod_namespace:
            fix = "give --pod-namespace, the one in which the objects are to be"
            return (Refusal(f"{NODE_FEATURES} writes in no namespace", "--controllers", fix),)
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

    @property
    def worker_account(self) -> Wanted | None:
        """Which account in Kubernetes is that of the workers; None without a namespace."""
        if not self.pod_namespace:
            return None
        account = f"{self.pod_namespace}:{WORKER_ACCOUNT}"
        return Wanted(account=account, audience=AUDIENCE, on_node=True)

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
    def device_config(self) -> tuple[str, str] | None:
        """Namespace and name of the vendor's ConfigMap of devices; None where none is read."""
        namespace, _, name = self.device_config_map.rpartition("/")
        namespace = namespace or self.pod_namespace
        return (namespace, name) if namespace and name else None


def _label_name(text: str) -> tuple[Kind, str] | None:
    """`dragonfly=example.com/pair` as a kind and a label; None for another text."""
    kind, _, key = text.partition("=")
    return (Kind(kind), key) if kind and kind != NODE and is_label_key(key) else None

"""The port that schedulers ask, and the quota of cards that is kept there."""

from pathlib import Path
from typing import Annotated, Literal

from master.controllers.names import NOMINATION
from master.settings.jobs import JobSettings
from master.settings.listening import ListeningSettings
from topo.kit.settings import Chart, CommaList, Port
from topo.model.errors import Refusal
from topo.publish.node_labels import is_label_key

QUOTA_KEY = "gpu_quota"
"""The key of the ConfigMap that holds the quotas. Source: `QuotaConfigKey`, tkestack/gpu-admission
d571857, pkg/predicate/gpu_predicate.go; the other names and defaults are of that file, too."""


class ExtenderSettings(ListeningSettings, JobSettings):
    """The port that schedulers ask, and the quota of cards that is kept there."""

    extender: Annotated[Literal["off", "on"], Chart("extender.enabled", is_plain=False)] = "off"
    """Whether kube-scheduler may ask where each pod goes: for clusters without the webhook, so it
    excludes --placement=nomination and native."""
    extender_port: Annotated[Port, Chart("extender.port")] = 3456
    """Port of the extender; that of GPUManager's gpu-admission."""
    extender_tls_cert: Annotated[Path | None, Chart("extender.tls.secret", is_plain=False)] = None
    """PEM certificate chain of the extender; read again when it changes. By default that of the
    API, where it speaks TLS."""
    extender_tls_key: Annotated[Path | None, Chart("extender.tls.secret", is_plain=False)] = None
    """PEM private key of the extender."""
    extender_client_ca: Annotated[
        Path | None, Chart("extender.tls.clientCaConfigMap", is_plain=False)
    ] = None
    """PEM file of the authorities whose clients may ask the extender; read again when it changes.
    Without it anybody who reaches the port may."""
    extender_client_names: Annotated[CommaList, Chart("extender.tls.clientNames")] = ()
    """Names of the clients that may ask, such as system:kube-scheduler: common names or DNS names
    in their certificates. Without any each that the authority signed may."""
    gpu_quota_config_map: Annotated[str, Chart("extender.quota.configMap")] = "kube-system/gpuquota"
    """ConfigMap with the quota of each namespace, `<namespace>/<name>`; it need not exist."""
    gpu_model_label: Annotated[str, Chart("extender.quota.modelLabel")] = (
        "gaia.tencent.com/gpu-model"
    )
    """Node label with the model of the cards, as quotas name it; tkestack.io/gpu-model in the
    documentation of gpu-admission."""
    gpu_pool_label: Annotated[str, Chart("extender.quota.poolLabel")] = "gaia.tencent.com/gpu-pool"
    """Node label with the pool, as quotas name it."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        if self.extender == "off":
            return ()
        if self.kube_config is None:
            what, fix = "pods are read from Kubernetes", "give --kubernetes=on, or --extender=off"
            return (Refusal(what, "--extender", fix),)
        if self.placement != "off":
            what = f"jobs with groups are placed by --placement={self.placement} already"
            return (Refusal(what, "--extender", "leave one of them off"),)
        if NOMINATION in self.controllers:
            what = f"{NOMINATION} places the pods that schedulers ask about, too"
            return (Refusal(what, "--controllers", "leave it out, or give --extender=off"),)
        return (*self._tls_file_refusals(), *self._quota_refusals())

    def _tls_file_refusals(self) -> tuple[Refusal, ...]:
        cert, key = "--extender-tls-cert", "--extender-tls-key"
        if (self.extender_tls_cert is None) != (self.extender_tls_key is None):
            given, missing = (cert, key) if self.extender_tls_cert else (key, cert)
            what = f"{given} is given without {missing}"
            return (Refusal(what, missing, f"give {missing} too"),)
        if self.extender_client_ca is not None and self.extender_pair is None:
            what = (
                "certificates of clients are shown over TLS, and the port of the extender has none"
            )
            fix = f"give {cert} and {key}, or --tls-cert and --tls-key with --tls-scope=all"
            return (Refusal(what, "--extender-client-ca", fix),)
        if self.extender_client_names and self.extender_client_ca is None:
            what = "names of clients are those of certificates that an authority signed"
            return (Refusal(what, "--extender-client-names", "give --extender-client-ca too"),)
        return ()

    def _quota_refusals(self) -> tuple[Refusal, ...]:
        namespace, _, name = self.gpu_quota_config_map.partition("/")
        if not (namespace and name):
            fix = "write <namespace>/<name>, such as kube-system/gpuquota"
            what = f"{self.gpu_quota_config_map!r} is not a ConfigMap of a namespace"
            return (Refusal(what, "--gpu-quota-config-map", fix),)
        return tuple(
            Refusal(
                f"{key!r} is not a label of Kubernetes", flag, "write one such as example.com/pool"
            )
            for flag, key in (
                ("--gpu-model-label", self.gpu_model_label),
                ("--gpu-pool-label", self.gpu_pool_label),
            )
            if not is_label_key(key)
        )

    @property
    def extender_pair(self) -> tuple[Path, Path] | None:
        """Certificate and key of the extender's port; None where it speaks plain HTTP."""
        if self.extender_tls_cert is not None and self.extender_tls_key is not None:
            return self.extender_tls_cert, self.extender_tls_key
        if self.tls_cert is None or self.tls_key is None or self.tls_scope != "all":
            return None
        return self.tls_cert, self.tls_key

    @property
    def gpu_quota(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap of quotas."""
        namespace, _, name = self.gpu_quota_config_map.partition("/")
        return namespace, name

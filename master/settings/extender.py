"""The port that schedulers ask, and the quota of cards that is kept there."""

from typing import Annotated, Literal

from master.controllers.names import NOMINATION
from master.settings.jobs import JobSettings
from topo.kit.settings import Chart, Port
from topo.model.errors import Refusal
from topo.publish.node_labels import is_label_key

QUOTA_KEY = "gpu_quota"
"""The key of the ConfigMap that holds the quotas. Source: `QuotaConfigKey`, tkestack/gpu-admission
d571857, pkg/predicate/gpu_predicate.go; the other names and defaults are of that file, too."""


class ExtenderSettings(JobSettings):
    """The port that schedulers ask, and the quota of cards that is kept there."""

    extender: Annotated[Literal["off", "on"], Chart("extender.enabled", is_plain=False)] = "off"
    """Whether kube-scheduler may ask where each pod goes: for clusters without the webhook, so it
    excludes --placement=nomination and native."""
    extender_port: Annotated[Port, Chart("extender.port")] = 3456
    """Port of the extender; that of GPUManager's gpu-admission."""
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
    def gpu_quota(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap of quotas."""
        namespace, _, name = self.gpu_quota_config_map.partition("/")
        return namespace, name

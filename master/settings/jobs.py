"""How jobs that ask for groups are placed, and the admission webhook that marks them."""

from typing import Annotated, Literal

from pydantic import Field

from master.controllers.names import HYPERNODES, KUEUE_WORKLOADS, NOMINATION
from master.controllers.nomination.queues.usage import QueuePlugin
from master.settings.cluster import CONFIG_MAP, ClusterSettings
from topo.gangs.machine.pending_queue import QueueOrder
from topo.kit.durations import Seconds
from topo.kit.settings import Chart, Port
from topo.model.errors import Refusal


class JobSettings(ClusterSettings):
    """How jobs that ask for groups are placed, and the admission webhook that marks them."""

    placement: Annotated[Literal["off", "nomination", "native"], Chart("placement.mode")] = "off"
    """How jobs that ask for groups are placed: nomination (an admission webhook marks them and
    their pods wait for a plan) or native (Volcano's scheduler chooses by HyperNodes; a job may name
    the other way). The flag's `off` is the chart's `placement.enabled: false`."""
    gang_order: Annotated[QueueOrder, Chart("placement.order")] = QueueOrder.RESERVE
    """What gangs behind the first one that does not fit may do: reserve (start if they do not delay
    it), fifo (wait for it), greedy (start if they fit)."""
    gate_timeout: Annotated[Seconds, Field(ge=0), Chart("placement.gateTimeout")] = 900.0
    """If no master places gangs for so long, although one is alive and hears the API server, the
    gates of their pods are opened without a plan; 0: never."""
    preempt_after: Annotated[Seconds, Chart("placement.preemptAfter")] = 0.0
    """After this time in the queue a gang is left to its scheduler on the nodes where evicting pods
    of lower priority costs the least; the scheduler evicts if it is configured to; 0: never."""
    queue_plugin: Annotated[QueuePlugin, Chart("placement.queuePlugin")] = QueuePlugin.PROPORTION
    """Volcano's plugin that keeps queues, as its scheduler's configuration names it: proportion (a
    gang waits for its queue's share by weight) or capacity (it does not)."""
    hold_before_quota: Annotated[bool, Chart("placement.holdBeforeQuota")] = False
    """Whether jobs in queues of Kueue wait for whole groups before they take quota; needs Kueue
    0.19 and the controller kueue-workloads."""
    volcano_config_map: Annotated[str, Chart("placement.volcanoConfigMap")] = (
        "volcano-system/volcano-scheduler-configmap"
    )
    """ConfigMap with the configuration of Volcano's scheduler, `<namespace>/<name>`. Without its
    plugin network-topology-aware the scheduler ignores what a native job asks for."""
    admission_port: Annotated[Port, Chart("placement.port")] = 9443
    """Port of the admission webhook, HTTPS."""
    admission_invalid: Annotated[Literal["warn", "deny"], Chart("placement.invalid")] = "warn"
    """What happens to a job with an invalid request for groups: warn (it runs without groups) or
    deny (it is refused with 422 and the fix)."""
    admission_certificates: Annotated[
        Literal["own", "external"], Chart("placement.certManager.issuer", is_plain=False)
    ] = "own"
    """Who makes and renews the webhook's certificate: own (the leading master) or external, such as
    cert-manager."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        if self.placement == "off":
            return ()
        if self.kube_config is None or not self.pod_namespace:
            what = "jobs of Kubernetes are placed through a webhook of the pod's namespace"
            fix = "give --kubernetes=on and POD_NAMESPACE, or --placement=off"
            return (Refusal(what, "--placement", fix),)
        if not CONFIG_MAP.fullmatch(self.volcano_config_map) or "/" not in self.volcano_config_map:
            fix = "write <namespace>/<name>, such as volcano-system/volcano-scheduler-configmap"
            what = f"{self.volcano_config_map!r} is not a ConfigMap of a namespace"
            return (Refusal(what, "--volcano-config-map", fix),)
        return self._missing_controller()

    def _missing_controller(self) -> tuple[Refusal, ...]:
        if NOMINATION not in self.controllers:
            what = "the webhook would gate pods, and no controller opens their gates"
            fix = f"name {NOMINATION} among them, or give --placement=off"
            return (Refusal(what, "--controllers", fix),)
        if self.hold_before_quota and KUEUE_WORKLOADS not in self.controllers:
            what = "jobs would be held before their quota, and no controller lets them go"
            fix = f"name {KUEUE_WORKLOADS} among them, or give --hold-before-quota=false"
            return (Refusal(what, "--controllers", fix),)
        if self.placement == "native" and HYPERNODES not in self.controllers:
            what = "Volcano would choose by HyperNodes, and no controller writes them"
            fix = f"name {HYPERNODES} among them, or give --placement={NOMINATION}"
            return (Refusal(what, "--controllers", fix),)
        return ()

    @property
    def volcano_config(self) -> tuple[str, str]:
        """Namespace and name of the ConfigMap of Volcano's scheduler."""
        namespace, _, name = self.volcano_config_map.partition("/")
        return namespace, name

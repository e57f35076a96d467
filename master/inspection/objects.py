"""Slim models of workloads and their pods. Fields: API reference of Kubernetes v1.36."""

from dataclasses import field

from master.kube.objects import BareObject, Metadata, ObjectCondition, Resource
from master.kube.schema.slim import slim


@slim
class _Selector:
    match_labels: dict[str, str] = field(default_factory=dict)


@slim
class _Container:
    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()


@slim
class _PodSpec:
    node_name: str = ""
    node_selector: dict[str, str] = field(default_factory=dict)
    service_account_name: str = "default"
    containers: tuple[_Container, ...] = ()


@slim
class _Template:
    spec: _PodSpec = field(default_factory=_PodSpec)


@slim
class _WorkloadSpec:
    replicas: int = 1
    selector: _Selector = field(default_factory=_Selector)
    template: _Template = field(default_factory=_Template)


@slim
class _WorkloadStatus:
    """The first two are those of a Deployment, the others of a DaemonSet."""

    updated_replicas: int = 0
    ready_replicas: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0


@slim
class WorkloadResource:
    """A Deployment or a DaemonSet."""

    metadata: Metadata
    spec: _WorkloadSpec = field(default_factory=_WorkloadSpec)
    status: _WorkloadStatus = field(default_factory=_WorkloadStatus)

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of its first container."""
        containers = self.spec.template.spec.containers
        return containers[0].args if containers else ()

    @property
    def account(self) -> str:
        """The service account of its pods."""
        return self.spec.template.spec.service_account_name


@slim
class _Waiting:
    reason: str = ""
    message: str = ""


@slim
class _State:
    waiting: _Waiting | None = None
    terminated: _Waiting | None = None


@slim
class _ContainerStatus:
    ready: bool = False
    restart_count: int = 0
    state: _State = field(default_factory=_State)
    last_state: _State = field(default_factory=_State)


@slim
class _PodCondition(ObjectCondition):
    message: str = ""


@slim
class _PodStatus:
    phase: str = ""
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


@slim
class OwnPod:
    """A pod of this product."""

    metadata: Metadata
    spec: _PodSpec = field(default_factory=_PodSpec)
    status: _PodStatus = field(default_factory=_PodStatus)

    @property
    def images(self) -> tuple[str, ...]:
        """The images of its containers."""
        return tuple(container.image for container in self.spec.containers)

    @property
    def is_ready(self) -> bool:
        """Whether Services send it requests."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def why(self) -> str:
        """Why it is not ready, as the kubelet or the scheduler says."""
        for container in self.status.container_statuses:
            if container.ready:
                continue
            for state in (container.state.waiting, container.last_state.terminated):
                if state is not None and state.reason:
                    again = container.restart_count
                    said = f"{state.reason}: {state.message}" if state.message else state.reason
                    return f"{said} ({again} restarts)" if again else said
        texts = [c.message or c.reason for c in self.status.conditions if c.status != "True"]
        return next(filter(None, texts), self.status.phase)


@slim
class _ReviewStatus:
    allowed: bool = False


@slim
class Review:
    """The API server's review of one right."""

    status: _ReviewStatus = field(default_factory=_ReviewStatus)


OWN_DEPLOYMENTS = Resource("apps/v1", "Deployment", "deployments", WorkloadResource)
OWN_DAEMON_SETS = Resource("apps/v1", "DaemonSet", "daemonsets", WorkloadResource)
OWN_PODS = Resource("v1", "Pod", "pods", OwnPod)

LABELLED_NODES = Resource("v1", "Node", "nodes", BareObject, namespaced=False)
COMPUTE_DOMAINS = Resource(
    "resource.nvidia.com/v1beta1", "ComputeDomain", "computedomains", BareObject
)
COMPUTE_DOMAIN_LABEL = "resource.nvidia.com/computeDomain"
"""Label of a node: the uid of its ComputeDomain, while a pod of that is there.

Source: NVIDIA's DRA driver, `cmd/compute-domain-kubelet-plugin`."""
CLIQUE_LABEL = "nvidia.com/gpu.clique"
"""Label of a node: its NVLink clique, `<cluster uuid>.<clique id>`, by GPU Feature Discovery."""

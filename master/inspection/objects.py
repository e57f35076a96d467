"""What is read of workloads, their pods and a lease. Fields: API reference of Kubernetes v1.36."""

from datetime import datetime

from pydantic import AliasGenerator, BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from master.kube.objects import HyperNodeObject, Metadata


class _Object(BaseModel):
    model_config = ConfigDict(alias_generator=AliasGenerator(validation_alias=to_camel))


class _Selector(_Object):
    match_labels: dict[str, str] = {}


class _Container(_Object):
    name: str = ""
    image: str = ""
    args: tuple[str, ...] = ()


class _PodSpec(_Object):
    node_name: str = ""
    service_account_name: str = "default"
    containers: tuple[_Container, ...] = ()


class _Template(_Object):
    spec: _PodSpec = _PodSpec()


class _WorkloadSpec(_Object):
    replicas: int = 1
    selector: _Selector = _Selector()
    template: _Template = _Template()


class _WorkloadStatus(_Object):
    """Of a Deployment the first two, of a DaemonSet the others."""

    updated_replicas: int = 0
    ready_replicas: int = 0
    desired_number_scheduled: int = 0
    updated_number_scheduled: int = 0
    number_ready: int = 0


class Workload(_Object):
    """A Deployment or a DaemonSet; which of them its path says."""

    metadata: Metadata
    spec: _WorkloadSpec = _WorkloadSpec()
    status: _WorkloadStatus = _WorkloadStatus()

    @property
    def flags(self) -> tuple[str, ...]:
        """The flags of its first container."""
        containers = self.spec.template.spec.containers
        return containers[0].args if containers else ()

    @property
    def account(self) -> str:
        """The service account of its pods."""
        return self.spec.template.spec.service_account_name


class Workloads(_Object):
    """A list of them."""

    items: tuple[Workload, ...] = ()


class _Waiting(_Object):
    reason: str = ""
    message: str = ""


class _State(_Object):
    waiting: _Waiting | None = None
    terminated: _Waiting | None = None


class _ContainerStatus(_Object):
    ready: bool = False
    restart_count: int = 0
    state: _State = _State()
    last_state: _State = _State()


class _PodCondition(_Object):
    type: str
    status: str
    reason: str = ""
    message: str = ""


class _PodStatus(_Object):
    phase: str = ""
    conditions: tuple[_PodCondition, ...] = ()
    container_statuses: tuple[_ContainerStatus, ...] = ()


class OwnPod(_Object):
    """A pod of ours."""

    metadata: Metadata
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()

    @property
    def images(self) -> tuple[str, ...]:
        """The images of its containers."""
        return tuple(container.image for container in self.spec.containers)

    @property
    def is_ready(self) -> bool:
        """Whether Kubernetes sends it requests."""
        return any(c.type == "Ready" and c.status == "True" for c in self.status.conditions)

    @property
    def why(self) -> str:
        """Why it is not ready, in the words of the kubelet or the scheduler."""
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


class Pods(_Object):
    """A list of them."""

    items: tuple[OwnPod, ...] = ()


class _LeaseSpec(_Object):
    holder_identity: str | None = None
    lease_duration_seconds: float | None = None
    renew_time: datetime | None = None


class LeaseObject(_Object):
    """A lease."""

    metadata: Metadata
    spec: _LeaseSpec = _LeaseSpec()


class HyperNodeList(_Object):
    """A list of HyperNodes."""

    items: tuple[HyperNodeObject, ...] = ()


class _ReviewStatus(_Object):
    allowed: bool = False


class Review(_Object):
    """The API server's judgement of one right."""

    status: _ReviewStatus = _ReviewStatus()

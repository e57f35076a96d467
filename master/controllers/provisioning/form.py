"""The objects that ask for capacity, as their controller writes them; one form for each kind."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from master.kube.schedulers.provisioning import PROVISIONING_REQUESTS, KnownRequest
from master.kube.schema.timestamps import timestamp
from master.kube.store import Store
from master.kube.writing.writes import MANAGER_PREFIX, Apply, WriteTarget
from topo.model.conditions.master import MasterCondition
from topo.provisioning.course import Phase, ProvisioningRequest, RequestCondition
from topo.provisioning.messages import WriteStatus
from topo.publish.event_series import Regarding

MESSAGE_CHARS = 8_192


class RequestForm(Protocol):
    """How requests of one kind are answered."""

    @property
    def manager(self) -> str:
        """The field manager of the answers."""
        ...

    @property
    def unserved(self) -> tuple[MasterCondition, str]:
        """What is said where the API server lists no such objects."""
        ...

    @property
    def followed(self) -> tuple[Store[Any], ...]:
        """The objects by whose watch writes are confirmed."""
        ...

    def writes(self, asked: WriteStatus) -> Iterable[Apply]:
        """Return what is to be written for an answer, if the object still has its version."""
        ...

    def standing(self) -> Iterable[Apply]:
        """Return what is to be written beside the answers."""
        ...

    def about(self, request: ProvisioningRequest) -> Regarding:
        """Return the object whose user is told of a request."""
        ...


@dataclass(frozen=True, slots=True)
class ProvisioningForm:
    """ProvisioningRequests: conditions and details in their status."""

    requests: Store[KnownRequest]

    manager = f"{MANAGER_PREFIX}provisioning"
    unserved = (
        MasterCondition.PROVISIONING_UNSERVED,
        "the API server lists no ProvisioningRequests of autoscaling.x-k8s.io/v1",
    )

    @property
    def followed(self) -> tuple[Store[Any], ...]:
        """The requests."""
        return (self.requests,)

    def writes(self, asked: WriteStatus) -> Iterator[Apply]:
        """Yield the status of a request."""
        request = asked.request
        status = {
            "conditions": [_document(each, asked) for each in asked.conditions],
            "provisioningClassDetails": dict(asked.details),
        }
        yield Apply(
            target=WriteTarget(PROVISIONING_REQUESTS, request.name, request.namespace),
            manager=self.manager,
            uid=request.uid,
            version=request.version,
            subresource="status",
            fields={"status": status},
            force=True,
        )

    def standing(self) -> Iterable[Apply]:
        """Return nothing."""
        return ()

    def about(self, request: ProvisioningRequest) -> Regarding:
        """Return the request itself."""
        return Regarding(
            PROVISIONING_REQUESTS.api_version,
            PROVISIONING_REQUESTS.kind,
            request.name,
            request.uid,
            request.namespace,
        )


def _document(each: RequestCondition, asked: WriteStatus) -> dict[str, Any]:
    """Return a condition as it is written; that of the write says the text of the write."""
    waits = asked.phase is Phase.ACCEPTED and each.type == Phase.PROVISIONED.value
    is_it = bool(asked.text) and (each.type == asked.phase.value or waits)
    return {
        "type": each.type,
        "status": "True" if each.is_true else "False",
        "reason": each.reason,
        "message": (asked.text if is_it else each.message)[:MESSAGE_CHARS],
        "lastTransitionTime": timestamp(each.since_s),
    }

"""What controllers need of a reflector: what is known of a resource, and what changes in it."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from master.kube.objects import Key, KubeObject, Resource
from master.kube.reflector import Listener

T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


class Store(Protocol[T_co]):
    """The objects of a resource as they are known now; `Reflector` is one."""

    @property
    def resource(self) -> Resource[T_co]:
        """Which kind of objects."""
        ...

    @property
    def objects(self) -> Mapping[Key, T_co]:
        """What is known now; it changes while others run."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all objects were listed once."""
        ...

    def subscribe(self, listener: Listener[T_co]) -> None:
        """Tells the listener of all that changes; what is listed already, at once."""
        ...

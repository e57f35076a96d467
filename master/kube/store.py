"""The interface of a reflector for controllers: the known objects and their changes."""

from collections.abc import Mapping
from typing import Protocol, TypeVar

from master.kube.objects import Key, KubeObject, Resource
from master.kube.reflector import Listener

T_co = TypeVar("T_co", bound=KubeObject, covariant=True)


class Store(Protocol[T_co]):
    """The objects of a resource as they are known now, such as a `Reflector`."""

    @property
    def resource(self) -> Resource[T_co]:
        """The resource of the objects."""
        ...

    @property
    def objects(self) -> Mapping[Key, T_co]:
        """The objects known now; the view changes while other tasks run."""
        ...

    @property
    def synced(self) -> bool:
        """Whether all objects were listed at least once."""
        ...

    def subscribe(self, listener: Listener[T_co]) -> None:
        """Call the listener with each change from now on, and at once with the listed objects."""
        ...

"""The interface of a reflector for controllers: the known objects, their changes, their groups."""

from collections.abc import Iterable, Iterator, KeysView, Mapping
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from master.kube.objects import Key, KubeObject, Resource
from master.kube.reflector import Changed, Listed, Listener, StoreEvent

G = TypeVar("G")
V = TypeVar("V")
T = TypeVar("T", bound=KubeObject)
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


def updates(event: StoreEvent[T], known: Iterable[Key]) -> Iterator[tuple[Key, T | None]]:
    """Yield each object that may differ, None for one that is gone.

    Of a list these are the keys among `known` that it lacks, then all of its objects.
    """
    if isinstance(event, Listed):
        yield from [(key, None) for key in known if key not in event.objects]
        yield from event.objects.items()
    else:
        yield event.key, event.object if isinstance(event, Changed) else None


class Grouped(Generic[G, V]):
    """Values of objects by their groups, each in one; a group ends with its last value.

    Groups and their values are in the order in which they came. Mutable. O(1) for each call.
    """

    def __init__(self) -> None:
        self._groups: dict[G, dict[Key, V]] = {}
        self._group_of: dict[Key, G] = {}

    def __contains__(self, group: G) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[G]:
        return iter(self._groups)

    @property
    def keys(self) -> KeysView[Key]:
        """The keys of all objects."""
        return self._group_of.keys()

    def group_of(self, key: Key) -> G | None:
        """Return the group of an object; None for one that is in none."""
        return self._group_of.get(key)

    def values(self, group: G) -> Mapping[Key, V]:
        """Return the values of a group by key; empty for an unknown group."""
        return MappingProxyType(self._groups.get(group, {}))

    def put(self, key: Key, group: G, value: V) -> None:
        """Set the group and the value of an object, which may have been in another group."""
        if key in self._group_of and self._group_of[key] != group:
            self.drop(key)
        self._groups.setdefault(group, {})[key] = value
        self._group_of[key] = group

    def drop(self, key: Key) -> G | None:
        """Remove an object; return the group that it was in, None if in none."""
        group = self._group_of.pop(key, None)
        if group is None:
            return None
        values = self._groups[group]
        del values[key]
        if not values:
            del self._groups[group]
        return group

    def clear(self) -> None:
        """Remove all."""
        self._groups.clear()
        self._group_of.clear()

"""What-if on the capacity itself, for the length of one question; it is then what it was before."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from topo.model.ids import NodeName
from topo.placement.capacity.capacity import Capacity


@contextmanager
def released(capacity: Capacity, owners: Sequence[str]) -> Iterator[None]:
    """What some owners take counts as free for a while."""
    bookings = capacity.bookings()
    took = {owner: bookings[owner] for owner in owners if owner in bookings}
    for owner in took:
        capacity.release(owner)
    try:
        yield
    finally:
        for owner, gpus in took.items():
            capacity.book(owner, gpus)


@contextmanager
def taken(capacity: Capacity, nodes: Sequence[NodeName], owner: str) -> Iterator[None]:
    """What is free on some nodes counts as taken for a while, by an owner that takes no other."""
    free = {node: free for node in nodes if (free := capacity.free(node))}
    if free:
        capacity.book(owner, free)
    try:
        yield
    finally:
        capacity.release(owner)

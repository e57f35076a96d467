"""The request of a hold is found by its uid, without a look at the others."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from master.controllers.provisioning.bookings import RequestBookings
from master.controllers.provisioning.reservations import RequestReservations
from master.kube.reflector import Changed, Listed, Removed
from topo.gangs.annotation_keys import of_workload
from topo.model.limits import MAX_KEY_CHARS, REQUEST_KEYS, WORKLOAD_KEYS


class Unread(dict[Any, Any]):
    """Objects by key that fail whoever walks through them."""

    def items(self) -> Any:
        raise AssertionError("it looks at all requests")

    __iter__ = values = keys = items


class Requests:
    """A store that tells what it is made to."""

    def __init__(self) -> None:
        self.objects, self.listeners = Unread(), list[Any]()
        self.subscribe = self.listeners.append

    def tell(self, event: Any) -> None:
        for listener in self.listeners:
            listener(event)


def request(uid: str) -> Any:
    return SimpleNamespace(value=SimpleNamespace(uid=uid))


def hold(prefix: str, uid: str, name: str) -> Any:
    key = f"{prefix}{uid}/jobs/{name}"[:MAX_KEY_CHARS]
    return SimpleNamespace(wish=SimpleNamespace(key=key))


@pytest.mark.parametrize("is_awaited", [True, False], ids=["requests", "workloads"])
@pytest.mark.parametrize("name", ["one", "x" * 253], ids=["a short name", "one that is cut off"])
def test_a_hold_is_of_the_request_with_its_uid_until_that_is_gone(
    name: str, *, is_awaited: bool
) -> None:
    prefix = REQUEST_KEYS if is_awaited else WORKLOAD_KEYS
    store, bookings = Requests(), RequestBookings.__new__(RequestBookings)
    bookings.prefix = prefix
    nothing = cast("Any", None)
    found = RequestReservations(
        cast("Any", store), bookings, nothing, nothing, is_awaited=is_awaited
    )
    known = "jobs", name if is_awaited else of_workload(name)
    mine = hold(prefix, "uid-1", name)
    assert found.request_of(mine) is None
    store.tell(Listed({known: request("uid-1"), ("jobs", "two"): request("uid-2")}))
    assert found.request_of(mine) == known
    assert found.request_of(hold("gang/", "uid-1", name)) is None
    store.tell(Changed(known, cast("Any", request("uid-3"))))
    assert found.request_of(mine) is None
    assert found.request_of(hold(prefix, "uid-3", name)) == known
    store.tell(Removed(known, cast("Any", request("uid-3"))))
    assert found.request_of(hold(prefix, "uid-3", name)) is None
    store.tell(Listed({}))
    assert found.request_of(hold(prefix, "uid-2", "two")) is None

"""Reads of the API server: one object, one page of a list, or all objects of a resource."""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from master.kube.client import Call, Caller
from master.kube.decoding import DecodedPage, Decoder, decode
from master.kube.errors import Failure, KubeError
from master.kube.objects import KubeObject, Resource, collection_path, object_path
from master.kube.schema.json_depth import cut_depth
from topo.kit.threads import off_loop

T = TypeVar("T", bound=KubeObject)

PAGE = 250
"""Objects of a page: 250 nodes of 15 kB are decoded in 20 ms, in which the event loop waits."""
LIST_S = 30.0
MAX_PAGES = 4096
"""More than 100,000 objects of the largest lists; a server that repeats its tokens ends here."""
LISTS = 3
"""How often a list is begun: the API server forgets its version after about 5 minutes (410)."""


async def read(
    client: Caller, resource: Resource[T], name: str, namespace: str = "", *, urgent: bool = False
) -> T:
    """Return one object. Raises `KubeError`, also where the answer is none of the resource."""
    call = Call(method="GET", path=object_path(resource, name, namespace), urgent=urgent)
    return decode(resource.model, await client.call(call))


async def read_all(
    client: Caller,
    resource: Resource[T],
    namespace: str = "",
    *,
    query: Mapping[str, str] | None = None,
    page_size: int = PAGE,
) -> tuple[T, ...]:
    """Return all objects, read in pages and decoded in a thread.

    Begins again where the API server has forgotten the version of the list. Raises `KubeError`,
    also for an object that cannot be read: a list without it would not be all.
    """
    path = collection_path(resource, namespace)
    page = partial(page_call, path, query or {}, page_size=page_size)
    for attempt in range(1, LISTS + 1):
        try:
            return await _pages(client, Decoder(resource), page)
        except KubeError as error:
            if not error.is_gone or attempt == LISTS:
                raise
    raise AssertionError


async def _pages(
    client: Caller, decoder: Decoder[T], page_of: Callable[[str], Call]
) -> tuple[T, ...]:
    found: list[T] = []
    token = ""
    for _ in range(MAX_PAGES):
        body = await client.call(page_of(token))
        try:
            page = await asyncio.to_thread(decoder.page, body)
        except KubeError as error:
            page = await asyncio.to_thread(decoder.page, await shallow(body, error))
        if page.unreadable:
            raise _unreadable(page)
        found += page.objects
        token = page.token
        if not token:
            return tuple(found)
    raise KubeError(f"there are more than {MAX_PAGES} pages of a list", status=500)


async def shallow(text: bytes, error: KubeError) -> bytes:
    """Return a text that could not be decoded without what is nested too deep, cut in a thread.

    Raises `error` where that is not why. A user may nest as deep as a free field takes, and the
    text of many such objects takes a second a MB.
    """
    if error.failure is Failure.MALFORMED:
        cut = await off_loop(partial(cut_depth, text))
        if cut is not text:
            return cut
    raise error


def page_call(path: str, query: Mapping[str, str], token: str, page_size: int = PAGE) -> Call:
    """Return the request of the page that `token` names, the first one without a token."""
    more = {"continue": token} if token else {}
    asked = {**query, "limit": str(page_size), **more}
    return Call(method="GET", path=path, query=asked, timeout_s=LIST_S)


def _unreadable(page: DecodedPage[T]) -> KubeError:
    first = page.unreadable[0]
    name = "/".join(filter(None, first.key))
    return KubeError(f"{name} cannot be read: {first.why}", status=200, failure=Failure.MALFORMED)

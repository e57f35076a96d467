"""What is nested too deep is cut out of JSON, and nothing else is changed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from master.kube.dra.claims import RESOURCE_CLAIMS
from master.kube.reading import read_all
from master.kube.schema.json_depth import MAX_DEPTH, cut_depth
from master.object_errors import ObjectKind
from tests.kube.plain import client_of, kubeconfig, serving
from tests.kube.reflector.reflecting import reflecting

JSON = "application/json"
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=30,
)


def cut(value: Any, depth: int) -> Any:
    """The same on the decoded value."""
    if isinstance(value, dict | list) and not depth:
        return None
    if isinstance(value, dict):
        return {key: cut(each, depth - 1) for key, each in value.items()}
    return [cut(each, depth - 1) for each in value] if isinstance(value, list) else value


@given(VALUES, st.integers(0, 5))
def test_the_text_is_cut_as_the_value_is(value: Any, depth: int) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    assert json.loads(cut_depth(text, depth)) == cut(value, depth)


@given(VALUES)
def test_what_is_not_so_deep_stays_the_same_object(value: Any) -> None:
    text = json.dumps(value).encode()
    assert cut_depth(text) is text


@given(st.lists(st.sampled_from([b"{", b"[", b"]", b"}", b'"', b"\\", b"a", b"\n"])))
def test_any_text_is_taken(pieces: list[bytes]) -> None:
    cut_depth(b"".join(pieces), 2)


def claim(name: str, depth: int) -> str:
    """A claim whose opaque parameters are so deep, as any user may write it."""
    parameters = '{"a":' * depth + "1" + "}" * depth
    opaque = f'{{"opaque":{{"driver":"d.example","parameters":{parameters}}}}}'
    metadata = f'{{"name":"{name}","namespace":"team-a","resourceVersion":"5"}}'
    return f'{{"metadata":{metadata},"spec":{{"devices":{{"config":[{opaque}]}}}}}}'


@pytest.mark.virtual_time
@pytest.mark.parametrize("depth", [MAX_DEPTH, 300, 1_700, 9_000])
async def test_an_object_that_is_nested_deep_does_not_hide_the_others(
    tmp_path: Path, depth: int
) -> None:
    """One claim of 10 KiB would stop the list of all claims, and no job was placed any more."""

    async def handler(request: web.Request) -> web.StreamResponse:
        if "watch" not in request.query:
            items = f"{claim('a', 1)},{claim('listed', depth)}"
            about = '"kind":"ResourceClaimList","metadata":{"resourceVersion":"9"}'
            return web.Response(text=f'{{{about},"items":[{items}]}}', content_type=JSON)
        answer = web.StreamResponse(headers={"Content-Type": JSON})
        await answer.prepare(request)
        for name in ("watched", "b"):
            line = f'{{"type":"ADDED","object":{claim(name, depth)}}}\n'
            await answer.write(line.encode())
        await asyncio.sleep(3600)
        return answer

    async with (
        serving(handler) as url,
        reflecting(kubeconfig(tmp_path, url), RESOURCE_CLAIMS) as found,
    ):
        await found.ear.until(lambda: found.names == {"a", "listed", "watched", "b"})
        assert found.reflector.trouble is None
        assert not found.reflector.errors.of(ObjectKind.OBJECT)


async def test_a_whole_list_is_read_at_once_the_same_way(tmp_path: Path) -> None:
    async def handler(_: web.Request) -> web.StreamResponse:
        about = '"kind":"ResourceClaimList","metadata":{"resourceVersion":"9"}'
        items = f"{claim('a', 1)},{claim('b', 2_000)}"
        return web.Response(text=f'{{{about},"items":[{items}]}}', content_type=JSON)

    async with serving(handler) as url, client_of(kubeconfig(tmp_path, url)) as client:
        found = await read_all(client, RESOURCE_CLAIMS)
    assert [each.metadata.name for each in found] == ["a", "b"]

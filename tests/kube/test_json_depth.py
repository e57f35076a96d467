"""What is nested too deep is cut out of JSON, and nothing else is changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.kube.decoding import Bookmark, Decoder, Unreadable
from master.kube.dra.claims import RESOURCE_CLAIMS
from master.kube.schema.json_depth import MAX_DEPTH, cut_depth

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


@pytest.mark.parametrize("depth", [MAX_DEPTH, 300, 1_700, 9_000])
def test_an_object_that_is_nested_deep_does_not_hide_the_others(depth: int) -> None:
    """One claim of 10 KiB would stop the list of all claims, and no job was placed any more."""
    items = f"{claim('a', 1)},{claim('deep', depth)}"
    text = f'{{"kind":"ResourceClaimList","metadata":{{"resourceVersion":"9"}},"items":[{items}]}}'
    page = Decoder(RESOURCE_CLAIMS).page(text.encode())
    assert [each.metadata.name for each in page.objects] == ["a", "deep"]
    line = f'{{"type":"ADDED","object":{claim("deep", depth)}}}'
    event = Decoder(RESOURCE_CLAIMS).event(line.encode())
    assert not isinstance(event, Bookmark)
    assert not isinstance(event.object, Unreadable)
    assert event.object.metadata.name == "deep"

"""Reads of one object and of all objects of a resource."""

from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
import pytest

from master.kube.client import Call
from master.kube.errors import Failure, KubeError
from master.kube.objects import CONFIG_MAPS, NODES
from master.kube.reading import LISTS, read, read_all

GONE = KubeError("the provided continue parameter is too old", status=410)


def node(name: str, **fields: object) -> dict[str, object]:
    return {"metadata": {"name": name}, **fields}


@dataclass(slots=True)
class Lists:
    """Answers pages of two nodes; `fault` may raise instead."""

    items: list[dict[str, object]]
    fault: Callable[[int], None] = lambda _: None
    asked: list[Call] = field(default_factory=list)

    async def call(self, call: Call) -> bytes:
        self.asked.append(call)
        self.fault(len(self.asked))
        start = int(call.query.get("continue", "0"))
        following = {"continue": str(start + 2)} if len(self.items) > start + 2 else {}
        metadata = {"resourceVersion": "7", **following}
        items = self.items[start : start + 2]
        return orjson.dumps({"kind": "NodeList", "metadata": metadata, "items": items})


@dataclass(slots=True)
class Answer:
    """Answers everything with the same body."""

    body: bytes

    async def call(self, _call: Call) -> bytes:
        return self.body


async def test_all_objects_are_read_page_by_page() -> None:
    lists = Lists([node(f"n{i}") for i in range(5)])
    found = await read_all(lists, NODES, query={"labelSelector": "a=b"}, page_size=2)
    assert [each.metadata.name for each in found] == ["n0", "n1", "n2", "n3", "n4"]
    assert [call.query.get("continue") for call in lists.asked] == [None, "2", "4"]
    assert {call.query["limit"] for call in lists.asked} == {"2"}
    assert {call.query["labelSelector"] for call in lists.asked} == {"a=b"}


async def test_a_list_that_the_server_forgot_is_begun_again_and_holds_no_object_twice() -> None:
    def forgotten(number: int) -> None:
        if number == 2:
            raise GONE

    lists = Lists([node(f"n{i}") for i in range(3)], forgotten)
    found = await read_all(lists, NODES)
    assert [each.metadata.name for each in found] == ["n0", "n1", "n2"]
    assert [call.query.get("continue") for call in lists.asked] == [None, "2", None, "2"]


async def test_a_list_that_is_forgotten_each_time_is_given_up() -> None:
    def forgotten(_number: int) -> None:
        raise GONE

    lists = Lists([node("n")], forgotten)
    with pytest.raises(KubeError, match="too old"):
        await read_all(lists, NODES)
    assert len(lists.asked) == LISTS


async def test_an_object_that_cannot_be_read_is_named_with_its_field() -> None:
    lists = Lists([node("well"), node("ill", spec={"taints": 3})])
    with pytest.raises(KubeError, match=r"ill cannot be read: spec\.taints: ") as raised:
        await read_all(lists, NODES)
    assert raised.value.failure is Failure.MALFORMED
    assert not raised.value.is_passing, "the server answered; asking again changes nothing"


async def test_one_object_is_read_or_its_wrong_field_is_named() -> None:
    found = await read(Answer(b'{"metadata": {"name": "a"}, "data": {"k": "v"}}'), CONFIG_MAPS, "a")
    assert found.data == {"k": "v"}
    wrong = Answer(b'{"metadata": {"name": "a"}, "data": {"k": []}}')
    with pytest.raises(KubeError, match=r"not understood at data\.k: ") as raised:
        await read(wrong, CONFIG_MAPS, "a", "topo")
    assert raised.value.failure is Failure.MALFORMED
    assert "[]" not in str(raised.value)

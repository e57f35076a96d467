"""Whom a token speaks for, as the API server says it."""

import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.kube.errors import KubeError
from master.kube.service_accounts.accounts import (
    MAX_ANSWER_BYTES,
    MAX_SHOWN_CHARS,
    Claims,
    Denied,
    Wanted,
    claims_of,
    read_review,
)
from master.kube.service_accounts.token_review import (
    REST_S,
)
from tests.kube.plain import client_of, kubeconfig, serving
from tests.kube.service_accounts.reviewing import AUDIENCE, NODE, WORKERS, Reviewer, review, token
from tests.kube.service_accounts.reviews import GOOD, World
from topo.model.conditions.sources import ReportCondition
from topo.model.ids import NodeName
from topo.model.limits import MAX_TOKEN_CHARS

pytestmark = pytest.mark.virtual_time


async def test_a_token_of_the_workers_account_speaks_for_the_node_of_its_pod(world: World) -> None:
    found = await world.accepted()
    assert (found.name, found.node) == ("topo:topo-worker", NodeName("node-1"))
    assert (world.count("accepted"), world.count("refused"), world.count("failed")) == (1, 0, 0)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        (
            token(audience=("https://kubernetes.default.svc",)),
            ReportCondition.WRONG_AUDIENCE,
            AUDIENCE,
        ),
        (token(audience="other"), ReportCondition.WRONG_AUDIENCE, "other"),
        (token(audience=()), ReportCondition.WRONG_AUDIENCE, AUDIENCE),
        (token(account="topo:default"), ReportCondition.WRONG_ACCOUNT, "topo:default"),
        (
            token(account="kube-system:topo-worker"),
            ReportCondition.WRONG_ACCOUNT,
            "kube-system:topo-worker",
        ),
        (token(node=None), ReportCondition.TOKEN_WITHOUT_NODE, "node"),
        (token(account="a:b:c"), ReportCondition.NO_ACCOUNT, "service account"),
        ("no.json.web-token", ReportCondition.NO_ACCOUNT, "Kubernetes"),
        ("plain", ReportCondition.NO_ACCOUNT, "Kubernetes"),
        ("a.b.c.d", ReportCondition.NO_ACCOUNT, "Kubernetes"),
        (f"a.{'A' * (MAX_TOKEN_CHARS - 4)}.b", ReportCondition.NO_ACCOUNT, "Kubernetes"),
    ],
)
async def test_a_token_that_says_itself_that_it_is_none_of_ours_costs_the_api_server_nothing(
    world: World, text: str, code: ReportCondition, word: str
) -> None:
    found = await world.denied(text)
    assert (found.code, found.retry_after_s) == (code, None)
    assert word in found.refusal.what
    assert world.server.asked == []


def _answer(**user: Any) -> dict[str, Any]:
    known = {"username": "system:serviceaccount:topo:topo-worker", "extra": {NODE: ["node-1"]}}
    return review(authenticated=True, audiences=[AUDIENCE], user={**known, **user})


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (review(authenticated=False, error="expired"), ReportCondition.TOKEN_REFUSED),
        (review(user={}), ReportCondition.TOKEN_REFUSED),
        (
            _answer() | {"status": {**_answer()["status"], "audiences": []}},
            ReportCondition.WRONG_AUDIENCE,
        ),
        (
            _answer() | {"status": {**_answer()["status"], "audiences": ["api"]}},
            ReportCondition.WRONG_AUDIENCE,
        ),
        (_answer(username="system:serviceaccount:topo:other"), ReportCondition.WRONG_ACCOUNT),
        (_answer(username="admin"), ReportCondition.NO_ACCOUNT),
        (_answer(username="system:serviceaccount:topo:topo-worker\n"), ReportCondition.NO_ACCOUNT),
        (_answer(extra={}), ReportCondition.TOKEN_WITHOUT_NODE),
    ],
)
async def test_what_the_api_server_says_counts_and_not_what_the_token_says(
    world: World, answer: dict[str, Any], code: ReportCondition
) -> None:
    """Each of these tokens says of itself that all is well; a forger would write just that."""
    world.server.spoilt = (201, json.dumps(answer).encode())
    found = await world.denied()
    assert (found.code, found.retry_after_s) == (code, None)


async def test_the_node_is_the_one_that_the_api_server_says(world: World) -> None:
    world.server.spoilt = (201, json.dumps(_answer(extra={NODE: ["node-9"]})).encode())
    assert (await world.accepted()).node == "node-9"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"kind":"Status"}',
        json.dumps(_answer())[:-9].encode(),
        json.dumps(_answer(extra={NODE: ["node-1", "node-2"]})).encode(),
        json.dumps(_answer(extra={NODE: ["../etc"]})).encode(),
        json.dumps(_answer(extra={NODE: "node-1"})).encode(),
        json.dumps(_answer(extra=[])).encode(),
        json.dumps(_answer() | {"kind": "SubjectAccessReview"}).encode(),
        json.dumps(review(authenticated="true", audiences=[AUDIENCE])).encode(),
        json.dumps(review(authenticated=1, audiences=[AUDIENCE])).encode(),
        json.dumps(_answer(pad="x" * MAX_ANSWER_BYTES)).encode(),
        b"[" * 100_000,
    ],
)
async def test_an_answer_that_is_none_lets_nobody_in_and_blames_no_token(
    world: World, body: bytes
) -> None:
    world.server.spoilt = (200, body)
    found = await world.denied()
    assert found.code == ReportCondition.TOKEN_NOT_REVIEWED
    assert found.retry_after_s == REST_S


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_answer_at_all_makes_an_account_of_rubbish(answer: bytes) -> None:
    try:
        found = read_review(answer)
    except KubeError:
        return
    assert isinstance(found, Denied)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)


@given(
    st.fixed_dictionaries(
        {}, optional={"aud": _VALUES, "exp": _VALUES, "sub": _VALUES, "kubernetes.io": _VALUES}
    )
)
def test_whatever_a_token_says_of_itself_is_read_or_denied(said: dict[str, Any]) -> None:
    """And what is read of it is short and plain, for it is shown."""
    found = claims_of(f"a.{_encoded(said)}.b")
    assert isinstance(found, Claims | Denied)
    if isinstance(found, Claims) and (denied := WORKERS.denial(found.account)):
        assert denied.refusal.what.isprintable()
        assert len(denied.refusal.what) < 4 * MAX_SHOWN_CHARS + 600


def _encoded(said: dict[str, Any]) -> str:
    valid = {"aud": [AUDIENCE], "exp": 9.0, "sub": "system:serviceaccount:topo:topo-worker"}
    content = json.dumps({**valid, **said}).encode()
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


@given(st.text(max_size=200))
def test_whatever_is_sent_as_a_token_is_denied_or_read(text: str) -> None:
    assert isinstance(claims_of(text), Claims | Denied)


@pytest.mark.parametrize("spoilt", ["\udcff", "é", "\x00", "a b", "a=b"])
@pytest.mark.parametrize("part", [0, 2])
async def test_a_token_of_other_characters_is_denied_and_costs_the_api_server_nothing(
    world: World, spoilt: str, part: int
) -> None:
    """Bytes of a header that are no UTF-8 come as lone surrogates, which no JSON has."""
    parts = GOOD.split(".")
    parts[part] = spoilt
    found = await world.denied(".".join(parts))
    assert found.code is ReportCondition.NO_ACCOUNT
    assert world.server.asked == []


@pytest.mark.parametrize(
    ("status", "reason", "word"),
    [(401, "Unauthorized", "service account"), (403, "Forbidden", "roles"), (429, "", "fewer")],
)
async def test_a_failure_names_its_cause_and_the_next_step(
    world: World, status: int, reason: str, word: str
) -> None:
    said = {"kind": "Status", "reason": reason, "message": "why it is so", "code": status}
    world.server.spoilt = (status, json.dumps(said).encode())
    found = await world.denied()
    assert "why it is so" in found.refusal.what
    assert word in found.refusal.fix


async def test_a_token_is_good_for_whom_it_is_wanted_and_for_nobody_else(world: World) -> None:
    """What was found out for the workers' port is judged anew for another one."""
    await world.accepted()
    masters = Wanted(account="topo:topo-master", audience=AUDIENCE)
    assert (await world.denied(wanted=masters)).code == ReportCondition.WRONG_ACCOUNT
    own = token(node=None, account="topo:topo-master")
    assert (await world.accepted(own, wanted=masters)).name == "topo:topo-master"
    assert (await world.denied(own)).code == ReportCondition.WRONG_ACCOUNT


@asynccontextmanager
async def _on_a_socket(server: Reviewer, folder: Path) -> AsyncIterator[World]:
    async with (
        serving(server.handle) as url,
        client_of(kubeconfig(folder, url)) as client,
    ):
        world = World(client.call)
        yield world
        await world.reviews.close()


async def test_it_asks_an_api_server_as_kubernetes_has_it(tmp_path: Path) -> None:
    """Over a real connection, with the audience, and with an answer that is cut."""
    server = Reviewer()
    async with _on_a_socket(server, tmp_path) as world:
        assert (await world.accepted()).node == "node-1"
        server.revoked.add(other := token(number=2))
        assert (await world.denied(other)).code == ReportCondition.TOKEN_REFUSED
        server.spoilt = (201, b'{"kind":"TokenReview","status":{"authenticated":true')
        assert (await world.denied(token(number=3))).code == ReportCondition.TOKEN_NOT_REVIEWED


async def test_one_that_is_gone_is_told(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with client_of(path) as client:
        world = World(client.call)
        found = await world.denied()
        assert found.code == ReportCondition.TOKEN_NOT_REVIEWED
        assert "API server" in found.refusal.fix

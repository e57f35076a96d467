"""Whom a token speaks for: asked of the API server seldom, believed no longer than is safe."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import prometheus_client as prom
import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.kube.accounts import (
    MAX_ANSWER_BYTES,
    MAX_SHOWN_CHARS,
    Account,
    Claims,
    Code,
    Denied,
    Wanted,
    claims_of,
    reviewed,
)
from master.kube.token_review import (
    AT_ONCE,
    FRESH_S,
    KEPT_PER_NODE,
    LATE_S,
    LEAST_S,
    MOST_S,
    PER_S,
    REFUSED_BURST,
    REFUSED_KEPT,
    REFUSED_S,
    REST_S,
    TIMEOUT_S,
    WAITING,
    TokenReviews,
)
from tests.kube.plain import client_of, kubeconfig, serving
from tests.kube.reviewing import AUDIENCE, NODE, WORKERS, Reviewer, review, token
from topo.model.ids import NodeName
from topo.model.limits import MAX_TOKEN_CHARS

pytestmark = pytest.mark.virtual_time
GOOD = token()
HERE = "10.0.0.1"
NODES = 200


class World:
    """An API server, a clock that stands, and who asks."""

    def __init__(self, call: Any = None) -> None:
        self.server = Reviewer()
        self.registry = prom.CollectorRegistry()
        self.began_s = asyncio.get_running_loop().time()
        self.skew_s = 0.0
        self.reviews = TokenReviews(
            call or self.server.call,
            self.registry,
            nodes=NODES,
            clock=self.clock,
            unix=self.unix,
        )

    def clock(self) -> float:
        return asyncio.get_running_loop().time()

    def unix(self) -> float:
        return self.clock() - self.began_s + self.skew_s

    async def ask(
        self, text: str = GOOD, wanted: Wanted = WORKERS, sender: str = HERE
    ) -> Account | Denied:
        return await self.reviews.identity_of(text, wanted, sender)

    async def accepted(self, text: str = GOOD, **options: Any) -> Account:
        found = await self.ask(text, **options)
        assert isinstance(found, Account), found
        return found

    async def denied(self, text: str = GOOD, **options: Any) -> Denied:
        found = await self.ask(text, **options)
        assert isinstance(found, Denied), found
        assert found.refusal.what
        assert found.refusal.fix
        assert text not in str(found)
        return found

    def count(self, result: str) -> float | None:
        labels = {"result": result}
        return self.registry.get_sample_value("topo_master_kube_token_reviews_total", labels)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.reviews.close()


async def test_a_token_of_the_workers_account_speaks_for_the_node_of_its_pod(world: World) -> None:
    found = await world.accepted()
    assert (found.name, found.node) == ("topo:topo-worker", NodeName("node-1"))
    assert (world.count("accepted"), world.count("refused"), world.count("failed")) == (1, 0, 0)


@pytest.mark.parametrize(
    ("text", "code", "word"),
    [
        (token(audience=("https://kubernetes.default.svc",)), Code.AUDIENCE, AUDIENCE),
        (token(audience="other"), Code.AUDIENCE, "other"),
        (token(audience=()), Code.AUDIENCE, AUDIENCE),
        (token(account="topo:default"), Code.ACCOUNT, "topo:default"),
        (token(account="kube-system:topo-worker"), Code.ACCOUNT, "kube-system:topo-worker"),
        (token(node=None), Code.NO_NODE, "node"),
        (token(account="a:b:c"), Code.NO_ACCOUNT, "service account"),
        ("no.json.web-token", Code.NO_ACCOUNT, "Kubernetes"),
        ("plain", Code.NO_ACCOUNT, "Kubernetes"),
        ("a.b.c.d", Code.NO_ACCOUNT, "Kubernetes"),
        (f"a.{'A' * (MAX_TOKEN_CHARS - 4)}.b", Code.NO_ACCOUNT, "Kubernetes"),
    ],
)
async def test_a_token_that_says_itself_that_it_is_none_of_ours_costs_the_api_server_nothing(
    world: World, text: str, code: Code, word: str
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
        (review(authenticated=False, error="expired"), Code.REFUSED),
        (review(user={}), Code.REFUSED),
        (_answer() | {"status": {**_answer()["status"], "audiences": []}}, Code.AUDIENCE),
        (_answer() | {"status": {**_answer()["status"], "audiences": ["api"]}}, Code.AUDIENCE),
        (_answer(username="system:serviceaccount:topo:other"), Code.ACCOUNT),
        (_answer(username="admin"), Code.NO_ACCOUNT),
        (_answer(username="system:serviceaccount:topo:topo-worker\n"), Code.NO_ACCOUNT),
        (_answer(extra={}), Code.NO_NODE),
    ],
)
async def test_what_the_api_server_says_counts_and_not_what_the_token_says(
    world: World, answer: dict[str, Any], code: Code
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
    assert found.code == Code.UNREVIEWED
    assert found.retry_after_s == REST_S


@given(st.binary(max_size=300) | st.text(max_size=300).map(str.encode))
def test_no_answer_at_all_makes_an_account_of_rubbish(answer: bytes) -> None:
    try:
        found = reviewed(answer)
    except ValueError:
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
    assert found.code is Code.NO_ACCOUNT
    assert world.server.asked == []


async def test_a_known_account_is_not_asked_for_again_while_it_is_fresh(world: World) -> None:
    for _ in range(100):
        await world.accepted()
    await asyncio.sleep(FRESH_S - 1)
    await world.accepted()
    assert len(world.server.asked) == 1


async def test_a_known_account_is_asked_for_again_beside_the_call(world: World) -> None:
    """The call does not wait, and the next one knows."""
    await world.accepted()
    await asyncio.sleep(FRESH_S)
    world.server.held = asyncio.Event()
    world.server.revoked.add(GOOD)
    await world.accepted()
    assert len(world.server.asked) == 1, "asked when the call is over"
    world.server.held.set()
    await asyncio.sleep(0.1)
    assert (await world.denied()).code == Code.REFUSED
    assert len(world.server.asked) == 2


async def test_who_was_silent_for_long_waits_for_the_answer(world: World) -> None:
    """A token of a pod that is gone is not good for one more call."""
    await world.accepted()
    world.server.revoked.add(GOOD)
    await asyncio.sleep(LATE_S)
    assert (await world.denied()).code == Code.REFUSED


async def test_a_token_near_its_end_is_believed_no_longer_than_that(world: World) -> None:
    text = token(ends_s=LEAST_S + 10)
    await world.accepted(text)
    world.server.spoilt = (500, b"")
    await asyncio.sleep(LEAST_S + 9)
    await world.accepted(text)
    await asyncio.sleep(1)
    assert (await world.denied(text)).code == Code.UNREVIEWED


async def test_while_the_api_server_is_away_known_accounts_count_until_their_tokens_end(
    world: World,
) -> None:
    """And nobody new is let in, but told to come back."""
    text = token(ends_s=2000.0)
    await world.accepted(text)
    world.server.spoilt = (503, b"")
    for _ in range(19):
        await asyncio.sleep(100)
        await world.accepted(text)
    stranger = await world.denied(token("node-2"))
    assert (stranger.code, stranger.retry_after_s) == (Code.UNREVIEWED, REST_S)
    await asyncio.sleep(100)
    assert (await world.denied(text)).code == Code.UNREVIEWED
    world.server.spoilt = None
    await asyncio.sleep(REST_S)
    await world.accepted(text)


async def test_no_account_is_believed_for_more_than_an_hour_without_an_answer(world: World) -> None:
    text = token(ends_s=1e9)
    await world.accepted(text)
    world.server.spoilt = (503, b"")
    await asyncio.sleep(MOST_S - 1)
    await world.accepted(text)
    await asyncio.sleep(1)
    assert (await world.denied(text)).retry_after_s


async def test_a_clock_that_is_ahead_makes_no_question_of_each_report(world: World) -> None:
    """The API server says that the token is good, ten minutes after its end by our clock."""
    world.skew_s = 4200.0
    for _ in range(10):
        await world.accepted()
        await asyncio.sleep(LEAST_S / 10 - 0.1)
    assert len(world.server.asked) == 1


async def test_a_refused_token_is_not_asked_about_again_for_a_while(world: World) -> None:
    world.server.revoked.add(GOOD)
    for _ in range(100):
        assert (await world.denied()).code == Code.REFUSED
    assert len(world.server.asked) == 1
    world.server.revoked.clear()
    await asyncio.sleep(REFUSED_S)
    await world.accepted()


async def test_many_calls_with_one_token_are_one_question(world: World) -> None:
    world.server.held = asyncio.Event()
    calls = [asyncio.ensure_future(world.ask()) for _ in range(50)]
    await asyncio.sleep(0.1)
    calls[0].cancel()  # its caller hung up; the others still get their answer
    world.server.held.set()
    found = await asyncio.gather(*calls[1:])
    assert all(isinstance(each, Account) for each in found)
    assert len(world.server.asked) == 1


async def test_new_tokens_are_asked_about_a_few_at_once_and_no_more_than_so_many_wait(
    world: World,
) -> None:
    world.server.held = asyncio.Event()
    texts = [token(f"node-{n}", number=n) for n in range(WAITING + 10)]
    senders = [f"10.0.0.{n}" for n in range(len(texts))]
    calls = [
        asyncio.ensure_future(world.ask(text, sender=sender))
        for text, sender in zip(texts, senders, strict=True)
    ]
    await asyncio.sleep(1)
    assert world.server.most_at_once == AT_ONCE
    too_many = [call.result() for call in calls if call.done()]
    assert len(too_many) == 10
    assert {each.code for each in too_many if isinstance(each, Denied)} == {Code.UNREVIEWED}
    world.server.held.set()
    found = await asyncio.gather(*calls[:WAITING])
    assert all(isinstance(each, Account) for each in found)


async def test_the_workers_of_a_new_master_are_known_at_the_agreed_pace(
    world: World,
) -> None:
    """Each comes back as the master asks; of 10,000 the last is known before any could be stale."""

    async def worker(number: int) -> None:
        text, sender = token(number=number), f"10.0.{number % 256}.{number // 256}"
        while isinstance(found := await world.ask(text, sender=sender), Denied):
            assert found.retry_after_s
            await asyncio.sleep(found.retry_after_s)

    await asyncio.gather(*(worker(number) for number in range(2_000)))
    assert world.unix() < 6
    assert 10_000 / PER_S < 30
    assert len(world.server.asked) == 2_000


async def test_who_sends_refused_tokens_without_end_is_not_asked_for(world: World) -> None:
    """Forged ones that say all that is right of themselves; others go on."""
    forged = [token(number=n) for n in range(1, 200)]
    world.server.revoked.update(forged)
    codes = [(await world.denied(text)).code for text in forged]
    assert codes[: int(REFUSED_BURST)] == [Code.REFUSED] * int(REFUSED_BURST)
    assert set(codes[int(REFUSED_BURST) :]) == {Code.TOO_MANY}
    assert len(world.server.asked) == REFUSED_BURST
    await world.accepted(sender="10.0.0.2")
    assert (await world.denied(token("node-3"))).retry_after_s == 1
    await asyncio.sleep(1)
    await world.accepted(token("node-3"))


async def test_who_sends_many_at_once_has_few_asked_about(world: World) -> None:
    """Before the first of them is refused."""
    world.server.held = asyncio.Event()
    forged = [token(number=n) for n in range(1, 200)]
    world.server.revoked.update(forged)
    calls = [asyncio.ensure_future(world.ask(text)) for text in forged]
    await asyncio.sleep(0.1)
    world.server.held.set()
    await asyncio.gather(*calls)
    assert len(world.server.asked) == REFUSED_BURST


async def test_a_stranger_behind_the_same_address_keeps_no_revoked_token_alive(
    world: World,
) -> None:
    await world.accepted()
    forged = [token(number=n) for n in range(1, 60)]
    world.server.revoked.update((GOOD, *forged))
    await asyncio.sleep(LATE_S)
    for text in forged:
        await world.denied(text)
    assert (await world.denied()).code == Code.REFUSED


async def test_after_a_failure_nothing_is_asked_for_a_while(world: World) -> None:
    world.server.spoilt = (500, b"")
    for number in range(50):
        assert (await world.denied(token(number=number))).code == Code.UNREVIEWED
    assert len(world.server.asked) == 1
    await asyncio.sleep(REST_S)
    await world.denied()
    assert len(world.server.asked) == 2
    assert world.count("failed") == 2


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


async def test_how_long_the_api_server_asks_to_wait_is_heeded_within_reason(world: World) -> None:
    details = {"kind": "Status", "code": 429, "details": {"retryAfterSeconds": 9}}
    world.server.spoilt = (429, json.dumps(details).encode())
    assert (await world.denied()).retry_after_s == 9


async def test_an_api_server_that_does_not_answer_is_given_up(world: World) -> None:
    world.server.held = asyncio.Event()
    began_s = world.clock()
    assert (await world.denied()).code == Code.UNREVIEWED
    assert world.clock() - began_s == pytest.approx(TIMEOUT_S)


async def test_accounts_are_remembered_within_a_limit(
    world: World,
) -> None:
    """The newest are kept."""
    most = NODES * KEPT_PER_NODE
    for number in range(most + 10):
        await world.accepted(token(number=number))
    assert world.registry.get_sample_value("topo_master_kube_known_tokens") == most
    await world.accepted(token(number=most + 9))
    assert len(world.server.asked) == most + 10
    await world.accepted(token(number=0))
    assert len(world.server.asked) == most + 11


@pytest.mark.slow
async def test_refused_tokens_are_remembered_within_a_limit(world: World) -> None:
    """The newest are kept: the oldest is asked about again, before its time."""
    texts = [token(number=number) for number in range(REFUSED_KEPT + 1)]
    world.server.revoked.update(texts)
    for number, text in enumerate(texts):
        await world.denied(text, sender=f"10.1.{number // 256}.{number % 256}")
    assert world.unix() < REFUSED_S
    await world.denied(texts[-1])
    assert len(world.server.asked) == len(texts)
    await world.denied(texts[0])
    assert len(world.server.asked) == len(texts) + 1


async def test_a_token_is_good_for_whom_it_is_wanted_and_for_nobody_else(world: World) -> None:
    """What was found out for the workers' port is judged anew for another one."""
    await world.accepted()
    masters = Wanted(account="topo:topo-master", audience=AUDIENCE)
    assert (await world.denied(wanted=masters)).code == Code.ACCOUNT
    own = token(node=None, account="topo:topo-master")
    assert (await world.accepted(own, wanted=masters)).name == "topo:topo-master"
    assert (await world.denied(own)).code == Code.ACCOUNT


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
        assert (await world.denied(other)).code == Code.REFUSED
        server.spoilt = (201, b'{"kind":"TokenReview","status":{"authenticated":true')
        assert (await world.denied(token(number=3))).code == Code.UNREVIEWED


async def test_one_that_is_gone_is_told(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1")
    async with client_of(path) as client:
        world = World(client.call)
        found = await world.denied()
        assert found.code == Code.UNREVIEWED
        assert "API server" in found.refusal.fix

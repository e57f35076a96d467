"""The webhook's port on real TLS: what API servers get, and what anybody else can do to it."""

import asyncio
import datetime as dt
import gzip
import io
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass

import prometheus_client as prom
import pytest
from aiohttp import ClientSession, ClientSSLError, TCPConnector
from yarl import URL

from master.admission.certificates import Pair, issue
from master.admission.metrics import AdmissionMetrics
from master.admission.server import (
    ANSWERS_BYTES,
    BODIES_BYTES,
    BY_LINKS_PATH,
    CONNECTIONS,
    MAX_BODY_BYTES,
    PATH,
    admission_app,
)
from tests.admission.asking import asked, response
from tests.gangs.admission.patching import RULES, sample, task, volcano
from tests.support.waiting import CEILING_S, eventually
from topo.kit.serving.connections import Connections
from topo.kit.tasks import Site, start
from topo.kit.tls import empty_server_context, load_pair

NAME = "topo-master-admission.topo.svc"
IN_FLIGHT = 600
"""Requests that a kube-apiserver works on at once: its --max-requests-inflight and
--max-mutating-requests-inflight together, by default."""


@dataclass
class Port:
    """The port, who trusts its certificate, and what it counted."""

    url: str
    tls: ssl.SSLContext
    trust: ssl.SSLContext
    pair: Pair
    session: ClientSession
    registry: prom.CollectorRegistry

    async def post(self, content: bytes, *, path: str = PATH, **headers: str) -> tuple[int, bytes]:
        async with (
            asyncio.timeout(CEILING_S),
            self.session.post(
                self.url + path, data=io.BytesIO(content), headers=headers, server_hostname=NAME
            ) as answer,
        ):
            return answer.status, await answer.read()

    def counted(self, kind: str, result: str) -> float:
        name, labels = "topo_master_admission_reviews_total", {"kind": kind, "result": result}
        return self.registry.get_sample_value(name, labels) or 0.0


@pytest.fixture
async def port() -> AsyncIterator[Port]:
    pair = issue((NAME,), dt.datetime.now(dt.UTC), dt.timedelta(days=1))
    registry, tls = prom.CollectorRegistry(), empty_server_context()
    site = Site(
        app=admission_app(lambda: RULES, "deny", AdmissionMetrics(registry)),
        port=0,
        connections=Connections("admission", CONNECTIONS, ANSWERS_BYTES),
        host="127.0.0.1",
        tls=tls,
        drain_s=0.1,
    )
    trust = ssl.create_default_context(cadata=pair.authority.decode())
    trust.verify_flags |= ssl.VERIFY_X509_STRICT
    async with AsyncExitStack() as stack:
        ((_, number),) = await start(site, stack)
        connector = TCPConnector(ssl=trust)
        session = await stack.enter_async_context(ClientSession(connector=connector))
        yield Port(f"https://127.0.0.1:{number}", tls, trust, pair, session, registry)


@pytest.fixture
async def serving(port: Port) -> Port:
    load_pair(port.tls, port.pair.chain, port.pair.key)
    return port


async def test_a_review_is_answered_over_tls_that_is_verified_strictly(serving: Port) -> None:
    status, answer = await serving.post(asked(sample()))
    assert status == 200
    assert response(answer)["patch"]
    assert serving.counted("volcano-job", "stamped") == 1
    count = "topo_master_admission_review_seconds_count"
    assert serving.registry.get_sample_value(count) == 1


async def test_a_pod_without_a_group_is_gated_only_where_its_namespace_sends_it(
    serving: Port,
) -> None:
    """The webhook of such namespaces has a path of its own."""
    limits = {"limits": {"metax-tech.com/gpu": "2"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"resources": limits}]}}
    _, elsewhere = await serving.post(asked(pod))
    assert "patch" not in response(elsewhere)
    _, here = await serving.post(asked(pod), path=BY_LINKS_PATH)
    assert [each["path"] for each in response(here)["patch"]][-1] == "/spec/schedulingGates"
    assert serving.counted("pod", "gated") == 1


async def test_a_refusal_is_a_review_of_status_200(serving: Port) -> None:
    status, answer = await serving.post(asked(volcano(task("w", 4, gpu_group_size="60"))))
    assert status == 200
    assert response(answer)["status"]["code"] == 422
    assert serving.counted("volcano-job", "refused") == 1


async def test_what_depends_on_groups_that_are_not_known_is_left_to_the_failure_policy(
    serving: Port,
) -> None:
    native = volcano(task("w", 4, gpu_group_size="16", placement_mode="native"))
    status, answer = await serving.post(asked(native))
    assert status == 503
    assert "no groups of nodes are known, or not yet" in answer.decode()
    assert serving.counted("volcano-job", "undecided") == 1


async def test_without_a_certificate_nobody_is_answered_and_with_one_at_once(port: Port) -> None:
    with pytest.raises((ClientSSLError, OSError)):
        await port.post(asked(sample()))
    load_pair(port.tls, port.pair.chain, port.pair.key)
    assert (await port.post(asked(sample())))[0] == 200


async def test_a_new_certificate_is_served_to_who_comes_from_then_on(serving: Port) -> None:
    other = issue((NAME,), dt.datetime.now(dt.UTC), dt.timedelta(days=1))
    assert (await serving.post(asked(sample())))[0] == 200
    load_pair(serving.tls, other.chain, other.key)
    assert (await serving.post(asked(sample())))[0] == 200, "a connection goes on"
    trust = ssl.create_default_context(cadata=other.authority.decode())
    async with (
        asyncio.timeout(CEILING_S),
        ClientSession(connector=TCPConnector(ssl=trust)) as session,
        session.post(serving.url + PATH, data=asked(sample()), server_hostname=NAME) as answer,
    ):
        assert answer.status == 200


DEEP = b'{"apiVersion":' + b"[" * 200_000
HOSTILE: dict[str, tuple[bytes, dict[str, str], int]] = {
    "64 MiB": (b" " * (64 << 20), {}, 413),
    "64 MiB packed": (gzip.compress(b" " * (64 << 20)), {"Content-Encoding": "gzip"}, 413),
    "deep": (b"[" * 100_000, {}, 400),
    "more values than a review has": (DEEP, {}, 413),
    "no JSON": (b"\x00" * 100, {}, 400),
    "no gzip": (b"x", {"Content-Encoding": "gzip"}, 400),
    "unknown coding": (b"x", {"Content-Encoding": "br"}, 415),
}


@pytest.mark.parametrize("name", HOSTILE)
async def test_hostile_bodies_are_refused_and_the_next_review_is_answered(
    serving: Port, name: str
) -> None:
    content, headers, expected = HOSTILE[name]
    try:
        status, _ = await serving.post(content, **headers)
    except OSError:  # the answer came while it still sent
        status = expected
    assert status == expected
    assert (await serving.post(asked(sample())))[0] == 200
    assert serving.counted("other", "unreadable") == 1


async def test_a_packed_review_is_answered(serving: Port) -> None:
    packed = gzip.compress(asked(sample()))
    assert (await serving.post(packed, **{"Content-Encoding": "gzip"}))[0] == 200


async def test_a_review_as_large_as_an_api_server_takes_is_answered(serving: Port) -> None:
    job = sample()
    job["metadata"]["annotations"] = {"note": "x" * (3 << 20)}
    assert len(asked(job)) < MAX_BODY_BYTES
    assert (await serving.post(asked(job)))[0] == 200


async def test_as_many_reviews_at_once_as_an_api_server_sends_are_all_answered(
    serving: Port,
) -> None:
    """A pod whose review is not answered is made without a gate, and its group may be split."""
    everybody_sends = asyncio.Barrier(IN_FLIGHT)
    content = asked(sample())

    async def body() -> AsyncIterator[bytes]:
        yield content[:1]
        await everybody_sends.wait()
        yield content[1:]

    async with (
        asyncio.timeout(CEILING_S),
        ClientSession(connector=TCPConnector(ssl=serving.trust, limit=0)) as session,
    ):

        async def status() -> int:
            url = serving.url + PATH
            async with session.post(url, data=body(), server_hostname=NAME) as answer:
                return answer.status

        found = await asyncio.gather(*(status() for _ in range(IN_FLIGHT)))
    assert found == [200] * IN_FLIGHT


async def test_large_reviews_that_do_not_end_give_way_and_a_job_is_still_stamped(
    serving: Port,
) -> None:
    """Nobody here says who he is. Without the limit each is kept until its time is over."""
    senders = 2 * BODIES_BYTES // MAX_BODY_BYTES
    number = URL(serving.url).port
    head = b"POST /admission HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n" % MAX_BODY_BYTES

    async def end() -> bytes:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", number, ssl=serving.trust, server_hostname=NAME
        )
        try:
            writer.write(head + bytes(MAX_BODY_BYTES - 1))
            return await reader.readline()
        except OSError:
            return b""
        finally:
            writer.close()

    ends = [asyncio.ensure_future(end()) for _ in range(senders)]
    await eventually(lambda: sum(each.done() for each in ends) >= senders // 2)
    assert (await serving.post(asked(sample())))[0] == 200
    assert {each.result() for each in ends if each.done()} == {b""}
    for each in ends:
        each.cancel()
    await asyncio.gather(*ends, return_exceptions=True)


async def test_an_expectation_that_is_not_known_is_refused_as_a_problem(serving: Port) -> None:
    async with (
        asyncio.timeout(CEILING_S),
        serving.session.post(
            serving.url + PATH, headers={"Expect": "the impossible"}, server_hostname=NAME
        ) as answer,
    ):
        assert answer.status == 417
        assert answer.content_type == "application/problem+json"
        assert (await answer.json(content_type=None))["field"] == "Expect"


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", PATH, 405), ("POST", "/", 404), ("POST", f"{PATH}/gpu", 404)],
)
async def test_there_are_no_calls_but_the_two_of_the_webhooks(
    serving: Port, method: str, path: str, status: int
) -> None:
    async with (
        asyncio.timeout(CEILING_S),
        serving.session.request(method, serving.url + path, server_hostname=NAME) as answer,
    ):
        assert answer.status == status

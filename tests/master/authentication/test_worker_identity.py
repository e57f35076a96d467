"""Workers in a cluster report by the tokens of their pods; Kubernetes says whose they are."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from master.__main__ import warn_of_tokens
from master.kube.service_accounts.token_review import FRESH_S, LATE_S
from tests.kube.fake_server import FakeServer
from tests.kube.plain import kubeconfig, serving
from tests.kube.service_accounts.reviewing import PATH, Reviewer
from tests.kube.service_accounts.reviewing import token as any_token
from tests.master.world import TOKEN, Answer, Master, facts, running, settings
from tests.support.raw_http import answered, bomb, packed_head
from topo.model.conditions.sources import ReportCondition

pytestmark = pytest.mark.virtual_time
NAMESPACE = "--pod-namespace=topo"


def token(node: str | None = "n1", **said: Any) -> str:
    """A token that lasts longer than this test."""
    return any_token(node, **{"ends_s": time.time() + 1e6, **said})


@asynccontextmanager
async def in_a_cluster(folder: Path, *flags: str) -> AsyncIterator[tuple[Master, Reviewer]]:
    """A master, and the API server that it asks about tokens."""
    objects, reviewer = FakeServer(), Reviewer()

    async def handle(request: web.Request) -> web.StreamResponse:
        is_review = request.path == PATH
        return await (reviewer.handle(request) if is_review else objects.handle(request))

    async with serving(handle) as url:
        path = kubeconfig(folder, url)
        async with running("--mode=dragonfly", f"--kubeconfig={path}", *flags) as master:
            yield master, reviewer
        objects.cut_watches()


async def refused(master: Master) -> dict[str, str]:
    """By code: what is said of the reports that were refused."""
    sources = (await master.get("/v1/topology")).json["sources"]
    (workers,) = (each for each in sources if each["source"] == "workers")
    return {each["code"]: each["text"] for each in workers["warnings"]}


def denied(answer: Answer, code: str, status: int = 401) -> dict[str, Any]:
    """The problem of an answer that says why a token does not count."""
    assert answer.status == status, answer.body
    found: dict[str, Any] = answer.json
    assert found["code"] == code
    assert found["detail"]
    assert found["fix"]
    return found


async def test_a_pods_token_reports_for_the_node_of_its_pod_and_for_no_other(
    tmp_path: Path,
) -> None:
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, reviewer):
        own = master.worker("n1", token())
        assert (await own.full(facts("n1"))).status == 200
        assert (await own.beat()).status == 200
        assert len(reviewer.asked) == 1
        foreign = await master.worker("n2", token()).full(facts("n2"))
        assert "n1" in denied(foreign, "foreign-report", 403)["fix"]
        assert (await master.get("/v1/nodes/n2/gpus")).status == 404


async def test_the_account_is_topo_worker_of_the_masters_namespace(
    tmp_path: Path,
) -> None:
    async with in_a_cluster(tmp_path, "--pod-namespace=here") as (master, _):
        good = token(account="here:topo-worker")
        assert (await master.worker("n1", good).full(facts("n1"))).status == 200
        found = await master.worker("n1", token()).full(facts("n1"))
        assert "here:topo-worker" in denied(found, ReportCondition.WRONG_ACCOUNT)["fix"]


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"audience": ("https://kubernetes.default.svc",)}, ReportCondition.WRONG_AUDIENCE),
        ({"account": "topo:default"}, ReportCondition.WRONG_ACCOUNT),
        ({"node": None}, ReportCondition.TOKEN_WITHOUT_NODE),
    ],
)
async def test_another_token_of_the_cluster_is_refused_counted_listed_and_logged_once(
    tmp_path: Path, said: dict[str, Any], code: ReportCondition
) -> None:
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, _):
        worker = master.worker("n1", token(**said))
        with capture_logs() as logs:
            for _ in range(20):
                denied(await worker.full(facts("n1")), code)
        told = [line for line in logs if line["event"] == "reports are refused"]
        assert [line["code"] for line in told] == [code]
        page = (await master.get("/metrics")).body.decode()
        (counted,) = (line for line in page.splitlines() if f'result="{code}"' in line)
        assert counted.startswith("topo_master_reports_total")
        assert counted.endswith(" 20.0")
        await asyncio.sleep(10)
        assert (await refused(master)).keys() == {code}


async def test_a_token_that_kubernetes_refuses_is_over_within_a_beat_of_its_freshness(
    tmp_path: Path,
) -> None:
    """Its pod was deleted: what it said stays until the node is stale, and it says nothing more."""
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, reviewer):
        mine = token()
        worker = master.worker("n1", mine)
        await worker.full(facts("n1"))
        reviewer.revoked.add(mine)
        statuses = []
        for _ in range(int(FRESH_S / 10) + 1):
            await asyncio.sleep(10.01)  # else rounding decides whether the twelfth is fresh
            statuses.append((await worker.beat()).status)
        assert statuses[-2:] == [200, 401]
        assert set(statuses[:-1]) == {200}
        assert "invalidated" in denied(await worker.beat(), ReportCondition.TOKEN_REFUSED)["detail"]


async def test_while_the_api_server_is_away_who_is_known_reports_and_others_are_told_to_wait(
    tmp_path: Path,
) -> None:
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, reviewer):
        known = master.worker("n1", token())
        await known.full(facts("n1"))
        reviewer.spoilt = (503, b"")
        await asyncio.sleep(LATE_S)
        assert (await known.beat()).status == 200
        new = master.worker("n2", token("n2"))
        answer = await new.full(facts("n2"))
        assert "Kubernetes" in denied(answer, ReportCondition.TOKEN_NOT_REVIEWED, 503)["detail"]
        assert answer.headers["Retry-After"] == "2"
        reviewer.spoilt = None
        await asyncio.sleep(2)
        assert (await new.full(facts("n2"))).status == 200


async def test_tokens_of_the_file_count_beside_those_of_pods(
    tmp_path: Path, token_flag: str
) -> None:
    """A host outside the cluster has one; nothing is asked about it."""
    async with in_a_cluster(tmp_path, NAMESPACE, token_flag) as (master, reviewer):
        assert (await master.worker("outside", TOKEN).full(facts("outside"))).status == 200
        assert reviewer.asked == []
        assert (await master.worker("n1", token()).full(facts("n1"))).status == 200
        nobodys = await master.worker("n2", "a-token-of-nobody").full(facts("n2"))
        assert "--worker-token-file" in denied(nobodys, ReportCondition.NO_ACCOUNT)["fix"]
        none = await master.worker("n3", None).full(facts("n3"))
        assert none.status == 401


@pytest.mark.parametrize("flags", [(), (NAMESPACE, "--kubernetes=off")])
async def test_where_no_account_is_named_or_no_cluster_is_asked_no_pods_token_counts(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    async with in_a_cluster(tmp_path, *flags) as (master, reviewer):
        assert (await master.worker("n1", token()).full(facts("n1"))).status == 401
        assert reviewer.asked == []


async def test_of_a_body_nothing_is_read_before_kubernetes_has_said_whose_it_is(
    tmp_path: Path,
) -> None:
    """A forged token with a bomb: the answer comes before the body, and nothing is unpacked."""
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, reviewer):
        forged = token()
        reviewer.revoked.add(forged)
        port = int(master.reports_url.rpartition(":")[2])
        head = packed_head("POST", "/v1/reports", 100_000, f"Authorization: Bearer {forged}")
        assert (await answered(port, head)).startswith(b"HTTP/1.1 401 ")
        packed = bomb(64)
        line = f"Authorization: Bearer {forged}"
        sent = packed_head("POST", "/v1/reports", len(packed), line, "Connection: close") + packed
        assert (await answered(port, sent)).startswith(b"HTTP/1.1 401 ")


async def test_no_log_and_no_answer_shows_a_token(tmp_path: Path) -> None:
    """Nor what it says of itself, but for whom it is."""
    texts = [token(), token(number=2), token(account="topo:other"), token()[:-5] + "x.y.z"]
    async with in_a_cluster(tmp_path, NAMESPACE) as (master, reviewer):
        reviewer.revoked.add(texts[1])
        with capture_logs() as logs:
            answers = [(await master.worker("n1", t).full(facts("n1"))).body for t in texts]
        pages = [(await master.get(path)).body for path in ("/metrics", "/v1/topology")]
    said = repr(logs) + repr(answers) + repr(pages)
    for text in texts:
        assert all(part not in said for part in text.split(".")[1:] if len(part) > 9)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        ((), "worker reports are refused: there is no --worker-token-file"),
        (("--worker-token-file=/tokens",), None),
        (("--kubeconfig=/k",), "--pod-namespace"),
        (("--kubeconfig=/k", NAMESPACE), None),
        (("--kubeconfig=/k", NAMESPACE, "--kubernetes=off"), "there is no --worker-token-file"),
        (("--allow-anonymous-workers",), "anybody can speak for any node"),
    ],
)
def test_a_start_says_where_no_report_will_be_taken(
    flags: tuple[str, ...], told: str | None
) -> None:
    with capture_logs() as logs:
        warn_of_tokens(settings(*flags))
    assert bool(logs) == (told is not None)
    assert told is None or told in logs[0]["event"]

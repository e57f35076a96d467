"""The address on the Lease is believed once a pod of the masters' account has it."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import prometheus_client as prom
import pytest

from master.kube.client import Call
from master.kube.errors import KubeError
from master.kube.service_accounts.token_review import TokenReviews
from master.replicas.address import LeaderAddress
from master.replicas.credential import Credential
from master.replicas.leader_pod import RETRY_S, CheckedLeader, OtherMasters
from tests.replicas.test_credential import MASTERS, token_of
from topo.kit.addresses import parse_networks

pytestmark = pytest.mark.virtual_time

LEADER = LeaderAddress("http://10.0.0.8:9001", "http://10.0.0.8:10001")


@dataclass
class Pods:
    """Answers lists of pods, each an account and an address; remembers what was asked."""

    pods: list[tuple[str, str]]
    fault: KubeError | None = None
    asked: list[Call] = field(default_factory=list)

    async def call(self, call: Call) -> bytes:
        self.asked.append(call)
        if self.fault is not None:
            raise self.fault
        items: list[Any] = [
            {
                "metadata": {"name": f"pod-{number}", "namespace": "topo", "uid": str(number)},
                "spec": {"serviceAccountName": account},
                "status": {"podIP": address} if address else {},
            }
            for number, (account, address) in enumerate(self.pods)
        ]
        version = {"metadata": {"resourceVersion": "1"}}
        return orjson.dumps({"apiVersion": "v1", "kind": "PodList", "items": items, **version})


@asynccontextmanager
async def checked(
    home: Path, pods: Pods, token: str = "", networks: Sequence[str] = ()
) -> AsyncIterator[tuple[CheckedLeader, list[LeaderAddress]]]:
    """A check that runs, and what it believed."""
    path, believed = home / "replica-token", list[LeaderAddress]()
    path.write_text(token or token_of(MASTERS, "a"))
    reviews = TokenReviews(pods.call, prom.CollectorRegistry(), nodes=1)
    others = OtherMasters(pods, Credential(path, reviews), parse_networks(networks))
    leader = CheckedLeader(others, believe=believed.append)
    work = asyncio.create_task(leader.run())
    try:
        yield leader, believed
    finally:
        work.cancel()


@pytest.mark.parametrize("address", ["10.0.0.8", "::ffff:10.0.0.8"])
async def test_an_address_of_a_pod_of_ours_is_believed(tmp_path: Path, address: str) -> None:
    pods = Pods([("topo-master", "10.0.0.7"), ("topo-master", ""), ("topo-master", address)])
    async with checked(tmp_path, pods) as (leader, believed):
        assert leader.name(LEADER) == LeaderAddress(), "nothing is believed before"
        await asyncio.sleep(1)
        assert believed == [LEADER]
        assert leader.name(LEADER) == LEADER
        await asyncio.sleep(60)
    (asked,) = pods.asked
    assert asked.path == "/api/v1/namespaces/topo/pods"
    assert asked.query["fieldSelector"].startswith("spec.serviceAccountName=topo-master,")


@pytest.mark.parametrize(
    "named",
    [
        LEADER,
        LeaderAddress("http://10.0.0.7:9001", "http://10.0.0.66:10001"),
        LeaderAddress("http://[fd00::66]:9001", "http://10.0.0.7:10001"),
    ],
)
async def test_the_address_of_any_other_pod_or_service_is_not(
    tmp_path: Path, named: LeaderAddress
) -> None:
    pods = Pods([("topo-master", "10.0.0.7"), ("stranger", "10.0.0.8")])
    async with checked(tmp_path, pods) as (leader, believed):
        assert leader.name(named) == LeaderAddress()
        await asyncio.sleep(10 * RETRY_S)
    assert believed == []


async def test_a_pod_that_the_api_server_shows_late_is_believed_then(tmp_path: Path) -> None:
    pods = Pods([], fault=KubeError("no answer"))
    async with checked(tmp_path, pods) as (leader, believed):
        leader.name(LEADER)
        await asyncio.sleep(5 * RETRY_S)
        pods.fault, pods.pods = None, []
        await asyncio.sleep(5 * RETRY_S)
        assert believed == []
        pods.pods.append(("topo-master", "10.0.0.8"))
        await asyncio.sleep(2 * RETRY_S)
        assert believed == [LEADER]


async def test_an_address_that_is_named_no_more_is_not_believed(tmp_path: Path) -> None:
    pods, other = Pods([]), LeaderAddress("http://10.0.0.9:9001")
    async with checked(tmp_path, pods) as (leader, believed):
        leader.name(LEADER)
        await asyncio.sleep(RETRY_S)
        leader.name(other)
        pods.pods = [("topo-master", "10.0.0.8"), ("topo-master", "10.0.0.9")]
        await asyncio.sleep(3 * RETRY_S)
        assert believed == [other]
        leader.name(LeaderAddress())
        await asyncio.sleep(3 * RETRY_S)
        assert believed == [other]


@pytest.mark.parametrize(
    ("networks", "named", "is_believed"),
    [
        ((), LEADER, False),
        (("10.0.0.9",), LEADER, False),
        (("10.0.0.8",), LEADER, True),
        (("::ffff:10.0.0.0/120",), LEADER, True),
        (("10.0.0.8",), LeaderAddress("http://10.0.0.8:9001", "http://10.0.0.9:10001"), False),
        ((), LeaderAddress("https://10.0.0.8:9001", "https://10.0.0.8:10001"), True),
        ((), LeaderAddress("http://10.0.0.8:9001", "https://10.0.0.8:10001"), False),
        (
            (),
            LeaderAddress("https://10.0.0.8:9001", "https://10.0.0.8:1", "http://10.0.0.8:2"),
            False,
        ),
    ],
)
async def test_masters_that_share_a_token_need_be_no_pods_but_named_or_proven_by_tls(
    tmp_path: Path, networks: tuple[str, ...], named: LeaderAddress, *, is_believed: bool
) -> None:
    pods = Pods([])
    shared = "shared-by-masters"
    async with checked(tmp_path, pods, shared, networks) as (leader, believed):
        leader.name(named)
        await asyncio.sleep(1)
        assert believed == [named] * is_believed
        assert bool(leader.doubt) != is_believed
    assert pods.asked == []

"""A secret that others can read is said once, in the log and by the doctor, with the next step."""

import asyncio
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from master.authentication.cleartext import API_TOKEN, WORKER_TOKEN, CleartextSecrets
from master.tree.document_cache import REST_MAX_S
from tests.master.world import TOKEN, running, settings
from topo.kit.addresses import parse_networks

Log = list[dict[str, Any]]


def accept(cleartext: CleartextSecrets, *peers: str, scheme: str = "http") -> Log:
    """What is logged while the tokens of workers at these addresses are accepted."""
    accepted = cleartext.accepting(WORKER_TOKEN)
    with capture_logs() as lines:
        for peer in peers:
            accepted(make_mocked_request("POST", "/").clone(scheme=scheme, remote=peer))
    return [dict(line) for line in lines]


def test_the_first_token_from_beyond_the_machine_is_said_and_no_other() -> None:
    cleartext = CleartextSecrets()
    (line,) = accept(cleartext, "10.0.0.5", "10.0.0.5", "10.0.0.6", "fd00::1")
    (warning,) = cleartext.warnings
    assert (line["code"], line["what"]) == (warning.code, warning.text)
    assert "10.0.0.5" in warning.text
    assert "--tls-cert" in warning.fix
    assert "--server-tls" in warning.fix


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.0.0.6", "::1", "::ffff:127.0.0.1", ""])
def test_what_stays_on_the_machine_is_no_cleartext(peer: str) -> None:
    """Nor is a peer that is gone before it can be looked at."""
    cleartext = CleartextSecrets()
    assert accept(cleartext, peer) == []
    assert cleartext.warnings == ()


def test_what_came_over_tls_is_no_cleartext() -> None:
    assert accept(CleartextSecrets(), "10.0.0.5", scheme="https") == []


def test_what_a_proxy_that_ends_tls_passes_on_is_no_cleartext() -> None:
    """However its address is written; whoever goes round the proxy is said."""
    cleartext = CleartextSecrets(parse_networks(["10.1.0.0/16", "fd00::7", "::ffff:10.0.0.7"]))
    assert accept(cleartext, "10.1.2.3", "::ffff:10.1.2.3", "fd00::7", "10.0.0.7") == []
    (line,) = accept(cleartext, "10.2.0.1")
    assert "10.2.0.1" in line["what"]


def test_tokens_of_workers_and_of_the_api_are_said_apart() -> None:
    cleartext = CleartextSecrets()
    accept(cleartext, "10.0.0.5")
    request = make_mocked_request("POST", "/").clone(remote="10.0.0.9")
    cleartext.accepting(API_TOKEN)(request)
    assert [w.code for w in cleartext.warnings] == [WORKER_TOKEN.code, API_TOKEN.code]


@pytest.mark.parametrize(
    ("address", "flags", "code"),
    [
        ("http://10.0.0.1", ("--cluster-manager-insecure",), "manager-login-in-clear"),
        ("http://manager:8080", ("--cluster-manager-insecure",), "manager-login-in-clear"),
        ("http://127.0.0.1:8080", ("--cluster-manager-insecure",), None),
        ("http://[::1]:8080", ("--cluster-manager-insecure",), None),
        ("https://10.0.0.1", ("--cluster-manager-insecure",), "manager-unverified"),
        ("https://localhost", ("--cluster-manager-insecure",), None),
        ("https://10.0.0.1", (), None),
    ],
)
def test_a_login_that_others_can_read_on_its_way_to_the_manager_is_said(
    address: str, flags: tuple[str, ...], code: str | None
) -> None:
    cleartext = CleartextSecrets()
    with capture_logs() as lines:
        cleartext.judge_manager(
            settings("--mode=switchbox", f"--cluster-manager-address={address}", *flags)
        )
    assert [warning.code for warning in cleartext.warnings] == ([code] if code else [])
    assert [line["code"] for line in lines] == ([code] if code else [])


def test_a_manager_that_is_not_asked_is_not_judged() -> None:
    cleartext = CleartextSecrets()
    flags = ("--cluster-manager-address=http://10.0.0.1", "--cluster-manager-insecure")
    cleartext.judge_manager(settings("--mode=dragonfly", *flags))
    assert cleartext.warnings == ()


@pytest.mark.virtual_time
async def test_a_token_that_is_refused_is_no_secret(token_flag: str) -> None:
    """Only one that opens something is worth a warning; a new warning changes the tag."""
    async with running("--mode=dragonfly", token_flag) as master:
        asked: list[str] = []
        master.service.port_tokens.workers.accepted = lambda request: asked.append(request.path)
        await master.worker("n1", "no such token").beat()
        assert asked == []
        await master.worker("n1", TOKEN).beat()
        assert asked == ["/v1/reports"]
        before = (await master.get("/v1/topology")).headers["ETag"]
        accept(master.service.port_tokens.cleartext, "10.0.0.5")
        await asyncio.sleep(REST_MAX_S)
        after = await master.get("/v1/topology", If_None_Match=before)
        assert [w["code"] for w in after.json["warnings"]] == [WORKER_TOKEN.code]
        metrics = (await master.get("/metrics")).body.decode()
        assert f'topo_master_warnings{{code="{WORKER_TOKEN.code}"}} 1.0' in metrics

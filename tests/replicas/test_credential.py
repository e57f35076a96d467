"""The leader's state is for masters alone."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from master.replicas.credential import AUDIENCE
from master.replicas.follower import PATH
from tests.master.world import Master
from tests.replicas.installation import Installation, installation, leads

pytestmark = pytest.mark.virtual_time

MASTERS, WORKERS = "system:serviceaccount:topo:topo-master", "system:serviceaccount:topo:worker"


@pytest.fixture
async def installed(tmp_path: Path) -> AsyncIterator[Installation]:
    async with installation(tmp_path) as made:
        (tmp_path / "nodegroup.yaml").write_text("group: [n1]")
        yield made


def token_of(user: str, jti: str, audience: str = AUDIENCE) -> str:
    """A token that says of itself what a projected one says; RFC 7519."""
    claims = {"aud": [audience], "exp": 4e9, "sub": user, "jti": jti}
    parts = (b"{}", json.dumps(claims).encode(), b"signature")
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def leader(installed: Installation):
    return installed.master("a", f"--config-file={installed.home / 'nodegroup.yaml'}")


async def asked(master: Master, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    return (await master.get(PATH, **headers)).status


async def test_who_shows_the_token_that_masters_share_is_told(installed: Installation) -> None:
    async with leader(installed) as master:
        await leads(master)
        await master.ready()
        assert await asked(master, "shared-by-masters") == 200
        for other in ("", "shared-by-master", "a.b.c"):
            assert await asked(master, other) == 401
    assert installed.reviews == 0, "a token that is no account's is nothing to ask about"


async def test_who_has_the_masters_service_account_is_told(installed: Installation) -> None:
    ours, other, worker = token_of(MASTERS, "a"), token_of(MASTERS, "b"), token_of(WORKERS, "c")
    (installed.home / "replica-token").write_text(ours)
    installed.accounts |= {ours: MASTERS, other: MASTERS, worker: WORKERS}
    forged = token_of(MASTERS, "d")
    async with leader(installed) as master:
        await leads(master)
        await master.ready()
        for _ in range(20):
            assert await asked(master, other) == 200
        assert installed.reviews == 1, "an answer is believed for a while"
        assert await asked(master, worker) == 401
        assert await asked(master, forged) == 401
        assert await asked(master, token_of(MASTERS, "a", "topo-master")) == 401


async def test_a_flood_of_tokens_is_no_flood_of_questions(installed: Installation) -> None:
    (installed.home / "replica-token").write_text(token_of(MASTERS, "a"))
    async with leader(installed) as master:
        await leads(master)
        await master.ready()
        for number in range(200):
            assert await asked(master, token_of(MASTERS, f"forged-{number}")) == 401
    assert installed.reviews <= 40

"""A live NetBox or Nautobot as the plan: whole readings alone count, its token goes to it alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from tests.master.wiring.test_check import counts, measured, warnings
from tests.master.world import Master, running, settings
from tests.support.waiting import eventually
from topo.sim.netbox import NetBoxCable, SimulatedNetBox, netbox

pytestmark = pytest.mark.virtual_time
TOKEN = "0123456789abcdef0123456789abcdef01234567"
CABLES = [NetBoxCable(7, ("a", "1"), ("b", "1")), NetBoxCable(9, ("c", "1"), ("d", "1"))]


@asynccontextmanager
async def compared(
    tmp_path: Path, token_flag: str, *, is_nautobot: bool = False
) -> AsyncIterator[tuple[SimulatedNetBox, Master]]:
    """One of the two with pages of one cable, and a master that sees two pairs."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    async with netbox(tmp_path / "netbox", CABLES, TOKEN, is_nautobot=is_nautobot) as peer:
        peer.max_page = 1
        flags = (
            f"--wiring-netbox-address={peer.url}",
            f"--wiring-netbox-token-file={tmp_path / 'token'}",
            f"--wiring-netbox-ca-file={peer.ca_file}",
        )
        async with running("--mode=dragonfly", *flags, token_flag) as master:
            for pair in ("ab", "cd"):
                await master.pair(*pair)
            yield peer, master


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """NetBox is read every two seconds, so that the time of a test has many readings."""
    monkeypatch.setattr("master.wiring.netbox.POLL_S", 2.0)
    monkeypatch.setattr("master.wiring.netbox.RETRY_S", 0.5)


async def warned(master: Master, *words: str) -> None:
    """Once the warning about the plan has these words."""

    async def is_told() -> bool:
        text = (await warnings(master)).get("wiring-plan-file", "")
        return bool(text) and all(word in text for word in words)

    await eventually(is_told)


async def is_placed(master: Master, rack: str) -> bool:
    """Whether a place with findings is this rack."""
    places = (await master.get("/v1/wiring")).json["places"]
    return rack in {each["name"] for each in places}


@pytest.mark.parametrize("is_nautobot", [False, True])
async def test_cables_of_all_pages_are_the_plan_and_what_people_edit_is_followed(
    tmp_path: Path, token_flag: str, *, is_nautobot: bool
) -> None:
    async with compared(tmp_path, token_flag, is_nautobot=is_nautobot) as (peer, master):
        assert (await counts(master, {}))["planned"] == 2
        # Which of the two it is was asked for once.
        assert [each.get("offset") for each in peer.asked[:5]] == [None, "0", "1", "0", "1"]
        peer.cables = [replace_end(CABLES[0], "d"), replace_end(CABLES[1], "b")]
        peer.racks = {"b": "R07"}
        await counts(master, {"swap": 2})
        await eventually(lambda: is_placed(master, "R07"))
        polls = await measured(master, "topo_master_netbox_polls_total")
        assert polls["changed"] >= 2


async def test_a_peer_that_became_the_other_of_the_two_is_read_as_what_it_is(
    tmp_path: Path, token_flag: str
) -> None:
    """Its answers are none of the form that was known, so that is asked for again."""
    swapped = [replace_end(CABLES[0], "d"), replace_end(CABLES[1], "b")]
    async with compared(tmp_path, token_flag, is_nautobot=True) as (peer, master):
        await counts(master, {})
        for cables, wanted in ((swapped, {"swap": 2}), (CABLES, {})):
            peer.is_nautobot, peer.cables = not peer.is_nautobot, list(cables)
            await counts(master, wanted)
        assert sum("offset" not in each for each in peer.asked) == 3


async def test_a_reading_that_is_not_whole_takes_nothing_away(
    tmp_path: Path, token_flag: str
) -> None:
    """A server error, a list that shrinks or is renumbered meanwhile, a page that is none."""

    def changed(offset: int) -> None:
        peer.cables = [NetBoxCable(5, ("x", "1"), ("y", "1")), *CABLES] if offset else CABLES

    def shrunk(offset: int) -> None:
        peer.cables = CABLES if offset == 0 else []

    faults = (
        (lambda at: web.Response(status=500) if at else None, "answers 500"),
        (changed, "there twice"),
        (shrunk, "1 of 2 objects"),
        (lambda at: web.json_response([1]) if at else None, "no pages of /api/dcim/cables/"),
        (lambda at: web.Response(text="{") if at else None, "not JSON"),
    )
    async with compared(tmp_path, token_flag) as (peer, master):
        await counts(master, {})
        for interrupt, word in faults:
            peer.interrupt = interrupt
            await warned(master, word)
            assert (await master.get("/v1/wiring")).json["planned"] == 2
            peer.interrupt, peer.cables = (lambda _: None), list(CABLES)

            async def is_over() -> bool:
                return "wiring-plan-file" not in await warnings(master)

            await eventually(is_over)


async def test_no_address_in_an_answer_is_followed(tmp_path: Path, token_flag: str) -> None:
    async with (
        netbox(tmp_path / "other", CABLES, TOKEN) as elsewhere,
        compared(tmp_path, token_flag) as (peer, master),
    ):
        peer.url = elsewhere.url  # its links lead to the other one
        await counts(master, {})
        away = {"Location": f"{elsewhere.url}/api/dcim/cables/"}
        peer.interrupt = lambda _: web.Response(status=302, headers=away)
        await warned(master, "a redirect to https://127.0.0.1", "credentials must not go")
        assert elsewhere.asked == []


async def test_a_token_is_read_again_and_told_nowhere(
    tmp_path: Path, token_flag: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async with compared(tmp_path, token_flag) as (peer, master):
        await counts(master, {})
        peer.token = "nbt_0123.another"
        await warned(master, "refuses our token (403)")
        told = (await master.get("/v1/topology")).body + (await master.get("/metrics")).body
        (tmp_path / "token").write_text(peer.token)

        async def is_over() -> bool:
            return "wiring-plan-file" not in await warnings(master)

        await eventually(is_over)
    out = "".join(capfd.readouterr()).encode() + told
    assert TOKEN.encode() not in out
    assert peer.token.encode() not in out


@pytest.mark.parametrize(
    ("flags", "word"),
    [
        (("--wiring-netbox-address=http://n",), "plain http"),
        (("--wiring-netbox-address=https://user:x@n",), "carries credentials"),
        (("--wiring-netbox-address=https://n", "--wiring-plan=/p"), "a file and a NetBox"),
    ],
)
async def test_an_address_that_would_give_the_token_away_is_refused(
    flags: tuple[str, ...], word: str
) -> None:
    with pytest.raises(AssertionError, match=word):
        settings("--mode=dragonfly", *flags)


def replace_end(cable: NetBoxCable, device: str) -> NetBoxCable:
    """The cable with its other end at another device."""
    return cable._replace(other=(device, "1"))

"""Our binding of libmxsml against a real shared library that the test compiles."""

import json
from pathlib import Path
from typing import Any

import pytest

from worker.probes import metax_library
from worker.probes.library import AbsentError, FailedError
from worker.probes.metax_library import MetaxLibrary

LOCAL = "1b0c2fa6-1dd2-11b2-01cc-b51e3bd74330"
REMOTES = ["1ad2e412-1dd2-11b2-01cc-cb1e3bd74330", "1ae13bca-1dd2-11b2-01cc-1b8b3bd74330"]


def read(library: Path) -> Any:
    """What the binding says, as a value."""
    return json.loads(MetaxLibrary(str(library)).read())


def test_a_healthy_host_is_read_whole(mxsml: Path) -> None:
    """Devices, NUMA masks beyond 32 nodes, memory, matrix and servers."""
    text = read(mxsml)
    assert text["format"] == "mxsml"
    assert text["version"] == "2.3.1"
    assert [device["bdf"] for device in text["devices"]] == [
        f"0000:{bus:02x}:00.0" for bus in range(0x0E, 0x12)
    ]
    first = text["devices"][0]
    assert (first["uuid"], first["name"], first["state"]) == ("GPU-00000000", "MXC500", 1)
    assert first["memory_bytes"] == 64 << 30
    assert [device["numa_affinity"] for device in text["devices"]] == [0, 1, 34, None]
    assert text["topology"] == [[0 if a == b else 5 for b in range(4)] for a in range(4)]
    assert text["servers"] == {"local": LOCAL, "remotes": REMOTES}


def test_ports_carry_speed_width_state_and_the_peer_on_this_host(mxsml: Path) -> None:
    """Three ports to the island, one down with its optical module in place, three unused."""
    links = read(mxsml)["devices"][0]["links"]
    assert [link["port_state"] for link in links] == [1, 1, 1, 2, 5, 5, 5]
    assert [(link["speed"], link["width"]) for link in links[3:5]] == [(32.0, 16), (0.0, 0)]
    assert [link["remote_bdf"] for link in links[:4]] == [
        "0000:0f:00.0",
        "0000:10:00.0",
        "0000:11:00.0",
        None,
    ]


def test_links_carry_what_was_counted_on_them(mxsml: Path, old_mxsml: Path) -> None:
    """An old library has no such call, which is no fault of it."""
    second = read(mxsml)["devices"][1]["links"]
    assert [link["corrected"] for link in second] == list(range(10, 17))
    assert [link["uncorrected"] for link in second] == [0, 0, 0, 1, 0, 0, 0]
    old = read(old_mxsml)
    assert {link["corrected"] for link in old["devices"][1]["links"]} == {None}
    assert "mxSmlGetMetaXLinkAer" not in {error["call"] for error in old["errors"]}


def test_a_call_that_fails_for_a_port_is_noted_once(mxsml: Path) -> None:
    """The answer "no device" is the plain one of an unused port; a sysfs error is not."""
    assert read(mxsml)["errors"] == [
        {"call": "mxSmlGetMetaXLinkRemoteInfo", "device": device, "code": 4} for device in range(4)
    ]


def test_an_old_library_lacks_calls_and_is_read_all_the_same(old_mxsml: Path) -> None:
    """No port states, one remote by the older call, and level 7 is not ETH there."""
    text = read(old_mxsml)
    assert text["version"] == ""
    assert {link["port_state"] for link in text["devices"][0]["links"]} == {None}
    assert text["servers"] == {"local": LOCAL, "remotes": REMOTES[:1]}


def test_an_old_library_is_initialised_once(old_mxsml: Path) -> None:
    """The plain call does not refresh, so it is not made again."""
    library = MetaxLibrary(str(old_mxsml))
    assert library.read() == library.read()


def test_a_bad_card_does_not_hide_the_others(mxsml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state, its reason, and -1 in the matrix; every other card is read."""
    monkeypatch.setenv("FAKE_MXSML", "badcard")
    text = read(mxsml)
    bad = text["devices"][1]
    assert (bad["state"], bad["unavailable_reason"]) == (0, "MetaX Sysfs File Unaccessible")
    assert bad["memory_bytes"] is None
    assert text["topology"][0] == [0, -1, 5, 5]
    assert {"call": "mxSmlGetMemoryInfo", "device": 1, "code": 4} in text["errors"]
    assert [device["state"] for device in text["devices"]] == [1, 0, 1, 1]


def test_a_host_without_links_to_others_has_no_servers(
    mxsml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not supported is a plain answer: null, and no failure that would call for stand-ins."""
    monkeypatch.setenv("FAKE_MXSML", "alone")
    text = read(mxsml)
    assert text["servers"] is None
    assert "mxSmlGetLocalAndMultipleRemoteUuid" not in {e["call"] for e in text["errors"]}


def test_an_empty_remote_slot_keeps_its_place(mxsml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slot 2 is empty, and so it reads."""
    monkeypatch.setenv("FAKE_MXSML", "onehost")
    assert read(mxsml)["servers"] == {"local": LOCAL, "remotes": [REMOTES[0], ""]}


def test_a_driver_without_a_card_is_a_failure_with_its_code(
    mxsml: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Code 2, "no device"."""
    monkeypatch.setenv("FAKE_MXSML", "nocard")
    with pytest.raises(FailedError, match="mxSmlInitWithFlags ended with code 2"):
        MetaxLibrary(str(mxsml)).read()


def test_a_library_that_is_something_else_is_found_out() -> None:
    """Libc has none of the calls."""
    with pytest.raises(FailedError, match="code 999"):
        MetaxLibrary("libc.so.6").read()


def test_a_missing_library_is_missing() -> None:
    """The one given is the only one tried."""
    with pytest.raises(AbsentError):
        MetaxLibrary("/nowhere/libmxsml.so")


def test_the_library_is_searched_where_drivers_put_it() -> None:
    """By name for an administrator's LD_LIBRARY_PATH, then the documented folders."""
    names = list(metax_library.find_library(None))
    assert names[:4] == [
        "libmxsml.so",
        "/opt/mxdriver/lib/libmxsml.so",
        "/opt/maca/lib/libmxsml.so",
        "/opt/mxn100/lib/libmxsml.so",
    ]
    assert list(metax_library.find_library("/x.so")) == ["/x.so"]

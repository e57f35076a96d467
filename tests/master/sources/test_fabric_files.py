"""The folder of fabric dumps: read as it changes; nothing known-good goes for a worse file."""

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.master.world import Master, facts, running
from tests.support.fabric import Built, pairs
from tests.support.waiting import eventually
from topo.model.machine import NetworkPort

pytestmark = pytest.mark.virtual_time

BOTH = {"ib-su1-leaf-01": ["gpu-01", "gpu-02"], "ib-su2-leaf-01": ["gpu-03", "gpu-04"]}


async def reported(master: Master, built: Built) -> None:
    """The workers of all hosts have reported their adapters."""
    for host, guids in built.adapters.items():
        ports = tuple(
            NetworkPort(f"mlx5_{n}", 1, up=True, node_guid=guid) for n, guid in enumerate(guids)
        )
        answer = await master.worker(host).full(replace(facts(host), nics=ports))
        assert answer.status == 200


async def shows(master: Master, leaves: dict[str, list[str]]) -> None:
    """Returns when these leaves hold these nodes."""

    async def shown() -> bool:
        tree = (await master.get("/node_group")).json
        found = {
            leaf["name"]: [node["name"] for node in leaf.get("child", ())]
            for spine in (tree if isinstance(tree, list) else ())
            for leaf in spine.get("child", ())
        }
        return found == leaves

    await eventually(shown)


async def source_of(master: Master) -> Any:
    """What the master says of the source."""
    sources = (await master.get("/v1/topology")).json["sources"]
    return next(each for each in sources if each["source"] == "fabric")


async def warned(master: Master, part: str) -> None:
    """Returns when a warning of the source has this part."""

    async def is_warned() -> bool:
        return any(part in each["text"] for each in (await source_of(master))["warnings"])

    await eventually(is_warned)


async def is_content(master: Master) -> None:
    """Returns when the source warns of nothing."""

    async def is_quiet() -> bool:
        return not (await source_of(master))["warnings"]

    await eventually(is_quiet)


async def test_the_dumps_of_a_folder_make_the_tree_and_a_worse_file_takes_nothing_away(
    tmp_path: Path, token_flag: str
) -> None:
    """Cut off, not of the tool, gone; then whole again, with a cable that moved.

    The links of a UFM name no time: that of their file counts, and they have the cable back.
    """
    built = pairs(2)
    path = tmp_path / "fabric" / "subnet.txt"
    path.parent.mkdir()
    path.write_text(built.text())
    async with running("--mode=fabric", f"--fabric-dir={path.parent}", token_flag) as master:
        await reported(master, built)
        await shows(master, BOTH)
        assert (await source_of(master))["state"] == "ok"
        text = built.text()
        path.write_text(text[: text.rindex("\nvendid")])
        await warned(master, "it is cut off")
        path.write_text("a secret of somebody\n")
        await warned(master, "this line is none of ibnetdiscover")
        assert "secret" not in str(await source_of(master))
        path.unlink()
        await warned(master, "subnet.txt is gone")
        await shows(master, BOTH)
        moved = built.adapters["gpu-02"][0]
        built.fabric.cut(moved)
        built.fabric.plug(moved, built.leaves["ib-su2-leaf-01"])
        path.write_text(built.text().replace("2026", "2020"))
        await shows(
            master,
            {"ib-su1-leaf-01": ["gpu-01"], "ib-su2-leaf-01": ["gpu-02", "gpu-03", "gpu-04"]},
        )
        await is_content(master)
        path.with_name("ufm.json").write_text(pairs(2).fabric.links())
        await shows(master, BOTH)


async def test_a_folder_without_a_dump_is_a_failing_source_with_the_next_step(
    tmp_path: Path,
) -> None:
    """It is not there, then it is empty, then it has one."""
    folder = tmp_path / "fabric"
    async with running("--mode=fabric", f"--fabric-dir={folder}") as master:

        async def is_failing() -> bool:
            return bool((await source_of(master))["state"] == "failing")

        await eventually(is_failing)
        found = await source_of(master)
        assert "there is no dump in" in found["trouble"]
        assert "write the output of `ibnetdiscover`" in found["fix"]
        assert (await master.get("/ready")).status == 503
        folder.mkdir()
        (folder / ".swap").write_text("an editor's")
        (folder / "subnet.txt").write_text(pairs(1).text())

        async def is_well() -> bool:
            return bool((await source_of(master))["state"] == "ok")

        await eventually(is_well)


async def test_a_file_that_is_gone_is_forgotten_once_others_have_its_switches(
    tmp_path: Path,
) -> None:
    """Each dump has a name of its own; what is being written is passed over."""
    (tmp_path / "dump-1").write_text(pairs(2).text())
    async with running("--mode=fabric", f"--fabric-dir={tmp_path}") as master:

        async def has(detail: str) -> bool:
            return str((await source_of(master))["detail"]).startswith(detail)

        await eventually(lambda: has("1 dump: 3 switches"))
        (tmp_path / "dump-2.new").write_text("half of")
        (tmp_path / "dump-1").unlink()
        await warned(master, "dump-1 is gone")
        (tmp_path / "dump-2").write_text(pairs(3).text())
        await eventually(lambda: has("1 dump: 4 switches"))
        await is_content(master)
        for number in range(3, 68):
            (tmp_path / f"dump-{number:02}").write_text(pairs(1).text())
        await warned(master, "files beyond 64 are not read")


async def test_a_dump_that_was_never_whole_is_used_and_doubted(tmp_path: Path) -> None:
    text = pairs(2).text()
    (tmp_path / "a.txt").write_text(text[: text.rindex("\nvendid")])
    async with running("--mode=fabric", f"--fabric-dir={tmp_path}") as master:
        await warned(master, "a.txt is cut off: 1 adapter named without a block")
        assert (await source_of(master))["state"] == "ok"


async def test_a_dump_that_nobody_writes_any_more_is_told_after_a_day(tmp_path: Path) -> None:
    """The same content written again is a fabric that did not change."""
    dump = tmp_path / "subnet.txt"
    dump.write_text(pairs(2).text())
    yesterday = time.time() - 86_401
    os.utime(dump, (yesterday, yesterday))
    async with running("--mode=fabric", f"--fabric-dir={tmp_path}") as master:
        await warned(master, "subnet.txt was not made anew for a day: see to the timer of ibnetd")
        assert (await source_of(master))["state"] == "ok"
        dump.write_text(pairs(2).text())

        async def is_quiet() -> bool:
            return bool((await source_of(master))["warnings"] == [])

        await eventually(is_quiet)


async def test_of_two_files_the_one_written_last_counts_whatever_their_titles_say(
    tmp_path: Path, token_flag: str
) -> None:
    """A title has the time of day where the tool ran, and names no time zone."""
    built, folder = pairs(2), tmp_path / "fabric"
    folder.mkdir()
    old, new = folder / "a.txt", folder / "b.txt"
    old.write_text(built.text().replace("2026", "2030"))
    moved = built.adapters["gpu-02"][0]
    built.fabric.cut(moved)
    built.fabric.plug(moved, built.leaves["ib-su2-leaf-01"])
    new.write_text(built.text())
    now = time.time()
    for file, at in ((old, now - 60), (new, now)):
        os.utime(file, (at, at))
    later = {"ib-su1-leaf-01": ["gpu-01"], "ib-su2-leaf-01": ["gpu-02", "gpu-03", "gpu-04"]}
    async with running("--mode=fabric", f"--fabric-dir={folder}", token_flag) as master:
        await reported(master, built)
        await shows(master, later)
        os.utime(old, (now + 60, now + 60))  # the same, found again
        await shows(master, BOTH)

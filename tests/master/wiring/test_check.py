"""The plan that a master holds: compared as it and the cables change, told everywhere the same."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.master.world import Master, facts, running
from tests.support.fabric import Built, pairs
from tests.support.waiting import eventually
from topo.model.machine import NetworkPort, NicNeighbour

pytestmark = pytest.mark.virtual_time

HEADER = "a_node,a_port,z_node,z_port\n"


async def counts(master: Master, expected: dict[str, int]) -> Any:
    """The document, once it counts so many cables of each verdict."""

    async def counted() -> bool:
        answer = await master.get("/v1/wiring")
        return answer.status == 200 and bool(answer.json["counts"] == expected)

    await eventually(counted)
    return (await master.get("/v1/wiring")).json


async def warnings(master: Master) -> dict[str, str]:
    """What the master warns of, by code."""
    told = (await master.get("/v1/topology")).json["warnings"]
    return {each["code"]: each["text"] for each in told}


async def measured(master: Master, name: str) -> dict[str, float]:
    """The samples of a metric by their one label."""
    text = (await master.get("/metrics")).body.decode()
    lines = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}


async def test_wires_of_the_vendors_pairs_are_held_beside_the_plan(
    tmp_path: Path, token_flag: str
) -> None:
    """Right, then a swap in the plan, then a bad file, then right again."""
    plan = tmp_path / "plan.csv"
    right = HEADER + "a,1,b,1\nc,1,d,1\n"
    plan.write_text(right)
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        for pair in ("ab", "cd"):
            await master.pair(*pair)
        document = await counts(master, {})
        assert (document["planned"], document["right"]) == (2, 2)
        assert "cables-differ-from-plan" not in await warnings(master)
        plan.write_text(HEADER + "a,1,d,1\nc,1,b,1\n")
        document = await counts(master, {"swap": 2})
        (place,) = document["places"]
        (finding,) = place["findings"]
        assert (place["moves"], place["mended"]) == (1, 2)
        assert finding["actions"][0].startswith("exchange the plugs in")
        assert "2 swap" in (await warnings(master))["cables-differ-from-plan"]
        found = (await master.get("/v1/findings")).json["findings"]
        (told,) = [each for each in found if each["code"] == "cables-differ-from-plan"]
        assert (told["severity"], "topo wiring check" in told["next_step"]) == ("wrong", True)
        cables = await measured(master, "topo_master_wiring_cables")
        assert (cables["swap"], cables["right"], cables["missing"]) == (2, 0, 0)
        for bad in ("no plan\n", HEADER + "a,P1,b,1\na,1,c,1\n"):
            plan.write_text(bad)
            word = "known here" if bad == "no plan\n" else "in two cables"

            async def is_refused(word: str = word) -> bool:
                return word in (await warnings(master)).get("wiring-plan-file", "")

            await eventually(is_refused)
        assert (await master.get("/v1/wiring")).json["counts"] == {"swap": 2}
        plan.write_text(right)
        await counts(master, {})
        assert not {"wiring-plan-file", "cables-differ-from-plan"} & (await warnings(master)).keys()


async def test_a_cable_that_is_pulled_costs_its_group_and_its_gpus(
    tmp_path: Path, token_flag: str
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(HEADER + "a,1,b,1\n")
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        workers = dict(zip("ab", await master.pair("a", "b"), strict=True))
        await counts(master, {})
        for _ in range(2):
            for node, peer in ("ab", "ba"):
                whole = facts(node, peer).peers
                assert whole is not None
                (remote,) = whole.remotes
                cut = {
                    "local": whole.local,
                    "remotes": [{"slot": remote.slot, "uuid": remote.uuid, "connected": False}],
                }
                assert (await workers[node].change(peers=cut)).status == 200
        document = await counts(master, {"missing": 1})
        cost = document["places"][0]["findings"][0]["cost"]
        assert (len(cost["groups"]), cost["gpus"]) == (1, 2)
        costs = await measured(master, "topo_master_wiring_cost")
        assert costs == {"groups-not-ready": 1, "gpus-out": 2, "jobs-across": 0, "jobs-waiting": 0}


async def test_dumps_of_the_fabric_and_what_workers_see_by_lldp_are_held_beside_it(
    tmp_path: Path, token_flag: str
) -> None:
    """One plan for both fabrics; switches by the names that they give themselves."""
    built = pairs(2)
    folder, plan = tmp_path / "fabric", tmp_path / "plan.csv"
    folder.mkdir()
    (folder / "subnet.txt").write_text(built.text())
    plan.write_text(
        HEADER
        + "gpu-01,mlx5_0,ib-su1-leaf-01,2\ngpu-02,mlx5_0,ib-su1-leaf-01,9\n"
        + "gpu-01,eth0,leaf-a,swp1\ngpu-02,eth0,leaf-a,swp2\ngpu-03,eth0,leaf-a,swp3\n"
    )
    flags = ("--mode=fabric", f"--fabric-dir={folder}", f"--wiring-plan={plan}", token_flag)
    async with running(*flags) as master:
        await reported(master, built, {"gpu-01": "etp1", "gpu-02": "etp7"})
        document = await counts(master, {"wrong-port": 2, "unseen": 1})
        ends = {
            cable["end"]["device"]
            for place in document["places"]
            for finding in place["findings"]
            for cable in finding["cables"]
        }
        assert ends == {"gpu-02", "gpu-03"}
        await reported(master, built, {"gpu-01": "etp1", "gpu-02": "etp2"})
        await counts(master, {"wrong-port": 1, "unseen": 1})


async def test_wires_between_nodes_are_not_unplanned_beside_a_plan_of_their_adapters(
    tmp_path: Path, token_flag: str
) -> None:
    """Until the plan has one of them."""
    plan = tmp_path / "plan.csv"
    adapters = HEADER + "".join(f"{node},mlx5_0,leaf-1,{n}\n" for n, node in enumerate("abcd"))
    plan.write_text(adapters)
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        for pair in ("ab", "cd"):
            await master.pair(*pair)
        await counts(master, {"unseen": 4})
        plan.write_text(adapters + "a,1,b,1\n")
        document = await counts(master, {"unplanned": 1, "unseen": 4})
        assert document["right"] == 1


async def test_a_planned_wire_to_a_node_that_nobody_knows_is_compared(
    tmp_path: Path, token_flag: str
) -> None:
    """Its own slot is that of a wire, so the plan is one of wires."""
    plan = tmp_path / "plan.csv"
    plan.write_text(HEADER + "a,1,z,1\n")
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        await master.pair("a", "b")
        document = await counts(master, {"wrong-end": 1})
        assert document["right"] == 0


async def test_a_port_that_goes_down_is_a_missing_cable_before_the_next_dump(
    tmp_path: Path, token_flag: str
) -> None:
    """For as long as its worker is heard; the dump is of the time before."""
    built = pairs(2)
    folder, plan = tmp_path / "fabric", tmp_path / "plan"
    folder.mkdir()
    for file in (folder / "subnet.txt", plan):
        file.write_text(built.text())
    flags = ("--mode=fabric", f"--fabric-dir={folder}", f"--wiring-plan={plan}", token_flag)
    async with running(*flags) as master:
        await reported(master, built, {})
        await counts(master, {})
        await reported(master, built, {}, down="gpu-03")
        document = await counts(master, {"missing": 1})
        (finding,) = document["places"][0]["findings"]
        assert finding["text"].startswith("the port gpu-03 mlx5_0 is down")
        await asyncio.sleep(60)
        await counts(master, {})


async def reported(
    master: Master, built: Built, leaf_ports: dict[str, str], *, down: str = ""
) -> None:
    """The workers of all hosts have reported adapters, and the leaf's port at the end of eth0."""
    for host, guids in built.adapters.items():
        ports = tuple(
            NetworkPort(f"mlx5_{n}", 1, up=host != down, node_guid=guid)
            for n, guid in enumerate(guids)
        )
        seen = leaf_ports.get(host)
        neighbours = (
            (NicNeighbour("eth0", "mac 1c:34:da:00:01:00", "leaf-a", seen),) if seen else ()
        )
        said = replace(facts(host), nics=ports, nic_neighbours=neighbours)
        assert (await master.worker(host).full(said)).status == 200


async def test_a_master_without_a_plan_says_how_to_give_one(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        answer = await master.get("/v1/wiring")
        assert (answer.status, "--wiring-plan" in answer.json["fix"]) == (404, True)


async def test_an_error_of_the_comparison_leaves_the_last_one_and_the_master_runs(
    tmp_path: Path, token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(HEADER + "a,1,d,1\nc,1,b,1\n")
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        for pair in ("ab", "cd"):
            await master.pair(*pair)
        await counts(master, {"swap": 2})

        def broken(*_: object) -> Any:
            raise RecursionError("maximum recursion depth exceeded")

        with monkeypatch.context() as patch:
            patch.setattr("master.wiring.check.own_ports", broken)
            plan.write_text(HEADER + "a,1,b,1\nc,1,d,1\n")

            async def is_told() -> bool:
                return "RecursionError" in (await warnings(master)).get("wiring-plan-file", "")

            await eventually(is_told)
            assert (await master.get("/v1/wiring")).json["counts"] == {"swap": 2}
        plan.write_text(HEADER + "c,1,d,1\na,1,b,1\n")
        await counts(master, {})


CONTRADICTORY = HEADER + "a,P1,b,1\na,1,c,1\n"


async def test_a_plan_that_cannot_be_compared_is_told_until_it_is_another(
    tmp_path: Path, token_flag: str
) -> None:
    """Its source may hand on the same plan again, as NetBox does at each look."""
    plan = tmp_path / "plan.csv"
    plan.write_text(CONTRADICTORY)
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        await master.pair("a", "b")
        await eventually(partial(is_told, master, "in two cables"))
        plan.write_text(CONTRADICTORY + "\n")
        for _ in range(10):
            await asyncio.sleep(1)
            assert await is_told(master, "in two cables")
        plan.write_text(HEADER + "a,1,b,1\n")
        await counts(master, {})
        assert "wiring-plan-file" not in await warnings(master)


async def test_that_a_plan_is_not_read_and_that_it_is_not_compared_are_told_beside_each_other(
    tmp_path: Path, token_flag: str
) -> None:
    plan = tmp_path / "plan.csv"
    plan.write_text(CONTRADICTORY)
    async with running("--mode=dragonfly", f"--wiring-plan={plan}", token_flag) as master:
        await master.pair("a", "b")
        await eventually(partial(is_told, master, "in two cables"))
        plan.write_text("no plan\n")
        await eventually(partial(is_told, master, "known here"))
        assert await is_told(master, "in two cables")
        await master.pair("c", "d")
        await asyncio.sleep(60)
        assert await is_told(master, "known here")
        assert await is_told(master, "in two cables")
        plan.write_text(CONTRADICTORY)
        await eventually(partial(is_told_no_more, master, "known here"))
        assert await is_told(master, "in two cables")


async def is_told(master: Master, text: str) -> bool:
    """Whether the warning about the plan says so."""
    return text in (await warnings(master)).get("wiring-plan-file", "")


async def is_told_no_more(master: Master, text: str) -> bool:
    return not await is_told(master, text)

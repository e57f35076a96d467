"""`topo doctor` beside a master on real sockets: each situation gets its cause and its next step.

Every test brings about one thing that people do wrong, and wants it said once: the cause first, and
nothing that only follows from it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from master.app import build_app
from master.sources.row import SourceContext, SourceRow
from master.sources.table import SOURCE_ROWS
from master.sources.workers.port import NEEDS_A_PERSON
from tests import builders
from tests.cli.doctor.examined import examined, refused, sole
from tests.discovery.groups.test_super_pods import npus
from tests.master.placing import config
from tests.master.world import Master, facts, running
from tests.support.waiting import eventually
from topo.diagnosis import steps
from topo.discovery.modes import Mode
from topo.discovery.sources import MANAGED
from topo.kit.tasks import Work
from topo.kit.tls import server_context
from topo.model.conditions.sources import ReportCondition, SourceCondition
from topo.model.conditions.tree import NodeCondition
from topo.model.ids import Kind, ServerUuid
from topo.model.machine import LinkPort, NodeFacts, PortState
from topo.model.observation import (
    ManagedTopology,
    ManagerReported,
)
from topo.sim.certificates import Authority

pytestmark = pytest.mark.virtual_time

ANYBODY = "--allow-anonymous-workers"


MANAGER = "--cluster-manager-address=https://127.0.0.1:9"


def inventory(listed: ManagedTopology) -> Iterable[SourceRow]:
    """The sources, with a cluster manager that lists these machines."""

    def start(context: SourceContext) -> Work:
        async def work() -> None:
            context.sink.submit(ManagerReported(listed))
            await asyncio.Event().wait()

        return work

    return [row for row in SOURCE_ROWS if row.source is not MANAGED] + [SourceRow(MANAGED, start)]


@asynccontextmanager
async def managed(switchboxes: dict[str, list[str]]) -> AsyncIterator[Master]:
    async with managed_by(builders.managed(switchboxes)) as master:
        yield master


@asynccontextmanager
async def managed_by(listed: ManagedTopology) -> AsyncIterator[Master]:
    rows = tuple(inventory(listed))
    async with running("--mode=switchbox", MANAGER, ANYBODY, source_rows=rows) as master:
        yield master


async def report(master: Master, *said: NodeFacts) -> None:
    """These nodes' workers speak, in order."""
    for each in said:
        assert (await master.worker(each.identity.name).full(each)).status == 200


async def test_machines_without_any_worker_are_one_finding_that_names_them() -> None:
    async with managed({"s1": ["n1", "n2"], "s2": ["n3", "n4"]}) as master:
        finding = await sole(master, "source-waiting")
        assert finding.subject == "workers"
        assert "4 machines should have one: n1, n2, n3, n4" in finding.what
        assert "start topo-worker on every node" in finding.next_step
        assert "the master's --rpc-server-port (10001 unless set)" in finding.next_step


async def test_a_super_pod_of_two_sizes_is_one_finding_that_names_its_nodes() -> None:
    """Its group is NotReady for the same cause."""
    async with running("--mode=auto", ANYBODY) as master:
        await report(master, npus("n1", 0, 0), npus("n2", 0, 1, size=48))
        finding = await sole(master, "super-pod-doubled")
        assert finding.subject == "n1, n2"
        assert "correct the index or the size" in finding.next_step


async def test_half_a_rollout_is_one_finding_that_names_the_other_half() -> None:
    """The ends that report see servers of nobody, lack a peer, and leave their groups short."""
    async with managed({"s1": ["n1", "n2"], "s2": ["n3", "n4"]}) as master:
        await report(master, facts("n1", "n2"), facts("n3", "n4"))
        finding = await sole(master, "unjoined")
        assert finding.subject == "n2, n4"
        assert "no worker has reported from 2 machines" in finding.what
        assert finding.next_step.startswith("start topo-worker there")


async def test_servers_that_others_see_and_nobody_reports_are_one_finding() -> None:
    async with running("--mode=dragonfly", ANYBODY) as master:
        await report(master, facts("n1", "n2"), facts("n3", "n4"))
        finding = await sole(master, "unknown-peer")
        assert finding.subject == "n1, n3"
        assert "start topo-worker on the servers at the other ends" in finding.next_step


async def test_names_that_differ_are_told_from_workers_that_are_missing() -> None:
    """All workers report, under names that the cluster manager does not know."""
    async with managed({"s1": ["rack1-u1", "rack1-u2"]}) as master:
        await report(master, facts("n1", "n2"), facts("n2", "n1"))
        finding = await sole(master, "unjoined")
        assert "2 nodes that report (n1, n2) have no name in common" in finding.what
        assert "--join-keys" in finding.next_step


async def test_workers_that_all_fall_silent_are_one_finding_and_no_source_that_is_well() -> None:
    """The way to the master is cut; one node alone would be that node."""
    async with running("--mode=dragonfly", ANYBODY, "--beat-interval=1") as master:
        await master.pair("n1", "n2")
        await master.pair("n3", "n4")
        await master.ready()  # before, a worker that speaks again is not all that is amiss
        finding = await sole(master, "worker-stale")
        assert finding.subject == "workers"
        assert "all 4 workers are silent" in finding.what
        assert "the master's --rpc-server-port (10001 unless set)" in finding.next_step
        assert "source workers is well" not in (await examined(master)).healthy
        await report(master, facts("n3", "n4"))
        while finding.subject == "workers":
            finding = await sole(master, "worker-stale")
        assert finding.subject == "n1, n2, n4"


async def test_nodes_in_no_group_of_a_manager_are_not_well() -> None:
    """Their wiring makes them a dragonfly that is Ready, and stands beside all switchboxes."""
    async with managed({"s1": ["n1", "n2"]}) as master:
        await report(master, *(facts(*pair) for pair in (("n1", "n2"), ("n2", "n1"))))
        await report(master, *(facts(*pair) for pair in (("n3", "n4"), ("n4", "n3"))))
        finding = await sole(master, "not-managed")
        assert finding.subject == "n3, n4"


async def test_a_failing_manager_is_said_once_with_its_own_fix(tmp_path: Path) -> None:
    """Not by the readiness again, and not by every node that it has never placed."""
    credentials = f"--credentials-dir={tmp_path}"
    async with running("--mode=switchbox", MANAGER, ANYBODY, credentials) as master:
        await report(master, facts("n1", "n2"), facts("n2", "n1"))
        finding = await sole(master, "source-failing")
        assert finding.subject == "cluster-manager"
        assert str(tmp_path) in finding.what
        source = next(
            each
            for each in (await master.get("/v1/topology")).json["sources"]
            if each["source"] == "cluster-manager"
        )
        assert source["fix"] == finding.next_step != ""
        assert source["fix"] not in source["trouble"]


async def test_a_kind_that_looks_like_a_slip_is_said_where_people_look(tmp_path: Path) -> None:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(config().replace("kind: dragonfly", "kind: dragonfy", 1))
    flags = (f"--config-file={path}", "--gpus-per-node=8")
    async with running(*flags) as master:
        finding = await sole(master, "doubtful-config")
        assert "dragonfy is taken as a kind of your own; did you mean dragonfly?" in finding.what
        assert not (await examined(master)).is_wrong  # it may be meant
        path.write_text(config())

        async def is_well() -> bool:
            return not (await examined(master)).findings

        await eventually(is_well)


async def test_a_kind_of_the_cluster_manager_that_looks_like_a_slip_is_told_too() -> None:
    listed = builders.managed({"s1": ["n1", "n2"]})
    groups = tuple(replace(group, kind=Kind("swithcbox")) for group in listed.groups)
    async with managed_by(replace(listed, groups=groups)) as master:
        await report(master, facts("n1", "n2"), facts("n2", "n1"))
        assert "did you mean switchbox?" in (await sole(master, "doubtful-inventory")).what


async def test_a_configured_tree_that_nobody_counts_gpus_of_is_not_well(tmp_path: Path) -> None:
    """All nodes are Ready and no job can be placed."""
    path = tmp_path / "nodegroup.yaml"
    path.write_text(config(1, 1, 2))
    async with running(f"--config-file={path}") as master:
        finding = await sole(master, "no-gpus")
        assert "2 of 2 nodes Ready without a known number of GPUs" in finding.what
        assert "--gpus-per-node" in finding.next_step
    async with running(f"--config-file={path}", "--gpus-per-node=8") as master:
        await master.ready()
        assert not (await examined(master)).is_wrong


async def test_workers_that_see_no_gpu_are_told_from_workers_that_are_missing() -> None:
    """They report: to start them once more would be no help."""
    bare = [replace(facts(a, b), gpus=()) for a, b in (("n1", "n2"), ("n2", "n1"))]
    async with running("--mode=dragonfly", ANYBODY) as master:
        await report(master, *bare)
        finding = await sole(master, "no-gpus-seen")
        assert finding.subject == "n1, n2"
        assert "2 of 2 nodes Ready, and the worker there sees no GPU" in finding.what
        assert "`topo node n1` lists its probes" in finding.next_step
        assert "start" not in finding.next_step


async def test_a_mode_for_other_machines_is_named_as_the_mode() -> None:
    """Both ways round: MetaX machines have no NVLink domain, NVIDIA's see no server."""
    async with running("--mode=nvlink", ANYBODY) as master:
        await report(master, facts("n1", "n2"), facts("n2", "n1"))
        finding = await sole(master, "other-fabric")
        assert "--mode=nvlink cannot place 2 nodes" in finding.what
        assert "--mode=dragonfly" in finding.next_step
    async with running("--mode=dragonfly", ANYBODY) as master:
        await report(master, *(builders.fabric_facts(name, "c1") for name in ("n1", "n2")))
        finding = await sole(master, "other-fabric")
        assert "--mode=nvlink" in finding.next_step


async def test_a_degraded_link_is_one_finding_although_its_node_is_ready() -> None:
    """Doctor and metrics tell it; the step names the node and the tool."""
    tray = builders.fabric_facts("n1", "c1")
    ports = (LinkPort(0, 0, PortState.UP), LinkPort(0, 1, PortState.UP, trouble="degraded: 2 GB/s"))
    async with running("--mode=nvlink", ANYBODY) as master:
        worker = master.worker("n1")
        for _ in range(2):
            assert (await worker.full(replace(tray, ports=ports))).status == 200
        finding = await sole(master, "link-degraded")
        assert finding.what.endswith("GPU 0 link port 1 is degraded: 2 GB/s")
        assert "`topo node n1`" in finding.next_step
        assert "`nvidia-smi nvlink -s` and `-e` there" in finding.next_step
        assert "`topo place --exclude n1`" in finding.next_step
        await master.ready()
        job = "/v1/placements?pods=1&gpus_per_pod=1"
        assert (await master.get(job)).json["feasible"]
        assert not (await master.get(f"{job}&exclude=n1")).json["feasible"]
        assert 'topo_master_conflicts{code="link-degraded"} 1.0' in (
            (await master.get("/metrics")).body.decode()
        )


async def test_a_cloned_uuid_comes_first_and_alone() -> None:
    """The links of both boards join nobody: three nodes without a peer, and one cause."""
    twin = facts("n3", "n2")
    assert twin.peers is not None
    twin = replace(twin, peers=replace(twin.peers, local=ServerUuid("uuid-n1")))
    async with running("--mode=dragonfly", ANYBODY) as master:
        await report(master, facts("n1", "n2"), twin, facts("n2", "n1"))
        finding = await sole(master, "cloned-server-uuid")
        assert finding.subject == "n1, n3"
        assert "because of it n1, n2, n3 joined nobody" in finding.what
        assert "own server UUID" in finding.next_step


async def test_the_workers_port_says_that_it_is_not_the_api() -> None:
    async with running("--mode=dragonfly", "--server-port=9123", ANYBODY) as master:
        for path in ("/v1/topology", "/node_group", "/health"):
            async with master.session.get(master.reports_url + path) as answer:
                assert answer.status == 404
                said = await answer.json(content_type="application/problem+json")
            assert "this port takes the reports of workers" in said["detail"]
            assert "port 9123" in said["fix"]


async def test_a_cut_cable_is_one_finding_with_the_slots_at_both_ends() -> None:
    """Both ends complain, and neither shows the cable any more."""
    async with running("--mode=dragonfly", ANYBODY) as master:
        one, two = await master.pair("n1", "n2")
        for worker, name in ((one, "n1"), (two, "n2")):
            for _ in range(2):
                await worker.change(peers={"local": f"uuid-{name}", "remotes": []})
        finding = await sole(master, "link-down")
        assert finding.subject == "n1, n2"
        assert finding.what == "1 cable is down: n1 (slot 1) to n2 (slot 1)"
        detail = (await master.get("/v1/topology?node=n1")).json["node"]
        assert detail["peers"]["remotes"] == []
        (wire,) = detail["wires"]
        assert (wire["slot"], wire["nodes"], wire["state"]) == (1, ["n2"], "down")


async def test_one_of_two_cables_that_is_lost_is_one_finding_and_both_nodes_stay_ready() -> None:
    """The same fact in the doctor, the metrics and the vendor's document."""
    async with running("--mode=dragonfly", ANYBODY) as master:
        one, two = master.worker("n1"), master.worker("n2")
        await one.full(facts("n1", "n2", "n2"))
        await two.full(facts("n2", "n1", "n1"))
        for worker, name, peer in ((one, "n1", "n2"), (two, "n2", "n1")):
            left = {"slot": 1, "uuid": f"uuid-{peer}", "connected": True}
            for _ in range(2):
                await worker.change(peers={"local": f"uuid-{name}", "remotes": [left]})
        finding = await sole(master, "link-degraded")
        assert finding.subject == "n1, n2"
        assert finding.what.startswith("1 cable is down: n1 (slot 2) to n2 (slot 2); jobs that ")
        (fly,) = await master.tree()
        assert fly["status"] == "Ready"
        metrics = (await master.get("/metrics")).body.decode()
        assert 'topo_master_conflicts{code="link-degraded"} 1.0' in metrics
        assert 'reason="link-down"' not in metrics


async def test_many_cut_cables_are_one_finding() -> None:
    """A switch that lost power cuts all of its cables at once."""
    async with running("--mode=dragonfly", ANYBODY) as master:
        for number in range(4):
            names = (f"a{number}", f"b{number}")
            for worker, name in zip(await master.pair(*names), names, strict=True):
                for _ in range(2):
                    await worker.change(peers={"local": f"uuid-{name}", "remotes": []})
        finding = await sole(master, "link-down")
        assert finding.what.startswith("4 cables are down: a0 (slot 1) to b0 (slot 1), a1")


@pytest.mark.parametrize(
    "code",
    [
        ReportCondition.UNKNOWN_TOKEN,
        ReportCondition.NO_TOKENS,
        ReportCondition.MALFORMED,
        *sorted(NEEDS_A_PERSON),
        SourceCondition.DOUBTFUL_CONFIG,
        SourceCondition.DOUBTFUL_INVENTORY,
        NodeCondition.OTHER_FABRIC,
        NodeCondition.NO_WORKER,
        NodeCondition.NODE_NOT_READY,
        NodeCondition.NOT_IN_CLUSTER,
    ],
)
def test_every_warning_and_every_cause_in_a_node_has_a_step_of_its_own(code: str) -> None:
    for mode in Mode:
        assert steps.step(code, "n1", mode) != steps.GENERAL_STEP


async def test_http_to_a_port_with_tls_and_https_to_one_without_are_named(tmp_path: Path) -> None:
    """Both break the connection, and neither is mended by trying again."""
    authority = Authority.at(tmp_path)
    context = server_context(*authority.leaf("m", "127.0.0.1"))
    async with running("--mode=dragonfly", ANYBODY) as master:
        runner = web.AppRunner(build_app(master.service))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context).start()
        address = f"127.0.0.1:{runner.addresses[0][1]}"
        assert await refused(f"http://{address}") == (
            "that port speaks TLS, and was asked over plain http",
            f"write https://{address}; --ca-file names who vouches for it",
        )
        await runner.cleanup()
        plain = master.url.removeprefix("http://")
        assert await refused(f"https://{plain}") == (
            "that port does not speak TLS",
            f"write http://{plain}",
        )

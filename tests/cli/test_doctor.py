"""`topo doctor` beside a master on real sockets: each situation gets its cause and its next step.

Every test brings about one thing that people do wrong, and wants it said once: the cause first, and
nothing that only follows from it.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from master.app import build_app
from master.sources.config_file import DOUBT
from master.sources.row import SourceContext, SourceRow
from master.sources.table import SOURCE_ROWS
from master.sources.workers.port import NEEDS_A_PERSON
from master.sources.workers.refused import MALFORMED, NO_TOKENS, UNKNOWN_TOKEN
from master.tree import findings, topology_document
from master.tree.findings import Examined
from master.tree.topology_document import TopologyView
from tests import builders
from tests.builders import discovery
from tests.master.placing import config
from tests.master.world import TOKEN, Master, facts, running
from tests.support.waiting import eventually
from topo.cli.client.client import connect, target
from topo.cli.diagnosis import checkup
from topo.cli.diagnosis.checkup import Checkup
from topo.cli.exits import CliError
from topo.diagnosis import diagnosis, steps
from topo.diagnosis.finding import Finding
from topo.discovery.groups.tiers import OTHER_FABRIC
from topo.discovery.modes import Mode
from topo.discovery.sources import MANAGED
from topo.discovery.state import DOUBTFUL_INVENTORY, Discovery
from topo.kit.tasks import Work
from topo.kit.tls import server_context
from topo.model.cluster import NO_WORKER_CODE, NODE_NOT_READY_CODE, NOT_IN_CLUSTER_CODE
from topo.model.ids import Kind, NodeName, ServerUuid
from topo.model.machine import LinkPort, NodeFacts, PortState
from topo.model.observation import (
    ClusterNodeSeen,
    ListedNode,
    ManagedTopology,
    ManagerReported,
    Ticked,
    WorkerBeat,
)
from topo.model.rest.findings import FindingDocument, FindingsDocument
from topo.model.rest.topology import TopologyDocument
from topo.sim.clustermanager.certificates import Authority

pytestmark = pytest.mark.virtual_time

ANYBODY = "--allow-anonymous-workers"
MANAGER = "--cluster-manager-address=https://127.0.0.1:9"


async def examined(master: Master) -> Checkup:
    async with connect(target(master.url, None, None)) as client:
        return await checkup.examine(client)


async def sole(master: Master, code: str) -> Finding:
    """The one finding, once that is all: whatever else is so follows from it."""
    seen: list[Finding] = []
    told: list[FindingDocument] = []

    async def is_alone() -> bool:
        seen[:] = (await examined(master)).findings
        document = (await master.get("/v1/findings")).json
        told[:] = FindingsDocument.model_validate(document).findings
        await asyncio.sleep(0.5)
        return [finding.code for finding in seen] == [code]

    with suppress(TimeoutError):
        await eventually(is_alone)
    assert [finding.code for finding in seen] == [code], seen
    assert [(each.code, each.subject) for each in told] == [(code, seen[0].subject)]
    return seen[0]


@pytest.fixture
def token_flag(tmp_path: Path) -> str:
    """The flag that lets workers with the shared token in."""
    path = tmp_path / "worker-token"
    path.write_text(TOKEN + "\n")
    return f"--worker-token-file={path}"


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


# -- workers that are not there yet ----------------------------------------------------------


async def test_machines_without_any_worker_are_one_finding_that_names_them() -> None:
    async with managed({"s1": ["n1", "n2"], "s2": ["n3", "n4"]}) as master:
        finding = await sole(master, "source-waiting")
        assert finding.subject == "workers"
        assert "4 machines should have one: n1, n2, n3, n4" in finding.what
        assert "start topo-worker on every node" in finding.next_step
        assert "the master's --rpc-server-port (10001 unless set)" in finding.next_step


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


# -- tokens ----------------------------------------------------------------------------------


async def test_a_wrong_worker_token_is_named_while_reports_are_refused(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        for _ in range(3):
            refused = await master.worker("n1", token="another").full(facts("n1"))
            assert refused.status == 401
        finding = await sole(master, "unknown-worker-token")
        assert "refused" in finding.what
        assert "the last from 127.0.0.1: it carried a token" in finding.what
        assert "--worker-token-file" in finding.next_step


async def test_a_token_that_is_missing_is_told_from_a_wrong_one(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        assert (await master.worker("n1", token=None).full(facts("n1"))).status == 401
        assert "it carried no token" in (await sole(master, "unknown-worker-token")).what


async def test_a_master_that_lets_nobody_in_says_so() -> None:
    async with running("--mode=dragonfly") as master:
        assert (await master.worker("n1").full(facts("n1"))).status == 401
        finding = await sole(master, "no-worker-tokens")
        assert finding.next_step.startswith("start the master with --worker-token-file")


async def test_workers_whose_token_was_taken_back_are_silent_for_that_reason(
    tmp_path: Path,
) -> None:
    """`is topo-worker running?` would send the operator to the wrong place."""
    path = tmp_path / "tokens"
    path.write_text("first\n")
    flags = (f"--worker-token-file={path}", "--config-poll-interval=50ms", "--beat-interval=1")
    async with running("--mode=dragonfly", *flags) as master:
        first, second = master.worker("n1", "first"), master.worker("n2", "first")
        assert (await first.full(facts("n1", "n2"))).status == 200
        assert (await second.full(facts("n2", "n1"))).status == 200
        path.write_text("second\n")

        async def is_refused() -> bool:
            await asyncio.sleep(1)
            return (await first.beat()).status == (await second.beat()).status == 401

        await eventually(is_refused)

        finding = await sole(master, "unknown-worker-token")
        while "2 nodes silent since: n1, n2" not in finding.what:
            finding = await sole(master, "unknown-worker-token")


async def test_refused_tokens_are_forgotten_a_minute_after_the_last(token_flag: str) -> None:
    """A worker that is refused tries again within seconds; a minute of quiet is the end of it."""
    async with running("--mode=auto", token_flag) as master:
        await master.pair("n1", "n2")
        assert (await master.worker("n3", token="another").full(facts("n3"))).status == 401
        await sole(master, "unknown-worker-token")
        for quiet_s, is_listed in ((50, True), (15, False)):
            await asyncio.sleep(quiet_s)
            codes = {finding.code for finding in (await examined(master)).findings}
            assert ("unknown-worker-token" in codes) is is_listed


async def test_reports_that_are_not_understood_are_no_missing_workers(token_flag: str) -> None:
    """Workers of another release, or a node too many: they run, and the master says what ails."""
    async with running("--mode=dragonfly", "--max-nodes=1", token_flag) as master:
        worker = master.worker("n1")
        assert (await worker.post(b'{"v": 99}')).status == 400
        finding = await sole(master, "malformed-report")
        assert "run workers of the master's release" in finding.next_step
        assert (await worker.full(facts("n1"))).status == 200
        assert (await master.worker("n2").full(facts("n2"))).status == 503

        async def is_said() -> bool:
            found = {finding.code: finding for finding in (await examined(master)).findings}
            return "the last from n2" in getattr(found.get("too-many-nodes"), "what", "")

        await eventually(is_said)


async def test_a_name_that_is_taken_is_listed_with_the_refusal_s_own_fix(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        other = await master.worker("n1").full(facts("n1", system="another-machine"))
        assert other.status == 409
        finding = await sole(master, "duplicate-worker")
        assert finding.next_step == other.json["fix"]


# -- sources ---------------------------------------------------------------------------------


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
    flags = (f"--config-file={path}", "--config-poll-interval=50ms", "--gpus-per-node=8")
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
        assert "nvlink -s` and `-e` on n1" in finding.next_step
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


# -- cables ----------------------------------------------------------------------------------


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
        UNKNOWN_TOKEN,
        NO_TOKENS,
        MALFORMED,
        *sorted(NEEDS_A_PERSON),
        DOUBT,
        DOUBTFUL_INVENTORY,
        OTHER_FABRIC,
        NO_WORKER_CODE,
        NODE_NOT_READY_CODE,
        NOT_IN_CLUSTER_CODE,
    ],
)
def test_every_warning_and_every_cause_in_a_node_has_a_step_of_its_own(code: str) -> None:
    for mode in Mode:
        assert steps.step(code, "n1", mode) != steps.GENERAL_STEP


# -- very many -------------------------------------------------------------------------------


def examined_state(state: Discovery, mode: str) -> list[tuple[str, str]]:
    """Code and subject of every finding about a state, without a master around it."""
    view = TopologyView(state.snapshot)
    document = topology_document.document(view, mode, 0.0)
    read = TopologyDocument.model_validate_json(orjson.dumps(document))
    found = diagnosis.examine(read)
    assert found == findings.findings(Examined(view), mode, 0.0), "the master judges otherwise"
    return [(finding.code, finding.subject) for finding in found]


def test_thousands_of_machines_without_workers_are_one_finding() -> None:
    """Switchboxes of two dragonflies of two nodes; of each dragonfly one worker runs."""
    boxes = {f"s{box}": [f"n{4 * box + at}" for at in range(4)] for box in range(1000)}
    state = discovery(Mode.SWITCHBOX)
    heard = [
        builders.report(name, [names[at + 1]])
        for names in boxes.values()
        for at, name in enumerate(names)
        if at % 2 == 0
    ]
    state.advance(0.0, ManagerReported(builders.managed(boxes)), *heard)
    (finding,) = examined_state(state, "switchbox")
    assert finding[0] == "unjoined"
    assert finding[1].endswith("and 1992 more")


def test_a_machine_that_is_down_is_one_finding_of_the_cluster_and_none_of_its_worker() -> None:
    """Its worker is silent because it is down; that of another node is silent for itself."""
    state = discovery(Mode.DRAGONFLY)
    state.advance(0.0, *builders.ring(["a", "b"]), *builders.ring(["c", "d"]))
    down = [ClusterNodeSeen(ListedNode(NodeName(name), "its kubelet is silent")) for name in "ax"]
    beats = [WorkerBeat(NodeName(name)) for name in "bd"]
    state.advance(29.0, *down, *beats)
    state.advance(40.0, Ticked())
    found = examined_state(state, "dragonfly")
    assert sorted(found) == [("node-not-ready", "a, x"), ("worker-stale", "c")]


def test_nodes_of_kubernetes_that_cannot_be_followed_are_one_finding() -> None:
    """The source fails, and the master warns of what it cannot follow; pods are another matter."""
    warnings = [{"code": f"kubernetes-{of}", "text": "403"} for of in ("nodes", "pods")]
    source = {"source": "cluster-nodes", "state": "failing", "trouble": "403"}
    document = {"generation": 1, "groups": [], "sources": [source], "warnings": warnings}
    found = diagnosis.examine(TopologyDocument.model_validate(document))
    assert [finding.code for finding in found] == ["source-failing", "kubernetes-pods"]


def test_a_thousand_cloned_uuids_are_one_finding() -> None:
    """A board maker's firmware gives pairs of boards one UUID; what is wired to them is alone."""
    state = discovery()
    events = []
    for number in range(1000):
        a, b, c = (f"{letter}{number}" for letter in "abc")
        events += [builders.report(a, [c]), builders.report(c, [a])]
        events += [builders.report(b, [c], local=builders.server(a))]
    state.advance(0.0, *events)
    (finding,) = examined_state(state, "dragonfly")
    assert finding == ("cloned-server-uuid", "a0, b0, a1, b1, a2, b2, a3, b3 and 1992 more")


# -- the address -----------------------------------------------------------------------------


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


async def refused(url: str) -> tuple[str, str]:
    """What the command line says of an address, and its next step."""
    with pytest.raises(CliError) as caught:
        async with connect(target(url, None, None)) as client:
            await checkup.examine(client)
    return caught.value.refusal.what, caught.value.refusal.fix

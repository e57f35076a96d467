"""The HTTP API over real sockets."""

import errno
import gzip
import os
import threading
from importlib.metadata import Distribution, metadata
from pathlib import Path
from typing import Any

import pytest

from master.api import answers, history
from master.api.health import documentation
from master.api.requests import tree_part
from master.api.routes import ROUTES
from master.tree import topology_document
from tests.master.documents import read, read_json
from tests.master.world import Answer, facts, running
from tests.support.waiting import eventually
from topo.kit.serving.problem import CONTENT_TYPE
from topo.model.rest.changes import DiffDocument
from topo.model.rest.node_group import VendorGroup, VendorNode
from topo.model.rest.service import Problem
from topo.model.rest.topology import TopologyDocument

pytestmark = pytest.mark.virtual_time

CONFIG = """\
group:
  - name: switchbox-sample1
    kind: switchbox
    child:
      - name: dragonfly-sample1
        kind: dragonfly
        child: [node-sample1, node-sample2]
      - name: dragonfly-sample2
        kind: dragonfly
        child: [node-sample3, node-sample4]
"""


@pytest.fixture
def config_flag(tmp_path: Path) -> str:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(CONFIG)
    return f"--config-file={path}"


def _problem(answer: Answer, status: int) -> dict[str, Any]:
    assert answer.status == status, answer.body
    assert answer.headers["Content-Type"].startswith(CONTENT_TYPE)
    read_json(Problem, answer.body)
    body: dict[str, Any] = {"field": "", "fix": "", **answer.json}
    assert body["status"] == status
    assert body["detail"]
    return body


async def test_the_configured_tree_comes_back_in_the_vendors_words(config_flag: str) -> None:
    async with running(config_flag) as master:
        tree = await master.tree()
        read(list[VendorGroup | VendorNode], await master.get("/node_group"))
        assert tree == [
            {
                "name": "switchbox-sample1",
                "kind": "switchbox",
                "child": [
                    {
                        "name": f"dragonfly-sample{number}",
                        "kind": "dragonfly",
                        "child": [
                            {"name": f"node-sample{node}", "kind": "node", "status": "Ready"}
                            for node in (2 * number - 1, 2 * number)
                        ],
                        "status": "Ready",
                    }
                    for number in (1, 2)
                ],
                "status": "Ready",
            }
        ]


async def test_a_poll_of_the_unchanged_tree_costs_a_header(config_flag: str) -> None:
    async with running(config_flag) as master:
        await master.ready()
        first = await master.get("/node_group")
        assert first.status == 200
        assert first.headers["Vary"] == "Accept-Encoding"
        tag = first.headers["ETag"]
        again = await master.get("/node_group", If_None_Match=tag)
        assert (again.status, again.body) == (304, b"")
        assert again.headers["ETag"] == tag
        for known in (f'"x", {tag}', "*", f"W/{tag}"):
            assert (await master.get("/node_group", If_None_Match=known)).status == 304
        assert (await master.get("/node_group", If_None_Match='"other"')).status == 200


async def test_gzip_is_a_representation_of_its_own(config_flag: str) -> None:
    async with running(config_flag) as master:
        await master.ready()
        plain = await master.get("/node_group", Accept_Encoding="br, gzip;q=0, *")
        assert "Content-Encoding" not in plain.headers
        zipped = await master.get("/node_group", Accept_Encoding="deflate, gzip")
        assert zipped.headers["Content-Encoding"] == "gzip"
        assert gzip.decompress(zipped.body) == plain.body
        assert zipped.headers["ETag"] != plain.headers["ETag"]
        for tag in (plain.headers["ETag"], zipped.headers["ETag"]):
            answer = await master.get("/node_group", Accept_Encoding="gzip", If_None_Match=tag)
            assert answer.status == 304
        again = await master.get("/node_group", Accept_Encoding="*")
        assert again.body == zipped.body, "the same bytes for the same tree"


async def test_a_client_that_takes_neither_form_is_told_so(config_flag: str) -> None:
    async with running(config_flag) as master:
        await master.ready()
        for path in ("/node_group", "/v1/topology", "/v1/topology?depth=0"):
            answer = await master.get(path, Accept_Encoding="identity;q=0, gzip;q=0")
            assert _problem(answer, 406)["field"] == "Accept-Encoding"
            plain = await master.get(path, Accept_Encoding="gzip;q=0")
            assert "Content-Encoding" not in plain.headers


async def test_the_tag_of_one_question_answers_no_other(config_flag: str) -> None:
    """Neither of another query nor of the other document, strong or weak."""
    async with running(config_flag) as master:
        await master.ready()
        paths = (
            "/node_group",
            "/v1/topology",
            "/v1/topology?depth=0",
            "/v1/topology?depth=1",
            "/v1/topology?group=dragonfly-sample1",
            "/v1/topology?group=dragonfly-sample2",
        )
        tags = {path: (await master.get(path)).headers["ETag"] for path in paths}
        opaque = {tag.removeprefix("W/") for tag in tags.values()}
        assert len(opaque) == len(paths)
        for path in paths:
            others = [tag for other, tag in tags.items() if other != path]
            foreign = ", ".join([*others, *(f"W/{tag.removeprefix('W/')}" for tag in others)])
            assert (await master.get(path, If_None_Match=foreign)).status == 200
            assert (await master.get(path, If_None_Match=tags[path])).status == 304


async def test_head_answers_like_get_without_the_body(config_flag: str) -> None:
    async with running(config_flag) as master:
        await master.ready()
        got = await master.get("/node_group")
        async with master.session.head(
            master.url + "/node_group", headers={"Accept-Encoding": "identity"}
        ) as head:
            assert head.status == 200
            assert head.headers["ETag"] == got.headers["ETag"]
            assert int(head.headers["Content-Length"]) == len(got.body)
            assert await head.read() == b""
        async with master.session.head(master.url + "/v1/topology/events") as head:
            assert head.status == 405


async def test_the_tag_changes_with_the_content_and_only_then(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        await master.ready()
        tag = (await master.get("/node_group")).headers["ETag"]
        for _ in range(3):
            await first.beat()
        assert await master.generation() == await master.generation()
        assert (await master.get("/node_group")).headers["ETag"] == tag
        for _ in range(2):
            await first.full(facts("n1", "n2", healthy=False))

        async def changed() -> bool:
            return (await master.get("/node_group")).headers["ETag"] != tag

        await eventually(changed)


async def test_before_it_is_ready_the_tree_is_not_shown(tmp_path: Path) -> None:
    async with running(f"--config-file={tmp_path / 'absent.yaml'}") as master:
        for path in ("/node_group", "/ready", "/readyz"):
            answer = await master.get(path)
            body = _problem(answer, 503)
            assert answer.headers["Retry-After"] == "1"
            assert "config file" in body["reasons"][0]
        assert (await master.get("/health")).status == 200
        assert (await master.get("/v1/topology")).status == 200, "this one says why"

        async def said() -> bool:
            answer = await master.get("/ready")
            return "does not exist" in answer.json["detail"]

        await eventually(said)


async def test_the_whole_story_keeps_to_its_published_types(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        await master.worker("n3").full(facts("n3", "n9"))
        await master.ready()
        answer = await master.get("/v1/topology")
        told = read(TopologyDocument, answer)
        assert [c["name"] for c in told["groups"][0]["child"]] == ["n1", "n2"]
        assert [u["name"] for u in told["unplaced"]] == ["n3"]
        assert {s["source"] for s in told["sources"]} == {"workers"}
        assert answer.headers["ETag"].startswith('W/"')
        again = await master.get("/v1/topology", If_None_Match=answer.headers["ETag"])
        assert again.status == 304
        zipped = await master.get("/v1/topology", Accept_Encoding="gzip")
        assert zipped.headers["Content-Encoding"] == "gzip"


async def test_many_readers_of_the_whole_story_cost_one_rendering(
    token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Per generation, plain and packed; the ages in it are at most a second old."""
    made: list[int] = []
    render = topology_document.document

    def counted(view: topology_document.TopologyView, *rest: Any, **named: Any) -> Any:
        made.append(view.snapshot.generation)
        return render(view, *rest, **named)

    monkeypatch.setattr(topology_document, "document", counted)
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        await master.tree()
        await first.beat()
        now = await master.generation()
        answers = [await master.get("/v1/topology", Accept_Encoding="gzip") for _ in range(20)]
        plain = [await master.get("/v1/topology") for _ in range(20)]
        assert made.count(now) == 1
        assert gzip.decompress(answers[-1].body) in {answer.body for answer in plain}
        age_s = plain[-1].json["sources"][0]["age_s"]
        assert 0 <= age_s < 5
        for _ in range(2):
            await first.full(facts("n1", "n2", healthy=False))
        assert await master.generation() > now, "a new generation is shown at once"


async def test_searching_and_comparing_is_done_beside_the_loop(
    token_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: dict[str, str] = {}
    for module, name in ((tree_part, "find_path"), (answers, "did_you_mean"), (history, "net")):
        original = getattr(module, name)

        def noted(*given: Any, name: str = name, original: Any = original) -> Any:
            threads[name] = threading.current_thread().name
            return original(*given)

        monkeypatch.setattr(module, name, noted)
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        now = await master.generation()
        assert (await master.get("/v1/topology?node=n3")).status == 404
        assert (await master.get(f"/v1/topology/diff?from=0&to={now}")).status == 200
    assert set(threads) == {"find_path", "did_you_mean", "net"}
    assert "MainThread" not in threads.values()


async def test_one_node_one_group_some_levels(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        await master.pair("n3", "n4")
        await master.ready()
        node = read(TopologyDocument, await master.get("/v1/topology?node=n3"))
        assert [c["name"] for c in node["groups"][0]["child"]] == ["n3"]
        assert node["node"] is not None
        assert node["node"]["identity"] is not None
        assert node["node"]["identity"].name == "n3"
        assert node["node"]["neighbours"] == ("n4",)
        name = node["groups"][0]["name"]
        group = read(TopologyDocument, await master.get(f"/v1/topology?group={name}&depth=0"))
        assert [(g["name"], g["child"], g["capacity"]["nodes"]) for g in group["groups"]] == [
            (name, [], 2)
        ]
        answer = await master.get("/v1/topology?node=n3")
        assert "ETag" not in answer.headers, "what a worker says moves without a generation"


@pytest.mark.parametrize(
    ("path", "status", "hint"),
    [
        ("/v1/topology?node=nod1", 404, ("node", "did you mean node1?")),
        ("/v1/topology?group=zzzzz", 404, ("group", "GET /v1/topology")),
        ("/v1/topology?gruop=x", 400, ("gruop", "did you mean group?")),
        ("/v1/topology?x=1", 400, ("x", "known are: group, node, depth")),
        ("/v1/topology?depth=-1", 400, ("depth", "levels")),
        ("/v1/topology?depth=1e3", 400, ("depth", "levels")),
        ("/v1/topology?depth=" + "9" * 30, 400, ("depth", "levels")),
        ("/v1/topology?node=", 400, ("node", "1 to")),
        ("/v1/topology?node=a&node=b", 400, ("node", "once")),
        ("/v1/topology?node=node1&group=g", 400, ("node", "give one")),
        ("/v1/topology/diff", 400, ("from", "add ?from=")),
        ("/v1/topology/diff?from=9&to=3", 400, ("to", "swap")),
        ("/v1/topology/diff?from=999", 410, ("from", "are remembered")),
        ("/v1/topology/diff?from=0&to=999", 410, ("to", "are remembered")),
        ("/v1/topology/diff?from=1.2", 400, ("from", "generation")),
        ("/v1/topology/diff?from=-1", 400, ("from", "generation")),
        ("/v1/topology/events?since=x", 400, ("since", "generation")),
        ("/node_group?pretty=1", 400, ("pretty", "takes none")),
        ("/metrics?x=1", 400, ("x", "takes none")),
        ("/nothere", 404, ("", "/openapi.json")),
    ],
)
async def test_a_wrong_request_names_the_field_and_the_fix(
    token_flag: str, path: str, status: int, hint: tuple[str, str]
) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("node1", "node2")
        await master.ready()
        body = _problem(await master.get(path), status)
        field, fix = hint
        assert body["field"] == field
        assert fix in body["fix"]


async def test_a_call_that_writes_is_refused_with_the_methods_there_are(config_flag: str) -> None:
    async with (
        running(config_flag) as master,
        master.session.post(master.url + "/node_group", data=b"x" * 100_000) as answer,
    ):
        assert answer.status == 405
        assert "GET" in answer.headers["Allow"]
        assert answer.content_type == CONTENT_TYPE


@pytest.mark.parametrize(("method", "path"), [("GET", "/node_group"), ("POST", "/v1/placements")])
async def test_an_expectation_that_is_not_known_is_refused_as_a_problem(
    config_flag: str, method: str, path: str
) -> None:
    async with (
        running(config_flag) as master,
        master.session.request(
            method, master.url + path, headers={"Expect": "the impossible"}
        ) as answer,
    ):
        assert answer.status == 417
        assert answer.content_type == CONTENT_TYPE
        assert (await answer.json(content_type=None))["field"] == "Expect"


async def test_a_body_that_waits_to_be_asked_for_is_asked_for(token_flag: str) -> None:
    async with (
        running("--mode=dragonfly", token_flag) as master,
        master.session.post(
            f"{master.url}/v1/placements", json={"pods": "none"}, expect100=True
        ) as answer,
    ):
        assert answer.status == 400
        assert answer.content_type == CONTENT_TYPE


async def test_a_diff_tells_what_moved_and_why(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        first, _ = await master.pair("n1", "n2")
        start = await master.generation()
        for _ in range(2):
            await first.full(facts("n1", "n2", healthy=False))
        end = await master.generation()
        assert end > start
        diff = read(DiffDocument, await master.get(f"/v1/topology/diff?from={start}"))
        assert (diff["from"], diff["to"]) == (start, end)
        down = next(c for c in diff["changes"] if c["what"] == "node-status")
        assert (down["subject"], down["before"], down["after"]) == ("n1", "Ready", "NotReady")
        assert down["why"]
        early = await master.get(f"/v1/topology/diff?from=0&to={start}")
        assert early.json["changes"]
        assert all(c["generation"] <= start for c in early.json["changes"])
        same = await master.get(f"/v1/topology/diff?from={end}&to={end}")
        run = master.service.engine.history.run_id
        runs = {"run": run, "from_run": run}
        times = {"from_at": "", "to_at": ""}
        assert same.json == {"from": end, "to": end, **runs, **times, "changes": []}


async def test_a_generation_may_name_the_run_that_counted_it(token_flag: str) -> None:
    """That of another run is gone, whatever its number."""
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("n1", "n2")
        now = await master.generation()
        topology = (await master.get("/v1/topology")).json
        run = topology["run"]
        assert (await master.get("/v1/topology?depth=0")).json["run"] == run
        assert (await master.get("/")).json["run"] == run
        own = await master.get(f"/v1/topology/diff?from=0.{run}&to={now}.{run}")
        assert own.json == (await master.get(f"/v1/topology/diff?from=0&to={now}")).json
        for query, field in (("from=0.00000000", "from"), (f"from=0&to={now}.00000000", "to")):
            body = _problem(await master.get(f"/v1/topology/diff?{query}"), 410)
            assert body["field"] == field
            assert run in body["fix"]


async def test_health_says_when_the_engine_stands_still(
    config_flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(config_flag) as master:
        for path in ("/health", "/healthz", "/livez"):
            assert (await master.get(path)).json == {"status": "ok", "warnings": []}
        monkeypatch.setattr("master.tree.engine.STUCK_S", 0.0)
        for path in ("/health", "/healthz", "/livez"):
            assert "has not advanced" in _problem(await master.get(path), 503)["detail"]


async def test_the_index_leads_to_every_call(config_flag: str) -> None:
    async with running(config_flag) as master:
        index = (await master.get("/")).json
        assert index["service"] == "topo-master"
        assert {path for route in ROUTES for path in route.paths} <= set(index["calls"])


async def test_the_index_names_version_and_documentation_as_the_package_states_them(
    config_flag: str,
) -> None:
    async with running(config_flag) as master:
        index = (await master.get("/")).json
        about = metadata("supernode-topology")
        assert index["version"] == about["Version"]
        assert index["docs"] == documentation(about.get_all("Project-URL") or ())
    urls = ["Issues, https://i.example", "Documentation, https://d.example/topo, it"]
    assert documentation(urls) == "https://d.example/topo, it"
    assert documentation(["Source, https://s.example"]) == ""


async def test_the_index_opens_no_file(config_flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """So it also answers when the process has no free descriptor."""

    def no_descriptors(_name: str) -> Distribution:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    async with running(config_flag) as master:
        monkeypatch.setattr(Distribution, "from_name", no_descriptors)
        answer = await master.get("/")
        assert (answer.status, answer.json["service"]) == (200, "topo-master")


async def test_metrics_have_help_bounded_labels_and_no_names(token_flag: str) -> None:
    async with running("--mode=dragonfly", token_flag) as master:
        await master.pair("node-with-a-name", "n2")
        await master.ready()
        await master.get("/node_group", Accept_Encoding="gzip")
        await master.get("/v1/topology?node=node-with-a-name")
        await master.get("/some/path/of/an/attacker")
        text = (await master.get("/metrics")).body.decode()
        assert "node-with-a-name" not in text
        assert "attacker" not in text
        for line in (
            'topo_master_nodes{status="Ready"} 2.0',
            'topo_master_groups{kind="dragonfly",status="Ready"} 1.0',
            'topo_master_reports_total{kind="full",result="taken"} 2.0',
            'topo_master_http_requests_total{code="404",method="GET",route="none"} 1.0',
            "topo_master_ready 1.0",
            "topo_master_workers 2.0",
            'topo_master_source_failing{source="workers"} 0.0',
            'topo_master_source_warnings{source="workers"} 0.0',
        ):
            assert line in text, line
        names = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
        assert not [n for n in names if n.endswith("_created")]
        assert all(len(line.split()) > 3 for line in text.splitlines() if "# HELP" in line)


async def test_switchbox_mode_says_that_it_waits_for_its_manager(token_flag: str) -> None:
    """Workers alone are not the tree; what they say is kept, and shown where it is explained."""
    address = "--cluster-manager-address=https://127.0.0.1:1"
    async with running("--mode=switchbox", address, token_flag) as master:
        await master.pair("n1", "n2")

        async def said() -> bool:
            reasons = (await master.get("/ready")).json["reasons"]
            return any("cluster manager has not answered yet:" in reason for reason in reasons)

        await eventually(said)
        assert (await master.get("/node_group")).status == 503
        topology = read(TopologyDocument, await master.get("/v1/topology"))
        states = {source["source"]: source["state"] for source in topology["sources"]}
        assert states == {"workers": "ok", "cluster-manager": "failing"}
        assert topology["groups"][0]["capacity"]["nodes"] == 2

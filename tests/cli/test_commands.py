"""`topo` against a master: what is printed, what it asks, how it ends."""

import asyncio
import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cli import samples
from tests.cli.conftest import FakeMaster, Topo
from topo.cli import value_count
from topo.cli.client.client import connect, target
from topo.cli.client.decoding import parse_json
from topo.cli.exit_codes import CliError, Exit
from topo.model.rest.generation_id import GenerationId


def test_tree_prints_the_forest(topo: Topo) -> None:
    shown = topo("tree")
    assert shown.exit_code == Exit.OK
    assert "● switchbox-sample1  switchbox  Ready  4/4 nodes" in shown.stdout
    assert shown.stderr == ""


def test_tree_as_json_is_the_masters_document_untouched(
    topo: Topo, fake_master: FakeMaster
) -> None:
    """Keys that this version does not know come through too."""
    fake_master.document["from_the_future"] = {"a": [1]}
    assert json.loads(topo("tree", "-o", "json").stdout) == fake_master.document
    assert yaml.safe_load(topo("tree", "--output", "yaml").stdout) == fake_master.document


def test_problems_are_all_that_is_not_ready_and_every_list_beside_the_tree(
    topo: Topo, fake_master: FakeMaster
) -> None:
    fake_master.document = samples.troubled()
    shown = topo("tree", "--problems").stdout
    for words in ("✗ node-3  NotReady", "the link to node-4", "✗ node-9", "cloned-server", "1/2"):
        assert words in shown, words
    assert "● node-" not in shown
    assert "dragonfly-0a1b2c3d" not in shown
    told = json.loads(topo("tree", "--problems", "-o", "json").stdout)
    (box,) = told.pop("groups")
    whole = samples.troubled()
    assert [child["name"] for child in box["child"]] == ["dragonfly-4e5f6a7b"]
    assert box["capacity"] == whole["groups"][0]["capacity"], "a group counts all of it"
    assert told == {key: value for key, value in whole.items() if key != "groups"}


def test_without_problems_that_is_said_and_an_empty_tree_is_one(
    topo: Topo, fake_master: FakeMaster
) -> None:
    assert "every group and node is Ready" in topo("tree", "--problems").stdout
    fake_master.document = {"generation": 0, "groups": []}
    assert "no nodes yet" in topo("tree", "--problems").stdout


def test_group_and_depth_travel_as_the_query(topo: Topo, fake_master: FakeMaster) -> None:
    topo("tree", "--group", "switchbox-1/dragonfly-2", "--depth", "1")
    assert dict(fake_master.asked[-1].query) == {"group": "switchbox-1/dragonfly-2", "depth": "1"}


def test_node_shows_one_node_from_the_inside(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.document = samples.inside()
    shown = topo("node", "node-3")
    assert shown.exit_code == Exit.OK
    assert "links inside the node" in shown.stdout
    assert fake_master.asked[-1].query["node"] == "node-3"
    assert json.loads(topo("node", "node-3", "-o", "json").stdout)["node"] == samples.detail()


def test_an_unknown_node_is_refused_with_the_masters_own_words(topo: Topo) -> None:
    shown = topo("node", "node-77")
    assert shown.exit_code == Exit.REFUSED
    assert shown.stderr.splitlines() == [
        "topo: no node node-77",
        "  at GET /v1/topology",
        "  next: topo tree",
    ]


def test_diff_without_options_is_the_last_change(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.publish(samples.troubled(), samples.changes(13))
    shown = topo("diff")
    assert shown.exit_code == Exit.OK
    assert "generation 12 to 13" in shown.stdout
    assert "node-3  Ready → NotReady" in shown.stdout
    assert dict(fake_master.asked[-1].query) == {"from": "12", "to": "13"}


def test_diff_between_two_named_generations(topo: Topo) -> None:
    shown = topo("diff", "3", "9", "-o", "json")
    assert json.loads(shown.stdout) == {"from": 3, "to": 9, "changes": []}
    assert "nothing changed" in topo("diff", "3", "9").stdout


def test_a_moment_is_a_generation_a_time_or_so_long_ago(
    topo: Topo, fake_master: FakeMaster
) -> None:
    assert topo("diff", "3.5e0c21af", "9").exit_code == Exit.OK
    assert dict(fake_master.asked[-1].query) == {"from": "3.5e0c21af", "to": "9"}
    times = {"from_at": "2026-11-22T13:52:11.020Z", "to_at": "2026-11-22T14:02:11.001Z"}
    told = {"from": 3, "to": 9, "run": "5e0c21af", **times, "changes": samples.changes(9)}
    fake_master.broken["/v1/topology/diff"] = (200, json.dumps(told), {})
    shown = topo("diff", "10m")
    assert dict(fake_master.asked[-1].query) == {"from": "10m"}
    title = "2026-11-22T13:52:11.020Z (generation 3) to 2026-11-22T14:02:11.001Z (generation 9)"
    assert title in shown.stdout
    for wrong in ("", "3.", "3.XYZ", "x", "9" * 19, "yesterday", "2026-11-22"):
        assert topo("diff", wrong).exit_code == Exit.USAGE, wrong


def test_the_history_is_a_table_of_moments(topo: Topo, fake_master: FakeMaster) -> None:
    """Who came, went, moved or changed its status, in 80 columns."""
    fake_master.broken["/v1/history"] = (200, json.dumps(samples.history()), {})
    shown = topo("history", "--from", "1d", "-n", "5")
    assert dict(fake_master.asked[-1].query) == {"from": "1d", "limit": "5"}
    lines = shown.stdout.splitlines()
    assert lines[0].split() == ["at", "generation", "came", "went", "moved", "status", "other"]
    assert lines[2].split() == ["2026-11-22T14:02:11.020Z", "8.5e0c21af", "2", "4", "3"]
    assert max(map(len, lines)) <= 80
    fake_master.broken["/v1/history"] = (200, '{"now": "", "moments": []}', {})
    assert "no moment is kept yet" in topo("history").stdout


def test_the_last_change_is_asked_of_the_run_that_counted_it(
    topo: Topo, fake_master: FakeMaster
) -> None:
    """A master that restarts between the two questions must not answer with other changes."""
    fake_master.document = {**samples.healthy(), "run": "5e0c21af"}
    assert topo("diff").exit_code == Exit.OK
    assert dict(fake_master.asked[-1].query) == {"from": "11.5e0c21af", "to": "12.5e0c21af"}


def test_a_diff_for_programs_is_all_that_the_master_said(
    topo: Topo, fake_master: FakeMaster
) -> None:
    told = {"from": 11, "to": 12, "run": "5e0c21af", "changes": [], "new": {"of": "tomorrow"}}
    fake_master.broken["/v1/topology/diff"] = (200, json.dumps(told), {})
    assert json.loads(topo("diff", "-o", "json").stdout) == told


def test_a_forgotten_generation_says_so(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.broken["/v1/topology/diff"] = (410, '{"detail": "history starts at 7"}', {})
    shown = topo("diff", "1", "9")
    assert shown.exit_code == Exit.REFUSED
    assert "history starts at 7" in shown.stderr
    assert "next: the master keeps a limited history" in shown.stderr


def test_doctor_finds_nothing_in_a_healthy_cluster(topo: Topo) -> None:
    shown = topo("doctor")
    assert shown.exit_code == Exit.OK
    assert "nothing is wrong" in shown.stdout
    assert f"version {version('supernode-topology')}, the same as this topo" in shown.stdout


def test_doctor_names_every_trouble_and_ends_with_1(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.document = samples.troubled()
    fake_master.broken["/ready"] = (503, '{"detail": "no forest yet"}', {})
    fake_master.broken["/openapi.json"] = (200, '{"info": {"version": "9.0"}}', {})
    shown = topo("doctor", "-o", "json")
    assert shown.exit_code == Exit.FINDING
    told = json.loads(shown.stdout)
    assert told["wrong"] is True
    assert {finding["code"] for finding in told["findings"]} == {
        "version",
        "restored",
        "source-failing",
        "source-waiting",
        "source-old",
        "link-down",
        "worker-stale",
        "no-peer",
        "cloned-server-uuid",
        "unjoined",
    }
    assert all(finding["next_step"] for finding in told["findings"])
    fake_master.document = samples.healthy()  # no source explains it now
    assert "GET /ready answers 503: no forest yet" in topo("doctor").stdout


def test_a_config_file_without_workers_is_no_trouble(topo: Topo, fake_master: FakeMaster) -> None:
    silent = {
        "source": "workers",
        "state": "waiting",
        "age_s": None,
        "failing_s": None,
        "trouble": "",
    }
    fake_master.document = {**samples.healthy(), "sources": [silent], "mode": "config"}
    assert topo("doctor").exit_code == Exit.OK
    fake_master.document = {"generation": 0, "groups": [], "sources": [silent], "mode": "config"}
    assert "no node is known" in topo("doctor").stdout
    fake_master.document = {**samples.healthy(), "sources": [silent], "mode": "dragonfly"}
    assert topo("doctor").exit_code == Exit.FINDING


def test_doctor_says_that_an_empty_tree_is_wrong(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.document = {"generation": 0, "groups": []}
    fake_master.broken["/openapi.json"] = (404, "nothing", {})
    fake_master.broken["/health"] = (500, "[1]", {})
    shown = topo("doctor")
    assert shown.exit_code == Exit.FINDING
    assert "no node is known" in shown.stdout


def test_the_next_step_of_an_empty_tree_is_one_of_its_mode(
    topo: Topo, fake_master: FakeMaster
) -> None:
    for mode, step in {
        "config": "nodegroup.yaml",
        "labels": "`kubectl get nodes`",
        "fabric": "let the master read Kubernetes",
    }.items():
        fake_master.document = {"generation": 0, "groups": [], "sources": [], "mode": mode}
        assert step in " ".join(topo("doctor").stdout.split()), mode


def test_nobody_at_the_address_is_3(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.stop()
    shown = topo("tree")
    assert shown.exit_code == Exit.UNREACHABLE
    assert "no master answers: Connection refused" in shown.stderr
    assert "next: start one with `topo demo`" in shown.stderr


@pytest.mark.parametrize(
    ("answer", "ending"),
    [
        ((200, "<html>", {}), ("did not answer JSON", Exit.UNREACHABLE)),
        ((200, '{"generation": 1}', {}), ("not the document expected", Exit.UNREACHABLE)),
        ((200, "[]", {}), ("not the document expected", Exit.UNREACHABLE)),
        ((302, "", {"Location": "http://other/"}), ("HTTP status 302", Exit.UNREACHABLE)),
        ((503, '{"detail": "starting"}', {}), ("starting", Exit.UNREACHABLE)),
        ((401, "[]", {}), ("HTTP status 401", Exit.REFUSED)),
        ((404, "gone\x1b[2J", {}), ("that is no topo-master", Exit.UNREACHABLE)),
        ((400, '{"detail": "bad\\u001b[2J", "fix": "f"}', {}), ("bad\ufffd[2J", Exit.REFUSED)),
    ],
)
def test_an_unusable_answer_is_said_in_one_sentence(
    topo: Topo, fake_master: FakeMaster, answer: Any, ending: tuple[str, Exit]
) -> None:
    words, code = ending
    fake_master.broken["/v1/topology"] = answer
    shown = topo("tree")
    assert shown.exit_code == code
    assert words in shown.stderr
    assert "next: " in shown.stderr
    assert "Traceback" not in shown.output
    assert "\x1b" not in shown.output


def test_an_answer_without_end_is_cut(
    topo: Topo, fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topo.cli.client.client.MAX_ANSWER_BYTES", 1000)
    fake_master.broken["/v1/topology"] = (200, "x" * 2000, {})
    shown = topo("tree")
    assert shown.exit_code == Exit.UNREACHABLE
    assert "more than 1000 bytes" in shown.stderr


def test_an_answer_of_too_many_values_is_not_parsed(
    topo: Topo, fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A few megabytes of empty objects would take gigabytes."""
    monkeypatch.setattr(value_count, "MAX_VALUES", 1000)
    fake_master.broken["/v1/topology"] = (200, f"[{','.join(['{}'] * 501)}]", {})
    shown = topo("tree")
    assert shown.exit_code == Exit.UNREACHABLE
    assert "more than 1,000 values" in shown.stderr
    assert "next: " in shown.stderr


@pytest.mark.parametrize("value", ["{}", "[]", '{"a":0}', '"ab"', "1.5"])
def test_a_text_of_any_values_is_counted_before_it_is_parsed(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(value_count, "MAX_VALUES", 1000)
    with pytest.raises(CliError, match="values"):
        parse_json(f"[{','.join([value] * 1001)}]")
    assert len(parse_json(f"[{','.join([value] * 400)}]")) == 400


BIDI = "a\u202eb\u2066c\u200bd\x9b2J\u2028e"


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_no_output_carries_what_a_terminal_obeys(
    topo: Topo, fake_master: FakeMaster, output: str
) -> None:
    """JSON and YAML say the same in escapes: whoever reads them gets the name as it was."""
    fake_master.document["groups"][0]["name"] = BIDI
    shown = topo("tree", "-o", output)
    assert shown.exit_code == Exit.OK
    assert not set(BIDI) - set("abcde2J") & set(shown.stdout)
    if output != "table":
        assert yaml.safe_load(shown.stdout)["groups"][0]["name"] == BIDI


@pytest.mark.parametrize("output", ["table", "json", "yaml"])
def test_a_tree_too_deep_to_print_is_no_answer_of_a_master(
    topo: Topo, fake_master: FakeMaster, output: str
) -> None:
    group = '{"name":"g","kind":"box","tier":1,"status":"Ready","child":['
    text = f'{{"generation":1,"groups":[{group * 400}{"]}" * 400}]}}'
    fake_master.broken["/v1/topology"] = (200, text, {})
    shown = topo("tree", "-o", output)
    assert shown.exit_code == Exit.UNREACHABLE
    assert "is this the address of a topo-master" in shown.stderr or "same release" in shown.stderr


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{", b"HTTP/1.1 200 OK\r\n"]
)
def test_an_answer_that_breaks_off_is_said_in_words(answer: bytes) -> None:
    """As a master that is killed leaves it; not as the status that a library makes of it."""

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(64 << 10)  # the question, or the handshake that looks for TLS after it
        writer.write(answer)
        writer.close()
        await writer.wait_closed()

    async def conversation() -> None:
        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, connect(target(f"127.0.0.1:{port}", None, None)) as master:
            await master.topology()

    with pytest.raises(CliError, match="broke before the answer was whole") as raised:
        asyncio.run(conversation())
    assert raised.value.exit_code == Exit.UNREACHABLE


def test_an_event_without_end_is_not_collected_for_ever(
    fake_master: FakeMaster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("topo.cli.client.sse.MAX_DATA_CHARS", 1000)
    fake_master.broken["/v1/topology/events"] = (200, "data: " + "x" * 5000, {})

    async def follow() -> None:
        async with connect(target(fake_master.url, None, None)) as master:
            async for _ in master.changes(GenerationId(1)):
                pass

    with pytest.raises(CliError, match="more than 1000 characters"):
        asyncio.run(follow())


@pytest.mark.parametrize(
    "address", ["http://u:s3cret@h:1", "htps://u:s3cret@h", "u:s3cret@h", "http://s3cret@h:x"]
)
def test_credentials_in_an_address_are_refused_and_not_repeated(topo: Topo, address: str) -> None:
    shown = topo("tree", "--master", address)
    assert shown.exit_code == Exit.USAGE
    assert "credentials do not belong" in shown.stderr
    assert "s3cret" not in shown.output


def test_the_token_travels_as_a_bearer_token(
    topo: Topo, fake_master: FakeMaster, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    assert topo("tree", "--token-file", str(file)).exit_code == Exit.OK
    assert fake_master.asked[-1].headers["Authorization"] == "Bearer s3cret"


@pytest.mark.parametrize("content", ["# comment\ns3cret\n", "s3cret\ns3cret", "s3\x01cret"])
def test_a_token_file_that_holds_more_than_a_token_is_bad_usage(
    topo: Topo, tmp_path: Path, content: str
) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    shown = topo("tree", "--token-file", str(file))
    assert shown.exit_code == Exit.USAGE
    assert "one token" in shown.stderr
    assert "cret" not in shown.output


@pytest.mark.parametrize(
    ("url", "is_sent"),
    [
        ("http://10.0.0.1:9001", False),
        ("http://master:9001", False),
        ("http://[::ffff:10.0.0.1]:9001", False),
        ("http://127.0.0.1.example:9001", False),
        ("https://10.0.0.1:9001", True),
        ("http://127.0.0.2:9001", True),
        ("http://[::1]:9001", True),
        ("http://LOCALHOST:9001", True),
    ],
)
def test_a_token_leaves_the_machine_over_tls_only(tmp_path: Path, url: str, is_sent: bool) -> None:  # noqa: FBT001
    """And the refusal says how to have TLS."""
    (tmp_path / "token").write_text("s3cret-token")
    if is_sent:
        assert target(url, tmp_path / "token", None).token == "s3cret-token"
        return
    with pytest.raises(CliError) as caught:
        target(url, tmp_path / "token", None)
    assert "clear text" in caught.value.refusal.what
    assert "--tls-cert" in caught.value.refusal.fix
    assert target(url, None, None).token is None, "reading needs none"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--master", "ftp://x"], "not an http or https URL"),
        (["--master", "http://x:9001/?token=s3cret"], "carries a query"),
        (["--master", "ftp://x/#s3cret"], "carries a query or a fragment"),
        (["--master", "http://me:s3cret@x:9001"], "credentials do not belong"),
        (["--master", "http://"], "not an http or https URL"),
        (["--master", "http://x:99999"], "not a URL"),
        (["--token-file", "/nowhere"], "does not exist"),
        (
            ["--master", "http://10.0.0.1:9001", "--token-file", "TOKEN"],
            "cross the network in clear text",
        ),
        (["--master", "https://127.0.0.1:1", "--ca-file", "/nowhere"], "CA file cannot be used"),
        (["--depth", "-1"], "greater than or equal to 0"),
        (["--no-such-flag"], "topo tree has no such option"),
    ],
)
def test_bad_usage_is_2(topo: Topo, tmp_path: Path, arguments: list[str], words: str) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    shown = topo("tree", *(str(token) if a == "TOKEN" else a for a in arguments))
    assert shown.exit_code == Exit.USAGE
    assert words in shown.stderr
    assert "s3cret" not in shown.output


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["nodes", "--status", "foo"],
            ["'foo' is not one of", "at --status", "`topo nodes list --help`"],
        ),
        (["tree", "--output", "foo"], ["'foo' is not one of", "at --output", "`topo tree --help`"]),
        (["nodes", "--fre", "1"], ["no such option", "at --fre", "did you mean --free?"]),
        (["why"], ["JOB|POD is missing", "at JOB|POD", "`topo why --help`"]),
        (["nodez"], ["No such command 'nodez'", "at topo", "`topo --help`"]),
        (["sim", "nothing"], ["No such command 'nothing'", "at topo sim", "`topo sim --help`"]),
        (
            ["--master", "http://x", "doctor"],
            ["no such option", "at --master", "after the command: `topo doctor --master ...`"],
        ),
        (
            ["holds", "--key", "x", "release"],
            ["no such option", "at --key", "next: `topo holds --help`"],
        ),
    ],
)
def test_what_typer_finds_wrong_is_three_lines_like_everything_else(
    topo: Topo, arguments: list[str], lines: list[str]
) -> None:
    shown = topo(*arguments)
    assert shown.exit_code == Exit.USAGE
    told = shown.stderr.splitlines()
    assert len(told) == len(lines), told
    for words, line in zip(lines, told, strict=True):
        assert words in line
    assert "Value error" not in shown.stderr


def test_nothing_but_topo_is_a_wish_for_help(topo: Topo) -> None:
    assert "Usage: " in topo().output


def test_tls_where_none_is_spoken_names_the_likely_cause(
    topo: Topo, fake_master: FakeMaster
) -> None:
    shown = topo("tree", "--master", f"https://127.0.0.1:{fake_master.port}")
    assert shown.exit_code == Exit.UNREACHABLE
    assert "that port does not speak TLS" in shown.stderr
    assert f"next: write http://127.0.0.1:{fake_master.port}" in shown.stderr


def test_a_name_that_does_not_resolve_is_3(topo: Topo) -> None:
    shown = topo("tree", "--master", "http://no-such-host.invalid:9001")
    assert shown.exit_code == Exit.UNREACHABLE
    assert "does not resolve" in shown.stderr


def test_version_and_help_need_no_master(topo: Topo, fake_master: FakeMaster) -> None:
    fake_master.stop()
    assert topo("--version").stdout == f"topo {version('supernode-topology')}\n"
    assert topo("tree", "-h").exit_code == Exit.OK
    assert topo().exit_code == Exit.USAGE

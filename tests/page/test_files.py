"""What the master serves of the page: the files, their headers, and the list without scripts."""

import gzip
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from master.api.events.stream import HEARTBEAT_S
from master.tree.findings import Examined
from master.tree.topology_document import TopologyView
from master.web import plain
from master.web.files import page
from tests.builders import declared, discovery
from tests.master.api.test_api import CONFIG
from tests.master.world import Master, running
from topo.discovery.modes import Mode
from topo.model.observation import ConfigLoaded
from topo.placement.job.plan import FitTest, objective_names

pytestmark = pytest.mark.virtual_time
SOURCE = Path(page.__wrapped__.__code__.co_filename).parent / "page"
BROWSER = {"Accept": "text/html,application/xhtml+xml;q=0.9"}
EVIL = (
    "<img src=x onerror=alert(1)>",
    "a\"b'c&d</li></ul><script>",
    "\u202egnp.exe",
    "n" * 253,
)


@pytest.fixture
def config_flag(tmp_path: Path) -> str:
    path = tmp_path / "nodegroup.yaml"
    path.write_text(CONFIG)
    return f"--config-file={path}"


def test_every_file_of_the_folder_is_served_and_none_is_of_somebody_else() -> None:
    """Nothing names another host, so nothing is fetched from one."""
    assert set(page().files) == {each.name for each in SOURCE.iterdir()}
    for name, file in page().files.items():
        hosts = set(re.findall(r"https?://[\w.]+", file.body.decode()))
        assert hosts <= {"http://www.w3.org"}, name  # the name of SVG
        assert gzip.decompress(file.zipped) == file.body


def test_a_master_that_hangs_is_noticed_after_two_signs_of_life_and_within_five_seconds() -> None:
    named = re.search(r"SILENCE_MS = ([\d_]+);", page().files["stream.js"].body.decode())
    assert named is not None
    assert 2 * HEARTBEAT_S < int(named[1]) / 1000 <= 5


def test_every_module_that_is_imported_is_there() -> None:
    for name, file in page().files.items():
        named = re.findall(r'(?:from|import) "\./([\w.]+)"', file.body.decode())
        assert set(named) <= set(page().files), name


def test_every_module_is_named_ahead_and_none_waits_for_the_one_that_imports_it() -> None:
    index = page().files["index.html"].body.decode()
    ahead = re.findall(r'rel="modulepreload" href="web/(\w+)/([\w.]+)"', index)
    modules = {name for name in page().files if name.endswith(".js")}
    assert sorted(ahead) == [(page().release, name) for name in sorted(modules)]


def test_both_languages_say_the_same_things() -> None:
    english, chinese = (
        {
            key: set(re.findall(r"\{(\w+)\}", said))
            for key, said in _entries(page().files[name].body.decode())
        }
        for name in ("en.js", "zh.js")
    )
    assert english == chinese
    words = "".join(file.body.decode() for file in page().files.values())
    used = re.findall(r"\bt\(\"(\w+)\"", words)
    used += re.findall(r'data-(?:t|label)="(\w+)"', words)
    assert used
    assert set(used) <= set(english)
    assert {f"failed_{test}" for test in FitTest} <= set(english)
    assert {f"aim_{name}" for name in objective_names(tiers=2)} <= set(english)


def _entries(table: str) -> list[tuple[str, str]]:
    return re.findall(r"^  \"?([\w-]+)\"?:\s+\"(.*)\",$", table, re.MULTILINE)


async def test_a_browser_gets_the_page_and_others_the_index(config_flag: str) -> None:
    async with running(config_flag) as master:
        shown = await master.get("/", **BROWSER)
        assert shown.headers["Content-Type"] == "text/html; charset=utf-8"
        assert b"<canvas" in shown.body
        asked = await master.get("/?lang=zh&at=10m", **BROWSER)
        assert (asked.status, asked.body) == (200, shown.body)
        assert (await master.get("/")).json["service"] == "topo-master"
        for answer in (shown, await master.get("/")):
            assert "Accept" in answer.headers["Vary"]


async def test_nothing_of_the_page_may_run_or_load_what_is_not_the_masters(
    config_flag: str,
) -> None:
    """The policy names scripts, styles and calls of the master's own, and forbids all else."""
    async with running(config_flag) as master:
        for path in ("/", "/plain", f"/web/{page().release}/main.js"):
            headers = (await master.get(path, **BROWSER)).headers
            rules = dict(
                rule.strip().partition(" ")[::2]
                for rule in headers["Content-Security-Policy"].split(";")
            )
            assert rules["default-src"] == "'none'"
            assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
            assert rules["frame-ancestors"] == rules["base-uri"] == rules["form-action"] == "'none'"
            assert rules["require-trusted-types-for"] == "'script'"
            assert headers["X-Content-Type-Options"] == "nosniff"
            assert headers["Referrer-Policy"] == "no-referrer"


async def test_files_are_kept_for_good_under_their_release_and_never_under_another(
    config_flag: str,
) -> None:
    async with running(config_flag) as master:
        body = (await master.get("/", **BROWSER)).body.decode()
        named = re.findall(r'(?:href|src)="(web/[^"]+)"', body)
        assert {path.rpartition(".")[2] for path in named} == {"css", "js", "svg"}
        for path in named:
            answer = await master.get(f"/{path}", Accept_Encoding="gzip")
            assert answer.status == 200
            assert "immutable" in answer.headers["Cache-Control"]
            assert answer.headers["Content-Encoding"] == "gzip"
        other = await master.get("/web/0123456789abcdef/main.js")
        assert (other.status, other.headers["Cache-Control"]) == (200, "no-store")


@pytest.mark.parametrize("path", ["/", "/plain"])
async def test_a_page_that_is_known_is_not_sent_again(config_flag: str, path: str) -> None:
    async with running(config_flag) as master:
        tag = (await master.get(path, **BROWSER)).headers["ETag"]
        again = await master.get(path, **BROWSER, If_None_Match=tag)
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize("name", ["types.d.ts", "..", "files.py", "%2e%2e%2ffiles.py", "a" * 70])
async def test_no_other_file_can_be_asked_for(config_flag: str, name: str) -> None:
    async with running(config_flag) as master:
        assert (await master.get(f"/web/{page().release}/{name}")).status in {400, 404}


async def test_the_list_has_every_group_and_every_node(config_flag: str) -> None:
    async with running(config_flag) as master:
        text = (await master.get("/plain", **BROWSER)).body.decode()
        for name in await _names(master):
            assert f"<bdi>{name}</bdi>" in text


async def _names(master: Master) -> list[str]:
    level = (await master.get("/v1/topology")).json["groups"]
    names = []
    while level:
        names += [vertex["name"] for vertex in level]
        level = [child for vertex in level for child in vertex.get("child", [])]
    return names


class _Reader(HTMLParser):
    """The elements and the words of a page, as a browser takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.names: list[str] = []
        self._in_name = False

    def handle_starttag(self, tag: str, _attrs: object) -> None:
        self.tags.add(tag)
        self._in_name = tag == "bdi"

    def handle_data(self, data: str) -> None:
        if self._in_name:
            self.names.append(data)
            self._in_name = False


def test_bad_names_are_text_in_the_list() -> None:
    state = discovery(Mode.CONFIG)
    state.advance(0.0, ConfigLoaded(declared({"box": {"fly": list(EVIL)}})))
    view = TopologyView(state.snapshot)
    reader = _Reader()
    reader.feed(plain.body(Examined(view), "config", 0.0, "release").decode())
    assert {name.replace("\u202e", "\ufffd") for name in EVIL} <= set(reader.names)
    assert not reader.tags & {"img", "script"}

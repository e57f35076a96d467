"""The page's pure modules, each alone in Chromium: no master, no demo."""

import os
import shlex
import subprocess
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from master.web.files import page as files
from tests.cli.conftest import FakeMaster
from tests.e2e.conftest import TOPO
from tests.page.looking import EVIL
from tests.support.waiting import CEILING_S
from topo.cli.client import placements
from topo.cli.exit_codes import CliError
from topo.model.rest.jobs import JobBody, PlacementBody

pytestmark = pytest.mark.e2e
ORIGIN = "http://modules.test"
TILE = (148, 58)
FIELDS = {
    "pods": "8",
    "gpus_per_pod": "4",
    "group_size": "",
    "mode": "required",
    "within": "box of 'two'",
    "gpu_type": "$(reboot)`x`",
    "usage": "training",
}
LISTS = {
    "selector": ["a/b=c=d", "empty=", "__proto__=x"],
    "tolerations": ["k=v:NoSchedule", "k=:NoExecute", "k", ":PreferNoSchedule", ":"],
    "exclude": [*EVIL, "-x", "~"],
}
TAINTS = [
    {"key": "k", "value": "v", "effect": "NoSchedule"},
    {"key": "k", "effect": "NoExecute"},
    {"key": "k", "operator": "Exists"},
    {"operator": "Exists", "effect": "PreferNoSchedule"},
    {"operator": "Exists"},
]
"""The tolerations as the master has them."""


@pytest.fixture(scope="module")
def modules(browser: Browser) -> Iterator[Page]:
    """An empty document beside the page's own files."""

    def served(route: Route) -> None:
        file = files().files.get(route.request.url.rpartition("/")[2])
        if file is None:
            route.fulfill(content_type="text/html", body="<!doctype html>")
        else:
            route.fulfill(content_type=file.media, body=file.body)

    context = browser.new_context()
    context.route(f"{ORIGIN}/**", served)
    empty = context.new_page()
    empty.goto(ORIGIN)
    yield empty
    context.close()


def node(name: str) -> dict[str, Any]:
    return {"name": name, "kind": "node", "gpus": 8, "reasons": [], "status": "Ready"}


def group(kind: str, path: tuple[str, ...], *child: Any) -> dict[str, Any]:
    return {"name": path[-1], "kind": kind, "path": list(path), "child": list(child)}


def wire(one: str, two: str | None, slot: int = 1) -> dict[str, Any]:
    return {"node": one, "slot": slot, "peer": two, "peer_slot": slot, "server": "s", "state": "up"}


def vendors_forest(boxes: int, flies: int) -> dict[str, Any]:
    """Dragonflies of two nodes, which a wire joins, in switchboxes."""
    roots = []
    wires = []
    for box in range(boxes):
        below = []
        for fly in range(flies):
            pair = [f"n{box}-{fly}-{side}" for side in "ab"]
            path = (f"box{box}", f"fly{box}-{fly}")
            below.append(group("dragonfly", path, *map(node, pair)))
            wires.append(wire(pair[0], pair[1]))
        roots.append(group("switchbox", (f"box{box}",), *below))
    return {"groups": roots, "unplaced": [], "wires": wires}


def odd_forest() -> dict[str, Any]:
    """A root of nodes, one of three tiers, an empty one, nodes in none; a wire to nowhere."""
    names = [f"m{number}" for number in range(18)]
    inner = group("rack", ("pod", "row", "rack"), *map(node, EVIL))
    deep = group("pod", ("pod",), group("row", ("pod", "row"), inner))
    roots = [group("nvlink", ("flat",), *map(node, names)), deep, group("switchbox", ("none",))]
    wires = [wire(one, two) for one, two in pairwise(names)]
    wires += [wire("m0", "m1", slot) for slot in range(2, 6)] + [wire("m0", None, 9)]
    return {"groups": roots, "unplaced": [node("lone")], "wires": wires}


def test_cables_that_are_not_as_planned_lie_beside_the_wires_of_their_nodes(modules: Page) -> None:
    """A swap between two dragonflies, a wire that no plan has, a leaf that has no place."""
    ends: dict[str, list[tuple[str, str | None, str | None]]] = {
        "swap": [("n0-0-a", "n0-0-b", "n0-1-b"), ("n0-1-a", "n0-1-b", "n0-0-b")],
        "unplanned": [("n0-2-a", None, "n0-2-b")],
        "missing": [("n0-3-a", "leaf-1", None)],
        "unseen": [("n0-3-b", "n0-3-a", None)],
    }

    def end(device: str | None) -> dict[str, str] | None:
        return None if device is None else {"device": device, "port": "1"}

    findings = [
        {
            "verdict": verdict,
            "cables": [
                {"end": end(one), "planned": end(planned), "found": end(found)}
                for one, planned, found in cables
            ],
        }
        for verdict, cables in ends.items()
    ]
    found = modules.evaluate(
        """async ([document, wiring]) => {
          const { pictureOf } = await import('/picture.js');
          const { planOf } = await import('/layout.js');
          const { cablesOf } = await import('/cables.js');
          const picture = pictureOf(document, { findings: [] }, 0);
          picture.cables = cablesOf(wiring, picture.nodes);
          const { planned, wrong, strands } = planOf(picture, { width: 1600, height: 1000 });
          return { planned, wrong: [...wrong].sort(), strands };
        }""",
        [vendors_forest(1, 4), {"places": [{"findings": findings}]}],
    )
    assert [(s["wire"]["node"], s["wire"]["peer"]) for s in found["planned"]] == [
        ("n0-0-a", "n0-0-b"),
        ("n0-1-a", "n0-1-b"),
    ]
    assert found["wrong"] == [f"n0-{n}-{side}/1" for n in range(3) for side in "ab"]
    lines = [tuple(s[key] for key in ("x1", "y1", "x2", "y2")) for s in found["planned"]]
    assert not set(lines) & {
        tuple(s[key] for key in ("x1", "y1", "x2", "y2")) for s in found["strands"]
    }


@pytest.mark.parametrize("forest", [vendors_forest(3, 4), odd_forest()], ids=["dragonflies", "odd"])
def test_every_node_stands_once_in_the_box_of_its_group_and_each_wire_ends_at_its_nodes(
    modules: Page, forest: dict[str, Any]
) -> None:
    plan = modules.evaluate(
        """async (document) => {
          const { pictureOf } = await import('/picture.js');
          const { planOf } = await import('/layout.js');
          const judged = { findings: [] };
          const picture = pictureOf(document, judged, 0);
          const screen = { width: 1600, height: 1000 };
          const { tiles, boxes, strands, width, height } = planOf(picture, screen);
          const paths = Object.fromEntries([...picture.nodes].map(([n, p]) => [n, p.path]));
          return { tiles, boxes, strands, width, height, paths };
        }""",
        forest,
    )
    tiles = {tile["node"]["name"]: tile for tile in plan["tiles"]}
    assert tiles.keys() == plan["paths"].keys()
    assert len(tiles) == len(plan["tiles"])
    for one, two in combinations(plan["tiles"], 2):
        assert abs(one["x"] - two["x"]) >= TILE[0] or abs(one["y"] - two["y"]) >= TILE[1]
    boxes = {tuple(box["group"]["path"]): box for box in plan["boxes"] if box["group"]}
    for name, path in plan["paths"].items():
        for depth in range(1, len(path) + 1):
            assert is_inside(tiles[name], TILE, boxes[tuple(path[:depth])])
    for box in plan["boxes"]:
        assert is_inside(box, (box["width"], box["height"]), {"x": 0, "y": 0, **plan})
    assert len(plan["strands"]) == len(forest["wires"])
    for strand in plan["strands"]:
        near(tiles[strand["wire"]["node"]], strand["x1"], strand["y1"])
        if strand["wire"]["peer"] is not None:
            near(tiles[strand["wire"]["peer"]], strand["x2"], strand["y2"])


def test_a_name_that_is_too_long_is_shown_where_it_differs_from_the_others(modules: Page) -> None:
    """Not by the domain that all nodes share."""
    shown = modules.evaluate(
        """async (names) => {
          const { fitted } = await import('/pen.js');
          const { tailOf } = await import('/layout.js');
          const ctx = document.createElement('canvas').getContext('2d');
          ctx.font = '10px monospace';
          const letter = ctx.measureText('x').width;
          const tail = tailOf(names);
          return [60, 12, 9].map((n) => names.map((name) => fitted(ctx, name, n * letter, tail)));
        }""",
        [f"gpu-node-{number}.rack.example" for number in (107, 117, 127)],
    )
    assert shown == [
        [f"gpu-node-{number}.rack.example" for number in (107, 117, 127)],
        [f"gpu-node-{number}" for number in (107, 117, 127)],
        [f"gpu…e-{number}" for number in (107, 117, 127)],
    ]


@pytest.mark.parametrize(
    ("names", "tail"),
    [
        (["a.x.example", "b.x.example"], ".x.example"),
        (["n10", "n20"], ""),
        (["one.example"], ""),
        (["same", "same"], ""),
        (["a-1-gpu", "a-2-gpu"], "-gpu"),
        ([], ""),
    ],
)
def test_the_end_that_all_names_share_begins_at_a_dot_or_a_dash(
    modules: Page, names: list[str], tail: str
) -> None:
    found = modules.evaluate("async (names) => (await import('/layout.js')).tailOf(names)", names)
    assert found == tail


def is_inside(part: dict[str, Any], size: tuple[float, float], box: dict[str, Any]) -> bool:
    left, top, right, bottom = box["x"], box["y"], box["x"] + box["width"], box["y"] + box["height"]
    across: bool = left <= part["x"] and part["x"] + size[0] <= right
    down: bool = top <= part["y"] and part["y"] + size[1] <= bottom
    return across and down


def near(tile: dict[str, Any], x: float, y: float) -> None:
    """Fails where a point is not at the edge of a tile or in it."""
    assert tile["x"] <= x <= tile["x"] + TILE[0]
    assert tile["y"] <= y <= tile["y"] + TILE[1]


@pytest.mark.parametrize("name", [*EVIL, "a/b", "50%", "what?x=1#y", "组"])
def test_an_address_leads_back_to_what_it_was_made_of(modules: Page, name: str) -> None:
    found = modules.evaluate(
        """async (name) => {
          const { hashOf, placeOf } = await import('/route.js');
          const url = new URL(hashOf('gang', name, new URLSearchParams({ down: name })), location);
          const place = placeOf(url.hash);
          return [place.kind, place.name, place.query.get('down')];
        }""",
        name,
    )
    assert found == ["gang", name, name]
    broken = "async () => (await import('/route.js')).placeOf('#/node/%E0%A4%A').kind"
    assert modules.evaluate(broken) == ""


def test_a_job_survives_its_address_and_its_command_asks_what_the_page_asks(modules: Page) -> None:
    back, body, command = modules.evaluate(
        """async ([fields, names]) => {
          const { jobOf, queryOf, bodyOf, commandOf } = await import('/job.js');
          const job = { ...fields, assumed: new Map(names.map((name) => [name, 'down'])) };
          const found = jobOf(new URLSearchParams(String(queryOf(job))));
          return [
            { ...found, assumed: [...found.assumed] },
            JSON.stringify(bodyOf(found)),
            commandOf(found),
          ];
        }""",
        [FIELDS | LISTS, list(EVIL)],
    )
    assert back == {**FIELDS, **LISTS, "assumed": [[name, "down"] for name in EVIL]}
    asked = PlacementBody.model_validate_json(body)
    assert (asked.pods, asked.group_size, asked.within) == (8, None, FIELDS["within"])
    assert asked.selector == {"a/b": "c=d", "empty": "", "__proto__": "x"}
    assert asked.exclude == LISTS["exclude"]
    assert asked.assume is not None
    assert asked.assume.down == list(EVIL)
    assert asked_by(command) == asked.model_copy(update={"explain": False})


def asked_by(command: str) -> PlacementBody:
    """What a command asks of a master, run as a shell reads it."""
    program, *words = shlex.split(command)
    assert program == "topo"
    master = FakeMaster()
    master.start()
    try:
        subprocess.run(
            [TOPO, *words, "--output=json"],
            env={**os.environ, "TOPO_MASTER": master.url},
            capture_output=True,
            check=True,
            timeout=CEILING_S,
        )
    finally:
        master.close()
    return PlacementBody.model_validate(master.bodies[0])


def test_a_job_that_the_master_suggests_instead_has_the_same_words(modules: Page) -> None:
    selector = {"a/b": "c=d", "empty": ""}
    asked = {"pods": 8, "gpus_per_pod": 4, "mode": "required", "usage": "training"}
    asked |= {"selector": selector, "tolerations": TAINTS, "exclude": list(EVIL)}
    found = modules.evaluate(
        """async (request) => {
          const { changed, jobOf } = await import('/job.js');
          const job = jobOf(new URLSearchParams('pods=9&exclude=x'));
          const found = changed(job, { request, assume: null });
          return { ...found, assumed: [...found.assumed] };
        }""",
        JobBody.model_validate(asked).model_dump(),
    )
    assert (found["pods"], found["group_size"], found["usage"]) == ("8", "", "training")
    assert found["selector"] == ["a/b=c=d", "empty="]
    assert found["tolerations"] == LISTS["tolerations"]
    assert found["exclude"] == list(EVIL)


@pytest.mark.parametrize(
    "words", [["a"], ["=b"], ["a=1", "a=2"], ["a=1", "a=1"], ["a=", "b=c=d"], ["a", "a=1"]]
)
def test_what_is_no_label_is_refused_in_the_words_of_the_command(
    modules: Page, words: list[str]
) -> None:
    flaw = modules.evaluate(
        """async (selector) => {
          const { flawOf } = await import('/job_nodes.js');
          const flaw = flawOf({ selector, tolerations: [], exclude: [] });
          return flaw && [flaw.message, flaw.fix, flaw.field];
        }""",
        words,
    )
    assert flaw == refused_by_command(words)


def refused_by_command(words: list[str]) -> list[str] | None:
    """What is wrong, the next step, and the field; None for labels."""
    try:
        placements.selector(words)
    except CliError as error:
        return [error.refusal.what, error.refusal.fix, "selector"]
    return None


def test_an_event_after_a_gap_or_of_another_run_is_not_taken_into_the_picture(
    modules: Page,
) -> None:
    document = {**vendors_forest(1, 1), "run": "a", "capacity_version": 5}
    event = {"run": "a", "since": 5, "capacity_version": 6, "groups": [], "nodes": []}
    events = [
        {**event, "since": 6, "capacity_version": 7},
        {**event, "run": "b"},
        {**event, "nodes": [{"name": "nobody"}]},
        {**event, "capacity_version": 5, "nodes": [{"name": "n0-0-a", "free_gpus": 1}]},
        {**event, "nodes": [{"name": "n0-0-a", "free_gpus": 2}]},
    ]
    taken = modules.evaluate(
        """async ([document, events]) => {
          const { pictureOf, recount } = await import('/picture.js');
          const picture = pictureOf(document, { findings: [] }, 0);
          const free = () => picture.nodes.get('n0-0-a').node.free_gpus ?? null;
          return events.map((event) => [recount(picture, event), free()]);
        }""",
        [document, events],
    )
    assert taken == [[False, None], [False, None], [False, None], [True, None], [True, 2]]


def test_events_are_the_same_in_whatever_pieces_the_stream_comes(modules: Page) -> None:
    text = ': hello\n\nevent: generation\nid: 7.5e0c21af\ndata: {"a":\ndata: 1}\n\n:\n\nevent: ca'
    apart = modules.evaluate(
        """async (text) => {
          const { EventReader } = await import('/stream.js');
          const cut = (size) => {
            const reader = new EventReader();
            const pieces = text.match(new RegExp(`[^]{1,${size}}`, 'g'));
            return pieces.flatMap((piece) => reader.take(piece));
          };
          return [1, 2, 7, 1000].map(cut);
        }""",
        text,
    )
    comment = {"name": "comment", "id": "", "data": ""}
    told = {"name": "generation", "id": "7.5e0c21af", "data": '{"a":\n1}'}
    assert apart == [[comment, told, comment]] * 4


def test_times_are_said_in_one_unit_in_both_languages(modules: Page) -> None:
    said = modules.evaluate(
        """async () => {
          const { LANGUAGES, duration, speak } = await import('/strings.js');
          const times = [-1, 99, 100, 7200, 864000];
          return LANGUAGES.map((each) => (speak(each), times.map(duration)));
        }"""
    )
    assert said == [
        ["0 s", "99 s", "2 min", "2 h", "10 d"],
        ["0 秒", "99 秒", "2 分钟", "2 小时", "10 天"],
    ]

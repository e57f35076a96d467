"""The page's pure modules, each alone in Chromium: no master, no demo."""

import shlex
from collections.abc import Iterator
from itertools import combinations, pairwise
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route

from master.web.files import page as files
from tests.page.looking import EVIL

pytestmark = pytest.mark.e2e
ORIGIN = "http://modules.test"
TILE = (148, 58)


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
          const { tiles, boxes, strands, width, height } = planOf(picture, 1.6);
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


def test_a_job_survives_its_address_and_its_command_is_words_of_a_shell(modules: Page) -> None:
    job = {"pods": "8", "gpus_per_pod": "4", "group_size": "", "mode": "required"}
    job |= {"within": "box of 'two'", "gpu_type": "$(reboot)`x`"}
    back, body, command = modules.evaluate(
        """async ([fields, names]) => {
          const { jobOf, queryOf, bodyOf, commandOf } = await import('/job.js');
          const job = { ...fields, assumed: new Map(names.map((name) => [name, 'down'])) };
          const found = jobOf(new URLSearchParams(String(queryOf(job))));
          return [{ ...found, assumed: [...found.assumed] }, bodyOf(found), commandOf(found)];
        }""",
        [job, list(EVIL)],
    )
    assert back == {**job, "assumed": [[name, "down"] for name in EVIL]}
    assert body["assume"] == {"down": list(EVIL), "free": [], "drain": []}
    assert (body["pods"], body["within"]) == (8, "box of 'two'")
    assert "group_size" not in body
    options = ["pods=8", "gpus=4", "mode=required", "within=box of 'two'"]
    options += ["gpu-type=$(reboot)`x`", *(f"assume-down={name}" for name in EVIL)]
    assert shlex.split(command) == ["topo", "place", *(f"--{each}" for each in options)]


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

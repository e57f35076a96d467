"""The page over 1,000 and 10,000 nodes: names at every zoom, and squares as the legend has them.

A real master knows the cluster from its state file: dragonflies of two nodes in switchboxes of a
hundred. No worker reports, so the page says that, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from bench.services.page import remembering
from tests.page.conftest import CEILING_MS, shot
from tests.page.looking import violations
from tests.support.waiting import eventually_in_a_thread as eventually

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)

# The words that are written on the map from now on.
_LISTEN = """() => {
  const fill = CanvasRenderingContext2D.prototype.fillText;
  globalThis.words = [];
  CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
    words.push({ text, x, y });
    fill.call(this, text, x, y);
  };
}"""
_DRAWN = """(change) => {
  const { map } = topoPage;
  if (change !== null) map.zoom(change);
  words.length = 0;
  map.redraw();
  map.paint();
  return words.filter(({ x, y }) => x > -2 && y > 0 && x < map.size().width);
}"""
# The group of a root under the middle of the screen, and the camera's scale.
_MIDDLE = """() => {
  const { camera, plan } = topoPage.map;
  const { width, height } = topoPage.map.size();
  const [x, y] = [camera.x + width / 2 / camera.scale, camera.y + height / 2 / camera.scale];
  const box = plan.boxes.find((each) => each.depth === 0 && each.x <= x && each.y <= y &&
    x < each.x + each.width && y < each.y + each.height);
  return { scale: camera.scale, name: box?.group.name ?? "" };
}"""
_CLOSEST = 2.5
# The shape of the first square of a tile all of whose GPUs are in one state, by its inner corners
# and what is between them.
_SQUARE = """(state) => {
  const { map } = topoPage;
  const tile = map.plan.tiles.find(({ x, y }) => x > map.camera.x && y > map.camera.y +
    40 / map.camera.scale);
  const none = { free_gpus: 0, used_gpus: 0, held_gpus: 0 };
  Object.assign(tile.node, none, state === 'out' ? {} : { [`${state}_gpus`]: tile.node.gpus });
  map.redraw();
  map.paint();
  const { camera } = map;
  const [left, top] = [(tile.x - camera.x) * camera.scale, (tile.y - camera.y) * camera.scale];
  const rgb = (name) => map.look[name].match(/\\d+/g).slice(0, 3).join();
  const is = (name, x, y) =>
    [...map.ctx.getImageData(x, y, 1, 1).data].slice(0, 3).join() === rgb(name);
  for (let y = Math.floor(top); y < top + 58 * camera.scale; y += 1) {
    for (let x = Math.floor(left); x < left + 148 * camera.scale; x += 1) {
      if (!is(state, x, y)) continue;
      let [w, h] = [1, 1];
      while (is(state, x + w, y)) w += 1;
      while (is(state, x, y + h)) h += 1;
      if (is(state, x + 1, y + 1)) return 'solid';
      if (is(state, x + w - 2, y + h - 2)) return 'half';
      const inner = Array.from({ length: h - 2 }, (_, n) => y + 1 + n);
      const is_empty = inner.every((each) => is('tile', x + Math.floor(w / 2), each));
      return is_empty ? 'hollow' : 'struck';
    }
  }
  return 'nothing';
}"""
_SHAPES = {"used": "solid", "held": "half", "free": "hollow", "out": "struck"}


@dataclass(frozen=True)
class Large:
    url: str
    nodes: int


@pytest.fixture(scope="module", params=[pytest.param(1_000, marks=pytest.mark.deep), 10_000])
def large(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Large]:
    with remembering(tmp_path_factory.mktemp("large"), request.param) as (master, _):
        yield Large(master.url, request.param)


@pytest.fixture
def page(large: Large, context: BrowserContext, complaints: list[str]) -> Iterator[Page]:
    page = context.new_page()
    page.on("console", lambda each: complaints.append(each.text) if each.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(large.url)
    page.wait_for_selector("body[data-stage=live]")
    page.evaluate(_LISTEN)
    yield page
    assert complaints == []


def drawn(page: Page, zoom: float | None = None) -> list[str]:
    """The words that stand on the map."""
    return [each["text"] for each in page.evaluate(_DRAWN, zoom)]


def is_named(name: str, words: list[str]) -> bool:
    """Whether a name stands there, with its beginning and its end where it is shortened."""
    return any(
        (head, dots, tail) == (name, "", "")
        or (dots and name.startswith(head) and name.endswith(tail) and len(tail) > 1)
        for head, dots, tail in (word.partition("…") for word in words)
    )


def test_every_switchbox_has_its_name_once_all_is_on_the_screen(page: Page, large: Large) -> None:
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        eventually(lambda: page.evaluate("topoPage.map.screen.width === topoPage.map.size().width"))
        names: list[str] = page.evaluate("topoPage.map.picture.document.groups.map((g) => g.name)")
        assert len(names) == large.nodes // 100
        words = drawn(page)
        assert [name for name in names if not is_named(name, words)] == []
        assert page.evaluate("document.scrollingElement.scrollWidth") <= width
        shot(page, f"large-{large.nodes}-{width}")


def test_the_switchbox_in_the_middle_has_its_name_at_every_zoom(page: Page) -> None:
    """Closer, its dragonflies and its nodes have theirs, too."""
    page.evaluate(
        """() => {
          const { map } = topoPage;
          const box = map.plan.boxes.findLast((each) => each.depth === 1);
          map.camera.x = box.x - map.size().width / 2 / map.camera.scale;
          map.camera.y = box.y - map.size().height / 2 / map.camera.scale;
        }"""
    )
    scale, words = 0.0, drawn(page)
    while scale < _CLOSEST:
        words = drawn(page, 1.25)
        middle = page.evaluate(_MIDDLE)
        assert is_named(middle["name"], words), middle
        scale = middle["scale"]
    assert any(word.startswith("dragonfly-") for word in words)
    assert any(word.startswith(("sample", "node-")) for word in words)


def test_a_square_has_the_shape_of_the_legend_at_every_zoom(page: Page) -> None:
    """Free is hollow, used solid, held half, and what nobody gets is struck through."""
    for before, zoom in pairwise((1.0, 1.0, 3.0, 8.0, 16.0)):
        page.evaluate("(change) => topoPage.map.zoom(change)", zoom / before)
        assert {state: page.evaluate(_SQUARE, state) for state in _SHAPES} == _SHAPES, zoom


def test_a_large_forest_is_used_by_keys_and_with_a_screen_reader(
    page: Page, complaints: list[str]
) -> None:
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, complaints) == []

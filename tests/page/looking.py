"""What a test reads off the page, and does to its map."""

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

RULES = {"resultTypes": ["violations"]}
EVIL = ("<img src=x onerror=alert(1)>", "a\"b'c&d</li>", "\u202egnp.exe", "n" * 253)
SHOWN = tuple(name.replace("\u202e", "\ufffd") for name in EVIL)


def violations(page: Page, complaints: list[str]) -> list[str]:
    """What of the page axe finds hard to use. Its own styles are refused, which it can bear."""
    before = len(complaints)
    found = Axe().run(page, options=RULES).response["violations"]
    complaints[before:] = [each for each in complaints[before:] if "inline style" not in each]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


def click_node(page: Page, name: str) -> None:
    """Clicks the tile of a node in its middle."""
    x, y = page.evaluate(
        """(name) => {
          const { camera, plan, canvas } = topoPage.map;
          const tile = plan.by_name.get(name);
          const box = canvas.getBoundingClientRect();
          return [
            box.x + (tile.x + 70 - camera.x) * camera.scale,
            box.y + (tile.y + 30 - camera.y) * camera.scale,
          ];
        }""",
        name,
    )
    page.mouse.click(x, y)


def tile_mark(page: Page, name: str) -> str:
    """The mark of the first group of pods at a node, as the map draws it."""
    mark: str = page.evaluate(
        """async (name) => {
          const [main] = document.querySelectorAll('script[type=module]');
          const { badgeOf } = await import(new URL('badges.js', main.src));
          return badgeOf(topoPage.map.marks.pods.get(name)[0].index).mark;
        }""",
        name,
    )
    return mark

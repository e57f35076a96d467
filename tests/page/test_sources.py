"""What several sources say of one thing, on the page: since when they differ, and who agrees."""

import json

import pytest
from playwright.sync_api import Page, Route, expect

from tests.page.conftest import CEILING_MS

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)


def test_a_conflict_shows_since_when_it_is_there_and_a_group_who_confirms_it(page: Page) -> None:
    """The demo has one source, so what a second one would add is added to its answer."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")

    def with_second_source(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        (first, *_) = document["groups"]
        first["confirmed_by"] = ["config", "labels"]
        document["conflicts"] = [
            {
                "code": "sources-differ",
                "text": "two sources put it into two groups",
                "fix": "correct one of them",
                "subjects": [first["name"]],
                "since_s": 125.0,
            }
        ]
        route.fulfill(response=answer, body=json.dumps(document))

    page.route("**/v1/topology", with_second_source)
    name = page.evaluate(
        "fetch('/v1/topology').then((a) => a.json()).then((d) => d.groups[0].name)"
    )
    page.reload()
    page.evaluate(f"location.hash = '#/group/{name}'")
    panel = page.locator("#why-body")
    expect(panel).to_contain_text(f"{name}: confirmed by config, labels")
    expect(panel).to_contain_text("two sources put it into two groups (for 2 min)")


def test_a_node_is_shown_with_its_groups_in_each_fabric(page: Page) -> None:
    """The demo has one fabric, so the other one is added to its answer."""
    expect(page.locator("#problems h2")).to_have_text("Nothing is wrong")

    def with_leaves(route: Route) -> None:
        answer = route.fetch()
        document = answer.json()
        document["node"]["places"] = [
            {"fabric": "scale-up", "path": ["box-1", "fly-1"], "kinds": ["switchbox", "dragonfly"]},
            {"fabric": "scale-out", "path": ["spine-1", "leaf-7"], "kinds": ["spine", "leaf"]},
        ]
        route.fulfill(response=answer, body=json.dumps(document))

    page.route("**/v1/topology?node=*", with_leaves)
    page.evaluate("location.hash = '#/node/node-sample1'")
    panel = page.locator("#why-body")
    expect(panel).to_contain_text("scale-up: box-1 / fly-1")
    expect(panel).to_contain_text("scale-out: spine-1 / leaf-7")

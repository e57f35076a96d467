"""Gangs on the page. The demo has no Kubernetes: what a master with one would answer is made by the
master's own code from gangs on the demo's nodes.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import orjson
import pytest
from playwright.sync_api import Page, Route, expect

from master.api.gang_documents import GangHistory, gang_document, gang_summary, in_turn
from tests.e2e.conftest import RunningDemo
from tests.master.api.test_gang_documents import TREE, gang, member, stands
from tests.page.conftest import CEILING_MS, shot
from tests.page.looking import EVIL, SHOWN, tile_mark, violations
from tests.support.waiting import eventually_in_a_thread as eventually
from topo.gangs.machine.gang import Gang
from topo.gangs.status import GangStatus, Transition
from topo.model.conditions.gang_states import GangState
from topo.model.ids import DRAGONFLY, SWITCHBOX, GroupName, GroupPath, NodeName
from topo.model.rest.gangs import GangsDocument
from topo.placement.capacity.host import Host
from topo.placement.job.request import Eligibility, Toleration

pytestmark = pytest.mark.e2e
expect.set_options(timeout=CEILING_MS)

Told = tuple[Gang, GangStatus]
NODES = tuple(NodeName(f"node-sample{number}") for number in range(1, 5))
WHY = "2 whole groups of 16 GPUs are needed, 1 is free"
FITS = "2 of the 4 pods fit now, 2 fewer"

HISTORY = GangHistory(
    (
        Transition(0.0, GangState.NO_ROOM, "8 GPUs are free"),
        Transition(60.0, GangState.BOUND, "all of its pods run"),
    )
)

ELIGIBLE = Eligibility(
    selector=(("metax-tech.com/switchbox", "switchbox-sample2"),),
    tolerations=(Toleration("a", "Exists"), Toleration("b", value="c", effect="NoExecute")),
    exclude=frozenset(NODES[:1]),
)


def waiting(name: str, ahead: int = 0) -> Told:
    asked = gang(name=name)
    found = replace(asked, request=replace(asked.request, eligible=ELIGIBLE))
    text = {"text": WHY, "would_fit": FITS, "ahead": ahead}
    return found, stands(found, state=GangState.NO_ROOM, **text)


def placed(name: str) -> Told:
    found = gang(*(member(rank, node=node) for rank, node in enumerate(NODES)), name=name)
    return found, stands(found, state=GangState.BOUND, places=tuple(enumerate(NODES)))


@dataclass
class Cluster:
    """What the master would answer about gangs; it counts how often it was asked for all."""

    hosts: dict[str, Host]
    told: tuple[Told, ...] = ()
    refusal: dict[str, str] | None = None

    def answer(self, route: Route) -> None:
        wanted = route.request.url.partition("/v1/gangs")[2].strip("/")
        if self.refusal is not None:
            kind = "application/problem+json"
            route.fulfill(status=503, content_type=kind, body=json.dumps(self.refusal))
            return
        summaries = [gang_summary(*each, 130.0, lambda _: ()) for each in self.told]
        if not wanted:
            body = orjson.dumps(GangsDocument(gangs=in_turn(summaries), off=None, ahead=[]))
        else:
            index = next(at for at, (each, _) in enumerate(self.told) if each.id == wanted)
            found, where = self.told[index]
            host: Callable[[NodeName], Host | None] = self.hosts.get
            body = orjson.dumps(
                gang_document(summaries[index], found, where, host, kinds=TREE, history=HISTORY)
            )
        route.fulfill(content_type="application/json", body=body)


def host_of(box: Any, fly: Any, leaf: Any) -> Host:
    path = GroupPath((GroupName(box["name"]), GroupName(fly["name"])))
    return Host(name=NodeName(leaf["name"]), path=path, kinds=(SWITCHBOX, DRAGONFLY))


@pytest.fixture
def cluster(page: Page, demo: RunningDemo) -> Iterator[Cluster]:
    """One gang that waits as the first in line, one behind it, and one that runs."""
    roots = demo.document("/v1/topology")["groups"]
    hosts = [
        host_of(box, fly, leaf) for box in roots for fly in box["child"] for leaf in fly["child"]
    ]
    found = Cluster({host.name: host for host in hosts})
    found.told = (placed("runs"), waiting("second", 1), waiting("first"))
    page.route("**/v1/gangs**", found.answer)
    page.reload()
    expect(page.locator("#gangs .gangs li")).to_have_count(3)
    yield found
    page.unroute_all(behavior="wait")


@pytest.mark.usefixtures("cluster")
def test_gangs_stand_in_the_order_of_their_turns_with_why_each_waits(
    page: Page, complaints: list[str]
) -> None:
    expect(page.locator("#gangs")).to_contain_text("2 waiting, 1 placed")
    expect(page.locator("#gangs .gangs a")).to_have_text(
        ["default/first", "default/second", "default/runs"]
    )
    first = page.locator("#gangs .gangs li").first
    expect(first).to_contain_text("no room")
    expect(first).to_contain_text(WHY)
    expect(first).to_contain_text(f"What would let it in: {FITS}")
    first.locator("a").click()
    expect(page.locator("#why")).to_contain_text("gangs before it: 0")
    page.get_by_role("link", name="Place the same job by hand").click()
    assert page.url.endswith(
        "#/place?pods=4&gpus_per_pod=8&group_size=16&mode=required"
        "&selector=metax-tech.com%2Fswitchbox%3Dswitchbox-sample2"
        "&tolerations=a&tolerations=b%3Dc%3ANoExecute&exclude=node-sample1"
    )
    expect(page.locator(".answer .verdict")).to_contain_text("It fits")
    expect(page.locator(".pod-groups li")).to_contain_text(["switchbox-sample2"] * 2)
    page.go_back()
    expect(page.locator("#why h2")).to_contain_text("default/first")
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        assert violations(page, complaints) == []


@pytest.mark.usefixtures("cluster")
def test_a_gang_on_nodes_that_failed_together_says_so_and_the_problem_names_their_group(
    page: Page, demo: RunningDemo
) -> None:
    group, nodes = "switchbox-sample1", list(NODES)
    wrong = {"severity": "wrong", "code": "nodes-failed-together", "subject": group, "since_s": 1.0}
    wrong |= {"what": "they failed", "next_step": "look", "subjects": [group, *nodes]}
    told = {**demo.document("/v1/findings"), "findings": [wrong | {"jobs": ["default.runs"]}]}
    page.route("**/v1/findings**", lambda route: route.fulfill(json=told))
    page.reload()
    expect(page.locator("#problems .subject")).to_have_text(group)
    runs = page.locator("#gangs .gangs li").filter(has_text="default/runs")
    expect(runs).to_contain_text("Its nodes have a problem")
    expect(page.locator("#gangs .gangs li").filter(has_text="a problem")).to_have_count(1)
    page.locator("#problems .finding button").click()
    expect(page.locator("#why h2")).to_contain_text(group)


@pytest.mark.usefixtures("cluster")
def test_a_gang_that_is_clicked_is_lit_in_the_forest_and_has_an_address(
    page: Page,
) -> None:
    page.get_by_role("link", name="default/runs").click()
    assert page.url.endswith("#/gang/default/runs")
    for index, pair in enumerate((NODES[:2], NODES[2:])):
        chip = page.locator(".pod-groups .chip").nth(index)
        expect(chip).to_be_visible()
        assert {tile_mark(page, node) for node in pair} == {chip.inner_text()}
    states = page.locator("#why .history li")
    expect(states).to_have_count(2)
    expect(states.first).to_contain_text("all of its pods run")
    expect(states.last).to_contain_text("no room 8 GPUs are free")
    expect(states.last.locator("time")).to_have_attribute("datetime", "1970-01-01T00:00:00.000Z")
    shot(page, "gang")
    page.emulate_media(color_scheme="dark")
    shot(page, "gang-dark")
    page.reload()
    expect(page.locator("#why .pod-groups li")).to_have_count(2)
    page.locator("#close").click()
    eventually(lambda: page.evaluate("topoPage.map.marks.pods.size") == 0)


@pytest.mark.usefixtures("refusals")
def test_what_no_master_confirms_is_told_as_old_and_what_changes_comes_by_itself(
    page: Page, cluster: Cluster
) -> None:
    page.get_by_role("link", name="default/first").click()
    cluster.refusal = {"detail": "its leader does not answer", "fix": "ask again"}
    expect(page.locator("#gangs .old")).to_contain_text("The gangs as they were at")
    expect(page.locator("#gangs .old")).to_contain_text("its leader does not answer · ask again")
    expect(page.locator("#why .old")).to_contain_text("its leader does not answer")
    expect(page.locator("#gangs .gangs li")).to_have_count(3)
    cluster.refusal, cluster.told = None, (placed("first"),)
    expect(page.locator("#gangs .gangs li")).to_have_count(1)
    expect(page.locator("#why h2 .state")).to_have_text("bound")
    expect(page.locator("#why .pod-groups li")).to_have_count(2)
    assert page.locator("#gangs .old:visible").count() == 0
    cluster.refusal = {"detail": "its leader does not answer", "fix": "ask again"}
    page.reload()
    expect(page.locator("#gangs .old")).to_have_text("its leader does not answer · ask again")
    expect(page.locator("#gangs")).not_to_contain_text("0 waiting")


def test_names_of_gangs_with_markup_are_text_everywhere(page: Page, cluster: Cluster) -> None:
    named = [(replace(gang(name=f"u{at}"), name=name)) for at, name in enumerate(EVIL)]
    cluster.told = tuple((each, stands(each, text=each.name)) for each in named)
    expect(page.locator("#gangs .gangs li")).to_have_count(len(EVIL))
    links = [page.locator("#gangs .gangs a", has_text=name).first for name in SHOWN]
    for name, link in zip(SHOWN, links, strict=True):
        link.click()
        expect(page.locator("#why .name")).to_have_text(f"default/{name}")
        expect(page.locator("#why .sentences").first).to_contain_text(name)
    assert page.locator("img").count() == 0
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 1440
    page.set_viewport_size({"width": 320, "height": 640})
    assert page.evaluate("document.scrollingElement.scrollWidth") <= 320


def test_a_master_without_kubernetes_has_no_gangs_and_says_so_where_one_is_named(
    page: Page,
) -> None:
    """And the browser's console has no error of it, which the page's own fixture looks at."""
    page.evaluate("location.hash = '#/gang/default/any'")
    expect(page.locator("#why")).to_contain_text("this master places no gangs")
    expect(page.locator("#why")).to_contain_text("nomination")
    expect(page.locator("#gangs")).to_be_hidden()

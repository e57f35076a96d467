"""`/v1/gangs` of a master that places no gangs, and by which ids a gang is found."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from aiohttp import web

from master.api.gangs import id_of
from master.controllers.nomination.status.gang_view import GangView
from master.controllers.nomination.status.policy import Shown
from tests.controllers.nomination.objects import status_store
from tests.master.api.test_gang_documents import gang, stands
from tests.master.placing import placing
from topo.gangs.machine.gang import Gang, GangId


async def test_where_no_gangs_are_placed_the_answer_says_how_to_switch_it_on(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        every, one = [await caller.master.get(path) for path in ("/v1/gangs", "/v1/gangs/x")]
        assert (every.status, every.json["gangs"]) == (200, [])
        assert one.status == 404
        for said in (every.json["off"], one.json):
            assert said["detail"] == "this master places no gangs"
            assert "nomination" in said["fix"]
        assert (await caller.post("/v1/gangs/x/open")).status == 404
        caller.token = None
        assert (await caller.post("/v1/gangs/x/open")).status == 401


@dataclass
class Known:
    """A policy with these gangs."""

    shown: tuple[Shown, ...]

    def all(self) -> Iterator[Shown]:
        return iter(self.shown)

    def get(self, gang_id: GangId) -> Shown | None:
        return next((each for each in self.shown if each[0].id == gang_id), None)


def view(*gangs: Gang) -> GangView:
    policy = Known(tuple((each, stands(each)) for each in gangs))
    return GangView(
        policies=lambda: (policy,), known={}, store=status_store(), known_from_s=lambda: 0.0
    )


JOB = replace(gang(name="train"), id=GangId("uid-1"), name="train.v2")


def test_a_gang_is_found_by_the_uid_of_its_job_and_by_namespace_and_name() -> None:
    found = view(JOB, replace(JOB, id=GangId("uid.2"), namespace="other"))
    assert id_of(found, "uid-1") == "uid-1"
    assert id_of(found, "default.train.v2") == "uid-1"
    assert id_of(found, "other.train.v2") == id_of(found, "uid.2") == "uid.2"


def test_an_unknown_gang_is_404_with_the_nearest_name_and_a_name_of_two_is_409() -> None:
    for asked, fix in (("default.trian.v2", "default.train.v2"), ("a.b", "GET /v1/gangs")):
        missing = id_of(view(JOB), asked)
        assert isinstance(missing, web.Response)
        assert missing.status == 404
        assert fix in json.loads(missing.body)["fix"]  # type: ignore[arg-type]
    several = id_of(view(JOB, replace(JOB, id=GangId("uid-2"))), "default.train.v2")
    assert isinstance(several, web.Response)
    assert several.status == 409
    assert "uid-1, uid-2" in json.loads(several.body)["detail"]  # type: ignore[arg-type]

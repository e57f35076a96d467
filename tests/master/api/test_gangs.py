"""`/v1/gangs` of a master that places no gangs."""

from pathlib import Path

from tests.master.placing import placing


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

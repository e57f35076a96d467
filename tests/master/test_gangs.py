"""`/v1/gangs` of a master that places no gangs."""

from pathlib import Path

from tests.master.placing import placing


async def test_where_no_gangs_are_placed_the_answer_says_how_to_switch_it_on(
    tmp_path: Path,
) -> None:
    async with placing(tmp_path) as caller:
        for path in ("/v1/gangs", "/v1/gangs/x"):
            answer = await caller.master.get(path)
            assert (answer.status, answer.json["detail"]) == (404, "this master places no gangs")
            assert "nomination" in answer.json["fix"]
        assert (await caller.post("/v1/gangs/x/open")).status == 404
        caller.token = None
        assert (await caller.post("/v1/gangs/x/open")).status == 401

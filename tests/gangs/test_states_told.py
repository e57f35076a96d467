"""Where a gang may stand is told alike by machine, API and documentation."""

import re
from pathlib import Path

from topo.gangs.machine.instructions import GangReason
from topo.model.rest.gangs import GangSummary

PAGE = Path(__file__).parents[2] / "docs" / "how-placement-reaches-the-scheduler.md"


def test_every_state_is_published_and_explained() -> None:
    known = [reason.value for reason in GangReason]
    assert GangSummary.model_json_schema()["properties"]["state"]["enum"] == known
    table = PAGE.read_text().partition("| state | meaning |")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE) == known

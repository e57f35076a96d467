"""Masters that are examined, and what is found wrong with them."""

import asyncio
from contextlib import suppress

import pytest

from tests.master.world import Master
from tests.support.waiting import eventually
from topo.cli.client.client import connect, target
from topo.cli.client.decoding import decode
from topo.cli.diagnosis import checkup
from topo.cli.diagnosis.checkup import Checkup
from topo.cli.exit_codes import CliError
from topo.diagnosis.finding import Finding
from topo.model.rest.findings import FindingDocument, FindingsDocument


async def examined(master: Master) -> Checkup:
    async with connect(target(master.url, None, None)) as client:
        return await checkup.examine(client)


async def sole(master: Master, code: str) -> Finding:
    """The one finding, once that is all: whatever else is so follows from it."""
    seen: list[Finding] = []
    told: list[FindingDocument] = []

    async def is_alone() -> bool:
        seen[:] = (await examined(master)).findings
        document = (await master.get("/v1/findings")).json
        told[:] = decode(FindingsDocument, document)["findings"]
        await asyncio.sleep(0.5)
        return [finding.code for finding in seen] == [code]

    with suppress(TimeoutError):
        await eventually(is_alone)
    assert [finding.code for finding in seen] == [code], seen
    assert [(each["code"], each["subject"]) for each in told] == [(code, seen[0].subject)]
    return seen[0]


async def refused(url: str) -> tuple[str, str]:
    """What the command line says of an address, and its next step."""
    with pytest.raises(CliError) as caught:
        async with connect(target(url, None, None)) as client:
            await checkup.examine(client)
    return caught.value.refusal.what, caught.value.refusal.fix

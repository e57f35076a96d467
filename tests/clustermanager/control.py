"""A client of the control port of the simulated cluster manager."""

from pathlib import Path
from typing import Any

import aiohttp
import orjson

from topo.sim.clustermanager.control import READY_FILE, TOKEN_FILE


async def command(
    directory: Path, method: str, path: str, body: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Sends one call to the control port of the simulator that runs in `directory`; its answer.

    Raises `aiohttp.ClientError` or `OSError` when no simulator is there or it refuses.
    """
    ready = orjson.loads((directory / READY_FILE).read_bytes())
    token = (directory / TOKEN_FILE).read_text().strip()
    async with (
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=5)) as http,
        http.request(
            method,
            ready["control_url"] + path,
            json=body,
            headers={"Authorization": f"Bearer {token}"},
        ) as response,
    ):
        answer: dict[str, Any] = orjson.loads(await response.read())
        if response.status >= 400:
            raise aiohttp.ClientError(f"{answer['detail']}; {answer.get('fix', '')}")
        return answer

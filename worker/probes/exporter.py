"""A mx-exporter on this host: its metrics page, the last resort on a host without libmxsml."""

import aiohttp

from topo.kit.serving.body import bounded_bytes
from worker.probes.probe import MAX_OUTPUT_BYTES, Reading, absent, failed, ok

_MARK = b"\nmx_"


class Exporter:
    """The metrics page at an address that the administrator set (`host:port`)."""

    def __init__(self, address: str, *, limit_bytes: int = MAX_OUTPUT_BYTES) -> None:
        self._url = f"http://{address}/metrics"
        self._limit_bytes = limit_bytes

    async def read(self) -> Reading:
        """One scrape. No listener, or another one, makes the source absent and not failed."""
        # One connection per scrape: they are rare, and an idle one would only go stale.
        try:
            async with (
                aiohttp.ClientSession(auto_decompress=True) as session,
                session.get(self._url, allow_redirects=False) as response,
            ):
                if response.status != 200:
                    return absent(f"no mx-exporter at {self._url}: status {response.status}")
                page = await bounded_bytes(response.content, self._limit_bytes)
        except aiohttp.ClientConnectorError:
            return absent(f"nobody listens at {self._url}")
        except aiohttp.ClientError as error:
            return failed(f"{self._url}: {type(error).__name__}")
        if page is None:
            return failed(f"{self._url} gave more than {self._limit_bytes} bytes")
        if _MARK not in b"\n" + page:
            return absent(f"what answers at {self._url} is not an mx-exporter")
        return ok(page.decode("utf-8", "replace"))

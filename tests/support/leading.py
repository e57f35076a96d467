"""Whether a master leads, as its metrics say."""

from aiohttp import ClientError, ClientSession, ClientTimeout

_LEADS = "\ntopo_master_leads 1.0\n"
_ASK = ClientTimeout(total=5)


async def leads(url: str) -> bool:
    """Return whether the master at a URL says that it leads; False where it does not answer."""
    return await shows(f"{url}/metrics", _LEADS)


async def shows(url: str, text: str = "") -> bool:
    """Return whether a URL is answered with a good status and this text."""
    try:
        async with ClientSession(timeout=_ASK) as session, session.get(url) as answer:
            return answer.ok and text in await answer.text()
    except (ClientError, OSError, ValueError, TimeoutError):
        return False

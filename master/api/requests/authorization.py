"""Who may write: a call that changes something carries a token of `--api-token-file`."""

from aiohttp import web

from master.service import SERVICE
from topo.kit.problem import problem


def forbidden(request: web.Request) -> web.Response | None:
    """The refusal of a call that may not write; None for one that may. Says nothing of tokens."""
    writers = request.app[SERVICE].writers
    if writers.identify(request) is not None:
        return None
    if writers.tokens is None:
        return problem(
            403,
            "nothing may be written here: the master has no tokens of writers",
            field="Authorization",
            fix="start the master with --api-token-file",
        )
    return problem(
        401,
        "the call carries no token that is known here",
        field="Authorization",
        fix="send `Authorization: Bearer` with a token of --api-token-file",
        headers={"WWW-Authenticate": "Bearer"},
    )

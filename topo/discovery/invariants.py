"""How a broken invariant is said: our own mistake, which must end the process."""

from topo.model.errors import BrokenInvariantError


def require(holds: bool, what: str) -> None:  # noqa: FBT001 - it reads as a sentence
    """Raise `BrokenInvariantError` with `what` is wrong, unless the condition holds."""
    if not holds:
        raise BrokenInvariantError(what)

"""Errors about inputs: what is wrong, where, and the fix."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Refusal:
    """An input that was not understood: a value that callers handle, never an exception.

    `what` is the finding, `where` the place in the input (`line 12`, `group[0].child[1].name`),
    `fix` the next step for the person who reads it.
    """

    what: str
    where: str
    fix: str

    def __str__(self) -> str:
        """One line for a log, a terminal or a problem document."""
        return f"{self.what} (at {self.where}); {self.fix}"


class TopoError(Exception):
    """Root of the errors that this product raises on purpose."""


class BadInputError(TopoError):
    """A setting, file or request that cannot be used; carries the same three answers."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.refusal = refusal


class TakenError(BadInputError):
    """A resource is in use by another process; the request is valid and may succeed later."""


class BrokenInvariantError(TopoError):
    """A broken invariant of this program: the process must end rather than serve on."""


class SharedStateError(BrokenInvariantError):
    """The state that all objects share may be wrong: the error of no single object.

    Its owner raises it from whatever a change of that state raised. `topo.model.isolation` lets it
    pass, so the process ends.
    """


def require(holds: bool, what: str) -> None:  # noqa: FBT001 - it reads as a sentence
    """Raise `BrokenInvariantError` with `what` is wrong, unless the condition holds."""
    if not holds:
        raise BrokenInvariantError(what)

"""The exit codes of `topo`, and the exception that ends a command with one of them."""

from enum import IntEnum

from topo.model.errors import Refusal, TopoError


class Exit(IntEnum):
    """Exit codes of every `topo` command; docs/cli.md says what they mean."""

    OK = 0
    FINDING = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    NO_FIT = 5
    CHANGED = 6
    INTERRUPTED = 130


class CliError(TopoError):
    """An expected failure: printed as one finding with its next step, never as a traceback."""

    def __init__(self, exit_code: Exit, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.exit_code = exit_code
        self.refusal = refusal


def usage(what: str, where: str, fix: str) -> CliError:
    """Return the error for unusable input on the command line."""
    return CliError(Exit.USAGE, Refusal(what, where, fix))

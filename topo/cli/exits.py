"""The exit codes of `topo`, and the exception that ends a command with one of them."""

from enum import IntEnum

from topo.model.errors import Refusal, TopoError


class Exit(IntEnum):
    """Exit codes of every `topo` command; docs/cli.md has the same table, a test compares them."""

    OK = 0
    FINDING = 1
    USAGE = 2
    UNREACHABLE = 3
    REFUSED = 4
    NO_FIT = 5
    INTERRUPTED = 130


MEANING: dict[Exit, str] = {
    Exit.OK: "done, nothing is wrong",
    Exit.FINDING: "done, and something is wrong: `doctor` has a finding, the demo did not come up",
    Exit.USAGE: "bad usage or input: an unknown flag, an unreadable file, an unknown format",
    Exit.UNREACHABLE: "the master does not answer, or what answers is not a topo-master",
    Exit.REFUSED: "the master refused: unknown name or hold, bad token, generation forgotten",
    Exit.NO_FIT: "`place`, `gpus`: nothing fits now; the answer says what is missing",
    Exit.INTERRUPTED: "interrupted by Ctrl-C before the command was done",
}
"""One sentence per exit code, in the words of docs/cli.md."""


class CliError(TopoError):
    """An expected failure: printed as one finding with its next step, never as a traceback."""

    def __init__(self, exit_code: Exit, refusal: Refusal) -> None:
        super().__init__(str(refusal))
        self.exit_code = exit_code
        self.refusal = refusal


def usage(what: str, where: str, fix: str) -> CliError:
    """The error for input of the person at the terminal that cannot be used."""
    return CliError(Exit.USAGE, Refusal(what, where, fix))

# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo version`: the release of this command, and that of the master that answers."""

from typing import TYPE_CHECKING

from topo.cli.options import MasterOptions, Output, OutputFormat, takes_options

if TYPE_CHECKING:
    from rich.text import Text

    from topo.cli.render.terminal import Glyphs


def own_version() -> str:
    """Return the release of this command."""
    from importlib.metadata import version as installed

    return installed("supernode-topology")


@takes_options
def version(*, output: OutputFormat = Output.TABLE, options: MasterOptions) -> None:
    """Show the release of this command and, if it answers, of the master."""
    from rich.text import Text

    from topo.cli.client import connection
    from topo.cli.client.client import MasterClient
    from topo.cli.exit_codes import CliError
    from topo.cli.render.safe import plain

    to = connection.target_to_read(options)
    try:
        theirs, why = connection.ask(to, MasterClient.release), "it states none"
    except CliError as error:
        theirs, why = None, error.refusal.what

    def picture(_: "Glyphs") -> "Text":
        words = f"topo {own_version()}\nmaster {theirs or f'unknown: {why}'} at {to.url}"
        return Text("\n".join(map(plain, words.split("\n"))))

    found = {"topo": own_version(), "master": theirs, "at": str(to.url)}
    connection.print_document(found, output, picture)

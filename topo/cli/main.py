"""The `topo` command: what there is, and how failures reach the shell.

The files of the commands import their heavy parts (HTTP client, renderers, pydantic) when a
command runs, so `topo --help` and completion answer in a fraction of a second.
"""

import sys
from typing import Annotated, Any

from topo.kit.process.extras import exit_for_missing, needs
from topo.model.errors import BadInputError, Refusal

with needs("cli"):
    import typer
    from typer.core import TyperGroup

    from topo.cli import usage_errors
    from topo.cli.commands import (
        decisions,
        export,
        gangs,
        gates,
        holds,
        moments,
        parse,
        place,
        sim,
        version,
        views,
        wiring,
    )
    from topo.cli.demo import commands as demo
    from topo.cli.examples import complete_help
    from topo.cli.exit_codes import CliError, Exit
    from topo.cli.render.safe import plain

_EXTRAS = {"demo": "cli,master,sim,worker", "sim": "cli,sim"}
"""What commands need that simulate; the others need `cli`."""


_UsageError: Any = typer.BadParameter.__mro__[1]
"""typer names only this child of it: every way in which a command line can be wrong."""


class _Commands(TyperGroup):
    """The root group: expected failures end as one finding on stderr and an exit code."""

    def make_context(self, info_name: Any, args: list[str], *more: Any, **extra: Any) -> Any:
        """Parse what stands before the command."""
        given = tuple(args)
        complete_help(self)
        try:
            return super().make_context(info_name, args, *more, **extra)
        except _UsageError as error:
            if usage_errors.is_help(error):
                raise
            refusal = usage_errors.refusal(error, given)
        explain(refusal)
        raise typer.Exit(Exit.USAGE)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; docs/cli.md has the exit codes."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            exit_for_missing(error, _EXTRAS.get(ctx.invoked_subcommand, "cli"))
        except CliError as error:
            code, refusal = error.exit_code, error.refusal
        except BadInputError as error:
            code, refusal = Exit.USAGE, error.refusal
        except _UsageError as error:
            if usage_errors.is_help(error):
                raise
            code, refusal = Exit.USAGE, usage_errors.refusal(error)
        except KeyboardInterrupt:
            raise typer.Exit(Exit.INTERRUPTED) from None
        explain(refusal)
        raise typer.Exit(code)


def explain(refusal: Refusal) -> None:
    """Print what is wrong, where, and the next step, without control characters."""
    from rich.text import Text  # noqa: PLC0415 - only where something went wrong

    from topo.cli.render import terminal  # noqa: PLC0415 - the same
    from topo.cli.render.shapes.layout import Hanging  # noqa: PLC0415 - the same

    console = terminal.err()
    what = Text(plain(refusal.what), style="red")
    console.print(Hanging(Text("topo: ", style="red"), what))
    for word, said in (("at", refusal.where), ("next:", refusal.fix)):
        if said:
            console.print(Hanging(Text(f"  {word} "), Text(plain(said))))


def _version(wanted: bool) -> None:  # noqa: FBT001 - typer's callback
    if wanted:
        from topo.cli.commands.version import own_version  # noqa: PLC0415 - only for this flag

        print(f"topo {own_version()}")
        raise typer.Exit


def topo(
    *,
    _show_version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Show which GPU nodes are wired together and what is wrong; place jobs on whole groups."""


_COMMANDS = (
    views.tree,
    views.node,
    views.gpus,
    moments.diff,
    moments.history,
    views.doctor,
    place.place,
    views.fragmentation,
    export.export,
)


def _with_commands(made: typer.Typer) -> typer.Typer:
    made.callback(cls=_Commands, no_args_is_help=True, context_settings=_CONTEXT)(topo)
    for command in _COMMANDS:
        made.command()(command)
    made.add_typer(decisions.app, name="nodes")
    made.add_typer(holds.app, name="holds")
    made.command()(gangs.gangs)
    made.command()(gangs.why)
    made.add_typer(gates.app, name="gates")
    made.add_typer(wiring.app, name="wiring")
    made.command()(parse.parse)
    made.command()(version.version)
    made.add_typer(demo.app, name="demo")
    made.add_typer(sim.app, name="sim")
    return made


_CONTEXT = {"help_option_names": ["-h", "--help"]}
# The local variables of a traceback could show a token.
app = _with_commands(typer.Typer(pretty_exceptions_enable=False))


def kubectl_plugin() -> None:
    """Run the same commands as `kubectl topo`: kubectl finds `kubectl-topo` in the path.

    The shell asks kubectl for completions, not a plugin, so there is no option to install them.
    """
    plugin = typer.Typer(pretty_exceptions_enable=False, add_completion=False)
    _with_commands(plugin)(prog_name="kubectl topo")


if __name__ == "__main__":
    sys.exit(app())

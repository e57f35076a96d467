# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo nodes quarantine`, `confirm` and `clear`: what an operator decides about a node."""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from topo.cli.commands import nodes
from topo.cli.completion import node_names
from topo.cli.options import MasterOptions, path_segment, takes_options
from topo.cli.render.safe import plain

NodeName = Annotated[
    str, typer.Argument(metavar="NODE", help="The node.", autocompletion=node_names)
]
Link = Annotated[str, typer.Option(metavar="LINK", help="Only this link, as `topo node` names it.")]
Reason = Annotated[
    str, typer.Option("--reason", "-r", metavar="TEXT", help="Why, for whoever comes later.")
]
_LIST = "list"


class _ListedByDefault(TyperGroup):
    """`topo nodes` without the word of a decision lists the nodes."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word `list` where no other stands."""
        is_named = bool(args) and args[0] in {*self.commands, *ctx.help_option_names}
        return super().parse_args(ctx, args if is_named else [_LIST, *args])


_HELP = "List the nodes (the default, `list`), or decide about a suspected one."
app = typer.Typer(cls=_ListedByDefault, help=_HELP)


@app.callback()
def decisions() -> None:
    """Take what `list` takes, or the word of a decision."""


app.command(_LIST)(nodes.nodes)


@app.command()
@takes_options
def quarantine(node: NodeName, *, reason: Reason, link: Link = "", options: MasterOptions) -> None:
    """Keep new jobs off a node until it is cleared; running jobs stay."""
    _decide(node, "quarantine", reason, link, options=options)
    print(f"no new job starts on {plain(node)}; `topo nodes clear` ends that")


@app.command()
@takes_options
def confirm(node: NodeName, *, reason: Reason, link: Link = "", options: MasterOptions) -> None:
    """Treat the suspected links of a node as bad until they are cleared."""
    _decide(node, "confirm", reason, link, options=options)
    print(f"{plain(node)} is placed late until `topo nodes clear`")


@app.command()
@takes_options
def clear(node: NodeName, *, link: Link = "", options: MasterOptions) -> None:
    """Drop the suspicion of a node: its cable was replaced, or nothing was wrong."""
    _decide(node, "clear", "", link, options=options)
    print(f"nothing is held against {plain(link or 'any link')} of {plain(node)} any more")


def _decide(node: str, act: str, reason: str, link: str, *, options: MasterOptions) -> None:
    from topo.cli.client import connection

    path = f"/v1/nodes/{path_segment(node, 'node', '`topo nodes -o name` lists them')}/{act}"
    body = {"reason": reason, "link": link}
    to = connection.target_to_change(options)
    connection.ask(to, lambda client: client.send("POST", path, body))

"""Calls to the master that the shared options name, and printing of its answers."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from rich.console import RenderableType

from topo.cli.client.client import (
    HANGING_S,
    PATIENCE_S,
    MasterClient,
    Target,
    connect,
    target,
)
from topo.cli.client.decoding import decode
from topo.cli.demo_directory import master_url, running_demo
from topo.cli.exit_codes import CliError, Exit
from topo.cli.options import MasterOptions, Output
from topo.cli.render import terminal
from topo.cli.render.safe import escaped, is_safe
from topo.cli.render.terminal import Glyphs
from topo.model.errors import Refusal

_T = TypeVar("_T")


def target_to_read(options: MasterOptions) -> Target:
    """Return the target of the options; without `--master` a running demo, else the default."""
    return target(master_url(options.master), options.token_file, options.ca_file)


def target_to_change(options: MasterOptions) -> Target:
    """Return the same target for a call that writes, with a running demo's token by default."""
    url, token_file = options.master, options.token_file
    demo = running_demo() if url is None else None
    if demo and demo.token_file and token_file is None:
        token_file = Path(demo.token_file)
    return target(demo.master if demo else master_url(url), token_file, options.ca_file)


def document(options: MasterOptions, path: str, **query: str | int | None) -> Any:
    """Return the JSON document at a path of the master that the options name."""
    return ask(target_to_read(options), lambda master: master.document(path, **query))


def ask(
    to: Target,
    question: Callable[[MasterClient], Awaitable[_T]],
    on_waiting: Callable[[], None] | None = None,
) -> _T:
    """Run one conversation with the master; return its result.

    `on_waiting` is called where an answer takes long; None says so on standard error.
    """

    async def conversation() -> _T:
        async with connect(to, on_waiting or _say_waiting) as master:
            return await question(master)

    return asyncio.run(conversation())


def _say_waiting() -> None:
    words = f"topo: no answer for {PATIENCE_S:g} s: the master hangs, or is busy; "
    words += f"it has {HANGING_S:g} s"
    terminal.err().print(words, style="yellow")


def serialize(document: Any, output: Output, layout: int = orjson.OPT_INDENT_2) -> str:
    """Return the document as JSON or YAML text, keys in their order; JSON in orjson's `layout`.

    What a terminal would obey is escaped. Raises `CliError` for a document nested too deeply.
    """
    try:
        if output is not Output.YAML:
            option = layout | orjson.OPT_APPEND_NEWLINE
            return escaped(orjson.dumps(document, option=option).decode())
        text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
        return text if is_safe(text) else yaml.safe_dump(document, sort_keys=False)
    except (TypeError, RecursionError):
        fix = "is this the address of a topo-master? give it with --master or TOPO_MASTER"
        refusal = Refusal("a document nested too deeply to be printed", "the answer", fix)
        raise CliError(Exit.UNREACHABLE, refusal) from None


def print_answer(
    raw: Any, output: Output, kind: type[_T], render: Callable[[_T, Glyphs], RenderableType]
) -> None:
    """Print the master's answer, for a person rendered as the document that it is."""
    print_document(raw, output, lambda glyphs: render(decode(kind, raw), glyphs))


def print_document(raw: Any, output: Output, picture: Callable[[Glyphs], RenderableType]) -> None:
    """Print a document, or for a person the picture of it with the marks that they can see."""
    if output is Output.TABLE:
        console = terminal.out()
        console.print(picture(terminal.glyphs(console)), crop=False)
    else:
        print(serialize(raw, output), end="")

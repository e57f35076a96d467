"""The master that the shared options name, and printing what it answers."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from rich.console import RenderableType

from topo.cli.client.client import Master, Target, connect, target
from topo.cli.demo.runtime import master_url, running_demo
from topo.cli.exits import CliError, Exit
from topo.cli.options import MasterOptions, Output
from topo.cli.render import terminal
from topo.cli.render.safe import escaped, is_safe
from topo.cli.render.terminal import Glyphs
from topo.model.errors import Refusal

_T = TypeVar("_T")


def chosen(options: MasterOptions) -> Target:
    """The target that the options name; without `--master` a running demo, else the default."""
    return target(master_url(options.master), options.token_file, options.ca_file)


def trusted(options: MasterOptions) -> Target:
    """Like `chosen`, for a call that writes: a running demo's token where no other is named."""
    url, token_file = options.master, options.token_file
    demo = running_demo() if url is None else None
    if demo and demo.token_file and token_file is None:
        token_file = Path(demo.token_file)
    return target(demo.master if demo else master_url(url), token_file, options.ca_file)


def document(options: MasterOptions, path: str, **query: str | int) -> Any:
    """The JSON document at a path of the master that the options name."""
    return ask(chosen(options), lambda master: master.document(path, **query))


def ask(to: Target, question: Callable[[Master], Awaitable[_T]]) -> _T:
    """Runs one conversation with the master to its end."""

    async def conversation() -> _T:
        async with connect(to) as master:
            return await question(master)

    return run(conversation())


def run(work: Coroutine[Any, Any, _T]) -> _T:
    """`asyncio.run`, here so that commands need no asyncio of their own."""
    return asyncio.run(work)


def dumped(document: Any, output: Output) -> str:
    """The document as JSON (indented) or YAML text, keys in the order they came.

    What a terminal would obey is escaped. Raises `CliError` for a document nested too deeply.
    """
    return _written(document, _yaml if output is Output.YAML else _json)


def dumped_line(document: Any) -> str:
    """The document as JSON on one line, otherwise like `dumped`."""
    return _written(document, lambda it: escaped(orjson.dumps(it).decode()) + "\n")


def _written(document: Any, write: Callable[[Any], str]) -> str:
    try:
        return write(document)
    except (TypeError, RecursionError):
        fix = "is this the address of a topo-master? give it with --master or TOPO_MASTER"
        refusal = Refusal("a document nested too deeply to be printed", "the answer", fix)
        raise CliError(Exit.UNREACHABLE, refusal) from None


def _json(document: Any) -> str:
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return escaped(orjson.dumps(document, option=option).decode())


def _yaml(document: Any) -> str:
    text = yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    return text if is_safe(text) else yaml.safe_dump(document, sort_keys=False)


def show(raw: Any, output: Output, picture: Callable[[Glyphs], RenderableType]) -> None:
    """Prints what a master sent, or for a person the picture of it."""
    if output is Output.TABLE:
        draw(picture)
    else:
        print(dumped(raw, output), end="")


def draw(picture: Callable[[Glyphs], RenderableType]) -> None:
    """Prints a picture to standard output with the marks that it can show."""
    console = terminal.out()
    console.print(picture(terminal.glyphs(console)))

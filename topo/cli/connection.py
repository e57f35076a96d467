"""From the shared options to a connected master, and from documents to standard output."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import orjson
import yaml
from rich.console import RenderableType

from topo.cli import terminal
from topo.cli.client import Master, Target, connect, target
from topo.cli.demo.runtime import running_demo
from topo.cli.options import DEFAULT_MASTER, Output
from topo.cli.terminal import Glyphs

_T = TypeVar("_T")


def chosen(url: str | None, token_file: Path | None, ca_file: Path | None) -> Target:
    """The target that the options name; without `--master` a running demo, else the default."""
    if url is None:
        demo = running_demo()
        url = DEFAULT_MASTER if demo is None else demo.master
    return target(url, token_file, ca_file)


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
    """The document as JSON (indented) or YAML text, keys in the order they came."""
    if output is Output.YAML:
        return yaml.safe_dump(document, sort_keys=False, allow_unicode=True)
    option = orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE
    return orjson.dumps(document, option=option).decode()


def draw(picture: Callable[[Glyphs], RenderableType]) -> None:
    """Prints a picture to standard output with the marks that it can show."""
    console = terminal.out()
    console.print(picture(terminal.glyphs(console)))

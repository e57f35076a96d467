"""Usage errors of typer in the three lines of every other failure.

typer brings its own copy of click's classes, older ones use click's: what is read of an error and a
command is what both have.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from topo.model.errors import Refusal
from topo.model.nearest import did_you_mean

_LIBRARY_WORDS = "Value error, "
"""How pydantic, which reads typer's values, begins its sentences."""


def refusal(error: Any, arguments: Sequence[str] = ()) -> Refusal:
    """Return the usage error as a refusal; `at` is the option, the argument or the command.

    `arguments` are those of the command line that named no command yet.
    """
    path = _path(error.ctx)
    see = f"`{path} --help`"
    option = getattr(error, "option_name", None)
    if option is not None and hasattr(error, "possibilities"):
        fix = _belongs_after(option, error.ctx, arguments)
        return Refusal(
            f"{path} has no such option", option, fix or _nearest(option, error.ctx, see)
        )
    parameter = getattr(error, "param", None)
    if parameter is None:
        return Refusal(error.format_message().replace(_LIBRARY_WORDS, ""), option or path, see)
    what = error.message.replace(_LIBRARY_WORDS, "")
    name = _name(parameter)
    is_missing = hasattr(error, "param_type")
    return Refusal(f"{name} is missing" if is_missing else what, name, see)


def is_help(error: Any) -> bool:
    """Return whether it is the help of a command that was given nothing, and no error."""
    return type(error).__name__ == "NoArgsIsHelpError"


def _path(context: Any) -> str:
    """Return the command as people write it, however the program was started."""
    if context is None:
        return "topo"
    return "topo" + str(context.command_path).removeprefix(context.find_root().info_name or "")


def _name(parameter: Any) -> str:
    """Return the parameter as people write it: `--status`, `NODE`."""
    option = str(max(parameter.opts, key=len))
    shown = parameter.metavar or parameter.name.upper()
    return option if option.startswith("-") else str(shown).strip("{}[].")


def _nearest(option: str, context: Any, otherwise: str) -> str:
    known = [] if context is None else [o for p in context.command.params for o in p.opts]
    return did_you_mean(option, [o for o in known if o.startswith("-")], otherwise)


def _belongs_after(option: str, context: Any, arguments: Sequence[str]) -> str:
    """Return where an option of a subcommand belongs; "" where no subcommand has it."""
    if context is None:
        return ""
    paths = [path for path, command in _below(context.command) if _has(command, option)]
    if not paths:
        return ""
    meant = next((path for path in paths if path[0] in arguments), paths[0])
    return f"it goes after the command: `{' '.join((_path(context), *meant))} {option} ...`"


def _below(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, child in getattr(command, "commands", {}).items():
        yield (*path, name), child
        yield from _below(child, (*path, name))


def _has(command: Any, option: str) -> bool:
    return any(option in parameter.opts for parameter in command.params)

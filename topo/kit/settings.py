"""Settings of a service: every field is a flag and an environment variable.

A field `server_port` is `--server-port=9001` or `--server-port 9001` (the vendor's style) and
`TOPO_SERVER_PORT`; a flag beats the variable, which beats the default. A field may name further
variables (`Annotated[str, Env("POD_NAME")]`), which the product's own one beats. argparse
and pydantic-settings are not used: they refuse `--switch=true` and `--name=`, and their errors name
neither the nearest flag nor the meaning of a flag.
"""

import ast
import inspect
import os
import re
import sys
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NoReturn, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic.fields import FieldInfo

from topo.kit.durations import SPAN
from topo.kit.hiding import HIDDEN, mask_secrets
from topo.model.durations import format_duration
from topo.model.errors import Refusal
from topo.model.nearest import nearest

S = TypeVar("S", bound="ServiceSettings")
PREFIX = "TOPO_"
SLIP = 0.85
"""Likeness of a misspelt flag or variable. A flag of an earlier version gets no false advice."""
_USER_INFORMATION = re.compile(r"^(['\"]).*@")
"""User information: everything before the last `@` of an address without a scheme."""


@dataclass(frozen=True)
class Env:
    """Further environment variables that set a field; the first that is set wins."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


@dataclass(frozen=True, slots=True)
class Chart:
    """The value of the Helm chart that sets a field.

    `is_plain`: the template writes the flag from the table; otherwise the template has its own code
    for it.
    """

    value: str
    is_plain: bool = True


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A setting written `a,b,c`."""
Port = Annotated[int, Field(ge=0, le=65535)]
"""0 takes a free port."""
Count = Annotated[int, Field(ge=1, le=1_000_000)]
"""A positive number."""


class ServiceSettings(BaseModel):
    """Base of the settings of a service. The docstring under a field is its help text."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True)

    removed: ClassVar[Mapping[str, str]] = {}
    """Flags of earlier versions, each with what to do now; they and their variables are refused."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return the errors between the fields of one group that are valid separately."""
        return ()

    def refusals(self) -> tuple[Refusal, ...]:
        """Return the errors between fields, for all groups in the order of `--help`."""
        return tuple(
            refusal
            for group in reversed(type(self).__mro__)
            if issubclass(group, ServiceSettings) and "own_refusals" in vars(group)
            for refusal in group.own_refusals(self)
        )


@dataclass(frozen=True, slots=True)
class _Given:
    """A raw value of a field, and the flag or variable that gave it."""

    text: str
    origin: str


def load(cls: type[S], argv: Sequence[str]) -> S:
    """Return the settings of this process; exit with 2 and a line per error on stderr if invalid.

    `argv` is without the program's name. `--help` and `--version` print and exit with 0.
    """
    if "--help" in argv or "-h" in argv:
        _print_and_exit(help_text(cls), 0)
    if "--version" in argv:
        _print_and_exit(version("supernode-topology"), 0)
    for hint in stray_variables(cls):
        sys.stderr.write(f"warning: {hint}\n")
    result = read(cls, argv)
    if isinstance(result, tuple):
        _print_and_exit("\n".join(f"error: {refusal}" for refusal in result), 2)
    return result


def _print_and_exit(text: str, code: int) -> NoReturn:
    (sys.stderr if code else sys.stdout).write(text + "\n")
    raise SystemExit(code)


def read(cls: type[S], argv: Sequence[str]) -> S | tuple[Refusal, ...]:
    """Return the settings, or all errors in them."""
    flags = _flags(cls, argv)
    if isinstance(flags, Refusal):
        return (flags,)
    if removed := _removed_variables(cls):
        return removed
    given = {**_variables(cls), **flags}
    values: dict[str, Any] = {name: value.text for name, value in given.items()}
    try:
        settings = cls(**values)
    except ValidationError as error:
        return tuple(_refusal(cls, given, finding) for finding in error.errors())
    return settings.refusals() or settings


def flag_of(field_name: str) -> str:
    """Return the flag of a field: `server_port` → `--server-port`."""
    return "--" + field_name.replace("_", "-")


def _field_of(flag: str) -> str:
    return flag.removeprefix("--").replace("-", "_")


def variables_of(cls: type[ServiceSettings], field_name: str) -> tuple[str, ...]:
    """Return the variables that set a field, by precedence: `TOPO_SERVER_PORT`, then others."""
    further = (
        item.names for item in cls.model_fields[field_name].metadata if isinstance(item, Env)
    )
    return (_own_variable(field_name), *(name for names in further for name in names))


def _own_variable(field_name: str) -> str:
    return f"{PREFIX}{field_name}".upper()


def _environment() -> dict[str, str]:
    return {name.upper(): text for name, text in os.environ.items()}


def _removed_variables(cls: type[ServiceSettings]) -> tuple[Refusal, ...]:
    """Return the errors about variables that set something in an earlier version."""
    environment = _environment()
    variables = ((_own_variable(_field_of(flag)), fix) for flag, fix in cls.removed.items())
    return tuple(
        Refusal(
            f"there is no such setting any more, and its value is {mask_secrets(text)}", at, fix
        )
        for at, fix in variables
        if (text := environment.get(at))
    )


def _variables(cls: type[ServiceSettings]) -> dict[str, _Given]:
    """Return the values from the environment, by field. Case and empty variables are ignored."""
    environment = _environment()
    found: dict[str, _Given] = {}
    for name in cls.model_fields:
        for variable in variables_of(cls, name):
            if text := environment.get(variable):
                found[name] = _Given(text, variable)
                break
    return found


def _flags(cls: type[ServiceSettings], argv: Sequence[str]) -> dict[str, _Given] | Refusal:
    """Return the values from the command line, by field; the last one of a repeated flag.

    `--name=` keeps the default: charts render flags with empty values.
    """
    fields = {flag_of(name): name for name in cls.model_fields}
    values: dict[str, _Given] = {}
    words = list(argv)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        if flag not in fields:
            return _unknown_flag(flag, list(fields), cls.removed)
        name = fields[flag]
        if not equals and cls.model_fields[name].annotation is bool:
            value = "true"
        elif not equals:
            if not words or words[0].startswith("--"):
                return Refusal("the flag has no value", flag, f"write {flag}=VALUE")
            value = words.pop(0)
        values[name] = _Given(value, flag)
    return {name: value for name, value in values.items() if value.text}


def _unknown_flag(flag: str, known: list[str], removed: Mapping[str, str]) -> Refusal:
    if flag in removed:
        return Refusal("there is no such flag any more", flag, removed[flag])
    if not flag.startswith("-"):
        fix = "write flags as --name=value"
        return Refusal("an argument that belongs to no flag", mask_secrets(flag), fix)
    close = nearest(flag, known, SLIP)
    fix = f"did you mean {close}?" if close else "see --help"
    return Refusal("there is no such flag", flag, fix)


def stray_variables(cls: type[ServiceSettings]) -> list[str]:
    """Return hints about variables that look like a misspelt setting.

    Unknown variables cannot be refused, because Kubernetes sets `TOPO_MASTER_SERVICE_HOST` and
    similar ones in every container of the namespace.
    """
    known = [variables_of(cls, name)[0] for name in cls.model_fields]
    strange = (n for n in sorted(os.environ) if n.startswith(PREFIX) and n not in known)
    meant = ((name, nearest(name, known, SLIP)) for name in strange)
    return [f"{n} is set but is no setting; did you mean {close}?" for n, close in meant if close]


def _refusal(cls: type[ServiceSettings], given: dict[str, _Given], finding: Any) -> Refusal:
    name = str(finding["loc"][0]) if finding["loc"] else ""
    field = cls.model_fields.get(name)
    if field is None:
        return Refusal(finding["msg"], name or "settings", "see --help")
    origin = given[name].origin if name in given else flag_of(name)
    if finding["type"] == "missing":
        return Refusal("a value is needed", origin, f"give {flag_of(name)}=VALUE")
    shown = _USER_INFORMATION.sub(rf"\1{HIDDEN}@", mask_secrets(repr(finding["input"])))
    what = f"{shown} does not fit: {finding['msg'].removeprefix('Value error, ')}"
    return Refusal(what, origin, f"it means: {meaning(cls, name) or 'see --help'}")


def groups(cls: type[ServiceSettings]) -> dict[str, tuple[str, ...]]:
    """Return the fields by group. A group is the declaring class, named by its docstring."""
    found: dict[str, tuple[str, ...]] = {}
    for owner in reversed(cls.__mro__):
        own = getattr(owner, "__annotations__", {})
        if names := tuple(name for name in cls.model_fields if name in own):
            title = (owner.__doc__ or "").partition("\n")[0].rstrip(".")
            found[title] = names
    return found


def chart_value(field: FieldInfo) -> Chart | None:
    """Return the value of the Helm chart that sets a field."""
    return next((item for item in field.metadata if isinstance(item, Chart)), None)


def meaning(cls: type[ServiceSettings], name: str) -> str:
    """Return the help text of a field on one line: the docstring under it, where it is declared."""
    owners = (owner for owner in cls.__mro__ if issubclass(owner, BaseModel))
    texts = (cls.model_fields[name].description, *(_docstrings(each).get(name) for each in owners))
    return " ".join((next(filter(None, texts), None) or "").split())


@cache
def _docstrings(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings under the fields that a class declares, from its source.

    Read when somebody asks: pydantic's `use_attribute_docstrings` reads those of all classes at
    import, which took a twelfth of the time that a worker needs to start.
    """
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except OSError:  # only its bytecode is installed
        return {}
    return {
        field.target.id: text.value.value
        for declared in ast.parse(source).body
        if isinstance(declared, ast.ClassDef)
        for field, text in pairwise(declared.body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }


def _wrapped(text: str) -> list[str]:
    """Return indented lines of at most 80 columns; no flag, variable or path is broken."""
    return textwrap.wrap(
        text,
        80,
        initial_indent=" " * 6,
        subsequent_indent=" " * 6,
        break_long_words=False,
        break_on_hyphens=False,
    )


def help_text(cls: type[ServiceSettings]) -> str:
    """Return the text of `--help`: every flag with its variables, default and meaning, by group."""
    lines = ["Flags, each with its environment variables:"]
    for title, names in groups(cls).items():
        lines += ["", title]
        for name in names:
            field = cls.model_fields[name]
            default = default_text(field)
            lines.append(f"  {flag_of(name)}={default}" if default else f"  {flag_of(name)}")
            lines += _wrapped(meaning(cls, name))
            lines += _wrapped(f"[{', '.join(variables_of(cls, name))}]")
    return "\n".join(lines)


def default_text(field: FieldInfo) -> str:
    """Return the default as written in a flag; empty if there is none."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if SPAN in field.metadata:
        return format_duration(float(default))
    if isinstance(default, tuple):
        return ",".join(str(item) for item in default)
    if isinstance(default, float):
        return f"{default:g}"
    return str(default)

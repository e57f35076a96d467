"""Settings of a service: every field is a flag and an environment variable.

A field `server_port` is `--server-port=9001` or `--server-port 9001` (the vendor's style) and
`TOPO_SERVER_PORT`; a flag beats the variable, which beats the default. A field may name further
variables (`Annotated[str, Env("POD_NAME")]`), which the product's own one beats.
"""

import os
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from importlib.metadata import version
from types import UnionType
from typing import Annotated, Any, NoReturn, TypeVar, Union, get_args, get_origin

from pydantic import BeforeValidator, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from topo.kit.durations import SPAN, spell_duration
from topo.kit.logs import HIDDEN, hide_in_text
from topo.model.errors import Refusal

S = TypeVar("S", bound="ServiceSettings")
_USER_INFORMATION = re.compile(r"^(['\"]).*@")
"""What stands before the last `@` of an address without a scheme."""


@dataclass(frozen=True)
class Env:
    """Further environment variables that set a field, the first one that is set wins."""

    names: tuple[str, ...]

    def __init__(self, *names: str) -> None:
        object.__setattr__(self, "names", names)


def _split(value: object) -> object:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


CommaList = Annotated[tuple[str, ...], BeforeValidator(_split)]
"""A setting written `a,b,c`."""


class _VendorEnvironment(PydanticBaseSettingsSource):
    """Reads the variables named by `Env`."""

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        name = _vendor_variable(field)
        return (os.environ.get(name) if name else None), field_name, False

    def __call__(self) -> dict[str, Any]:
        values = {
            name: self.get_field_value(field, name)[0]
            for name, field in self.settings_cls.model_fields.items()
        }
        return {name: value for name, value in values.items() if value is not None}


class ServiceSettings(BaseSettings):
    """Base of both services' settings; the docstring under a field is its help text."""

    model_config = SettingsConfigDict(
        env_prefix="TOPO_",
        env_ignore_empty=True,
        enable_decoding=False,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    def refusals(self) -> tuple[Refusal, ...]:
        """What is wrong between fields that are each fine; `load` ends the process over them."""
        return ()

    @classmethod
    def settings_customise_sources(  # noqa: PLR0917 - the library's signature
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, then our own variables, then those of the vendor."""
        return init_settings, env_settings, _VendorEnvironment(settings_cls)


def load(cls: type[S], argv: Sequence[str]) -> S:
    """The settings of this process, or the end of it: exit 2 with a line per finding on stderr.

    `argv` is without the program's name. `--help` and `--version` print and exit 0.
    """
    if "--help" in argv or "-h" in argv:
        _say_and_exit(help_text(cls), 0)
    if "--version" in argv:
        _say_and_exit(version("supernode-topology"), 0)
    for hint in stray_variables(cls):
        sys.stderr.write(f"warning: {hint}\n")
    result = read(cls, argv)
    if isinstance(result, tuple):
        _say_and_exit("\n".join(f"error: {refusal}" for refusal in result), 2)
    return result


def _say_and_exit(text: str, code: int) -> NoReturn:
    (sys.stderr if code else sys.stdout).write(text + "\n")
    raise SystemExit(code)


def read(cls: type[S], argv: Sequence[str]) -> S | tuple[Refusal, ...]:
    """The settings, or everything that is wrong with them."""
    flags = parse_flags(cls, argv)
    if isinstance(flags, Refusal):
        return (flags,)
    values: dict[str, Any] = dict(flags)
    try:
        settings = cls(**values)
    except ValidationError as error:
        return tuple(_refusal(cls, flags, finding) for finding in error.errors())
    return settings.refusals() or settings


def flag_of(field_name: str) -> str:
    """`server_port` → `--server-port`."""
    return "--" + field_name.replace("_", "-")


def variable_of(cls: type[ServiceSettings], field_name: str) -> str:
    """`server_port` → `TOPO_SERVER_PORT`."""
    return f"{cls.model_config.get('env_prefix', '')}{field_name}".upper()


def parse_flags(cls: type[ServiceSettings], argv: Sequence[str]) -> dict[str, str] | Refusal:
    """Field names and raw values; a flag given twice takes its last value.

    `--name=` leaves the default: charts render flags whose value nobody set.
    """
    fields = {flag_of(name): name for name in cls.model_fields}
    values: dict[str, str] = {}
    words = list(argv)
    while words:
        flag, equals, value = words.pop(0).partition("=")
        if flag not in fields:
            return _unknown_flag(flag, list(fields))
        if not equals:
            if is_switch(cls.model_fields[fields[flag]]):
                value = "true"
            elif not words or words[0].startswith("--"):
                return Refusal("the flag has no value", flag, f"write {flag}=VALUE")
            else:
                value = words.pop(0)
        values[fields[flag]] = value
    return {name: value for name, value in values.items() if value}


def is_switch(field: FieldInfo) -> bool:
    """Whether the flag may stand without a value."""
    return field.annotation is bool


def _unknown_flag(flag: str, known: list[str]) -> Refusal:
    if not flag.startswith("-"):
        return Refusal("an argument that belongs to no flag", flag, "write flags as --name=value")
    return Refusal("there is no such flag", flag, nearest(flag, known) or "see --help")


def nearest(word: str, known: Sequence[str]) -> str:
    """`did you mean X?` for the closest known word, empty where none is close."""
    found = get_close_matches(word, known, n=1)
    return f"did you mean {found[0]}?" if found else ""


def stray_variables(cls: type[ServiceSettings]) -> list[str]:
    """Hints about variables that look like a misspelt setting.

    Unknown ones cannot be refused: Kubernetes itself puts `TOPO_MASTER_SERVICE_HOST` and the like
    into every container beside a Service of that name.
    """
    prefix = str(cls.model_config.get("env_prefix", ""))
    known = [variable_of(cls, name) for name in cls.model_fields]
    hints = []
    for name in sorted(os.environ):
        if name.startswith(prefix) and name not in known:
            close = get_close_matches(name, known, n=1, cutoff=0.85)
            if close:
                hints.append(f"{name} is set but is no setting; did you mean {close[0]}?")
    return hints


def _vendor_variable(field: FieldInfo) -> str | None:
    for item in field.metadata:
        if isinstance(item, Env):
            return next((name for name in item.names if os.environ.get(name)), None)
    return None


def _refusal(cls: type[ServiceSettings], flags: dict[str, str], finding: Any) -> Refusal:
    name = str(finding["loc"][0]) if finding["loc"] else ""
    field = cls.model_fields.get(name)
    if field is None:
        return Refusal(finding["msg"], name or "settings", "see --help")
    if name in flags:
        origin = flag_of(name)
    elif variable_of(cls, name) in os.environ:
        origin = variable_of(cls, name)
    else:
        origin = _vendor_variable(field) or flag_of(name)
    shown = _USER_INFORMATION.sub(rf"\1{HIDDEN}@", hide_in_text(repr(finding["input"])))
    what = f"{shown} does not fit: {finding['msg'].removeprefix('Value error, ')}"
    if finding["type"] == "missing":
        return Refusal("a value is needed", origin, f"give {flag_of(name)}=VALUE")
    return Refusal(what, origin, _meaning(field))


def _meaning(field: FieldInfo) -> str:
    text = " ".join((field.description or "see --help").split())
    return f"it means: {text}"


def help_text(cls: type[ServiceSettings]) -> str:
    """Every flag with its variable, default and meaning."""
    lines = []
    for name, field in cls.model_fields.items():
        default = default_text(field)
        lines.append(f"  {flag_of(name)}={default}" if default else f"  {flag_of(name)}")
        variables = [variable_of(cls, name)]
        for item in field.metadata:
            if isinstance(item, Env):
                variables.extend(item.names)
        lines.append(f"      {' '.join((field.description or '').split())}")
        lines.append(f"      [{', '.join(variables)}]")
    return "\n".join(["Flags, each with its environment variables:", *lines])


def default_text(field: FieldInfo) -> str:
    """The default as one would write it in a flag; empty where there is none."""
    default = field.get_default(call_default_factory=True, validated_data={})
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return str(default).lower()
    if SPAN in field.metadata:
        return spell_duration(float(default))
    if isinstance(default, tuple):
        return ",".join(str(item) for item in default)
    if isinstance(default, float):
        return f"{default:g}"
    return str(default)


def type_text(annotation: object) -> str:
    """A field's type in a word, for a table of flags."""
    if get_origin(annotation) in (Union, UnionType):
        return type_text(next(a for a in get_args(annotation) if a is not type(None)))
    args = get_args(annotation)
    if args and all(isinstance(arg, str) for arg in args):
        return " or ".join(args)
    return getattr(annotation, "__name__", str(annotation)).lower()

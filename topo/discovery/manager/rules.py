"""The sections of a mapping file as closed pydantic models, their expressions compiled.

Every key here is described in docs/cluster-manager.md.
"""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from topo.discovery.manager.contract import LOOSE, shown_key
from topo.discovery.manager.expressions import Compiled, Expression
from topo.discovery.modes import JoinKey
from topo.facts.infiniband.dumps import DumpFormat
from topo.model.nearest import nearest


def _plain_path(path: str) -> str:
    if ".." in path or "//" in path or any(c in path for c in "?#\\ ") or not path.isascii():
        raise PydanticCustomError(
            "path",
            "'{path}' is not a plain path",
            {"path": path, "fix": "write it from the root, without query: /api/v2/inventory"},
        )
    return path


Path = Annotated[
    str, Field(pattern=r"^/", max_length=512), BeforeValidator(lambda p: _plain_path(str(p)))
]
"""A path under the manager's address; never a URL, so credentials go to no other host."""
Word = Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9._-]+$")]


class Closed(BaseModel):
    """A section of the mapping file; it has no other keys than its own."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, section: object) -> object:
        if not isinstance(section, dict):
            return section
        for key in section:
            if key not in cls.model_fields:
                near = nearest(str(key), cls.model_fields, LOOSE)
                known = ", ".join(cls.model_fields)
                fix = f"did you mean {near!r}?" if near else f"the keys here are {known}"
                raise PydanticCustomError(
                    "unknown_key",
                    "the key '{key}' is unknown",
                    {"key": shown_key(str(key)), "fix": fix},
                )
        return section


class BasicAuth(Closed):
    """User name and password with every request (RFC 7617)."""

    kind: Literal["basic"]


class TokenAuth(Closed):
    """A fixed token from the credentials directory with every request."""

    kind: Literal["token"]
    file: Word = "token"
    header: Word = "Authorization"
    prefix: Annotated[str, Field(max_length=32, pattern=r"^[ -~]*$")] = "Bearer "


class LoginAuth(Closed):
    """A login that gives a token for a while; the two fields name the keys of its JSON body."""

    kind: Literal["login"]
    path: Path
    username_field: Word = "username"
    password_field: Word = "password"  # noqa: S105 - the name of a key
    token: Compiled
    expires_in_s: Compiled | None = None
    header: Word = "Authorization"
    prefix: Annotated[str, Field(max_length=32, pattern=r"^[ -~]*$")] = "Bearer "


class MachineRule(Closed):
    """Where machines are: `each` yields their objects, the rest is asked of each of those."""

    each: Compiled
    id: Compiled
    names: Annotated[dict[JoinKey, Compiled], Field(min_length=1)]
    group_id: Compiled | None = None
    status: Compiled | None = None


class GroupRule(Closed):
    """Where groups are, and the groups and machines inside each of them.

    Without `id`, a group is known by its parent's id, a slash, and its name: for managers whose
    names are unique under one parent only.
    """

    each: Compiled
    name: Compiled
    kind: Compiled
    id: Compiled | None = None
    parent_id: Compiled | None = None
    groups: tuple["GroupRule", ...] = ()
    machines: tuple[MachineRule, ...] = ()


class TopologyRule(Closed):
    """The answer that lists everything; without rules it is in our contract's form already."""

    path: Path
    cursor: Compiled | None = None
    groups: tuple[GroupRule, ...] = ()
    machines: tuple[MachineRule, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether the answer needs no translation."""
        return not self.groups and not self.machines


class EventsRule(Closed):
    """The event log, where the manager has one; `each` yields events of our contract's form."""

    path: Path
    cursor_parameter: Word = "cursor"
    limit_parameter: Word | None = None
    cursor: Compiled
    each: Compiled


class HealthRule(Closed):
    """What the manager says of itself; asked when it fails, to say why."""

    path: Path
    ok: Compiled
    detail: Compiled | None = None


class FabricRule(Closed):
    """The answer that is a dump of the whole fabric, in a format that needs no translation."""

    path: Path
    format: DumpFormat


class Sample(Closed):
    """One recorded answer for every section of the mapping that reads one."""

    topology: Any = None
    fabric: Any = None
    login: Any = None
    events: Any = None
    events_asked: str = ""
    health: Any = None


def expressions(rule: BaseModel, where: str) -> Iterator[tuple[str, Expression]]:
    """Return every expression of a section with its place, those of inner rules included."""
    for key, value in rule:
        match value:
            case Expression():
                yield f"{where}.{key}", value
            case tuple():
                for index, inner in enumerate(value):
                    yield from expressions(inner, f"{where}.{key}[{index}]")
            case dict():
                yield from ((f"{where}.{key}.{name}", inner) for name, inner in value.items())


class ManagerMapping(Closed):
    """A whole mapping file, its expressions compiled; `topology`, `fabric` or both are read."""

    version: Literal[1]
    auth: Annotated[BasicAuth | TokenAuth | LoginAuth, Field(discriminator="kind")]
    topology: TopologyRule | None = None
    fabric: FabricRule | None = None
    events: EventsRule | None = None
    health: HealthRule | None = None
    sample: Sample

    @model_validator(mode="after")
    def _reads_something(self) -> Self:
        if self.topology is None and (self.fabric is None or self.events is not None):
            what = "events continue a topology" if self.events else "nothing is read"
            fix = "add the section topology, or fabric, without events"
            raise PydanticCustomError("no_topology", "there is no topology: " + what, {"fix": fix})
        return self

"""The tables of settings: one per group, a row per flag."""

from docs.tables.section import table
from topo.kit.settings import (
    ServiceSettings,
    default_text,
    flag_of,
    groups,
    meaning,
    variables_of,
)


def render(cls: type[ServiceSettings]) -> str:
    """Return the settings of a service as Markdown."""
    return "\n\n".join(
        f"**{title}**\n\n{table(('flag', 'default', 'meaning'), _rows(cls, names))}"
        for title, names in groups(cls).items()
    )


def _rows(cls: type[ServiceSettings], names: tuple[str, ...]) -> list[tuple[str, str, str]]:
    rows = []
    for name in names:
        field = cls.model_fields[name]
        default = default_text(field)
        also = "".join(f" Also `{variable}`." for variable in variables_of(cls, name)[1:])
        shown = f"`{default}`" if default else "none"
        rows.append((f"`{flag_of(name)}`", shown, meaning(field) + also))
    return rows

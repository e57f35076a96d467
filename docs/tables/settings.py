"""The tables of settings: one per group, a row per flag."""

from docs.tables.section import table
from topo.kit.settings import (
    ServiceSettings,
    chart_value,
    default_text,
    flag_of,
    groups,
    meaning,
    variables_of,
)

HEAD = ("flag", "default", "meaning", "chart value")


def render(cls: type[ServiceSettings]) -> str:
    """Return the settings of a service as Markdown."""
    return "\n\n".join(
        f"**{title}**\n\n{table(HEAD, _rows(cls, names))}" for title, names in groups(cls).items()
    )


def _rows(cls: type[ServiceSettings], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in names:
        field = cls.model_fields[name]
        default = default_text(field)
        also = "".join(f" Also `{variable}`." for variable in variables_of(cls, name)[1:])
        shown = f"`{default}`" if default else "none"
        chart = chart_value(field)
        value = f"`{chart.value}`" if chart else ""
        rows.append((f"`{flag_of(name)}`", shown, meaning(cls, name) + also, value))
    return rows

"""The table of the families of node labels that name groups."""

from collections.abc import Iterable

from docs.tables.section import table
from topo.discovery.label_families import FAMILIES, LabelFamily, LabelLevel, own_family


def render(families: Iterable[LabelFamily] = (*FAMILIES, own_family("<domain>"))) -> str:
    """Return the families: name, keys with their kinds, writer, and what each replaces."""
    head = ("family", "keys, outermost first, and the kind of group", "written by", "replaces")
    rows = (
        (
            f"`{family.name}`{'' if family.is_found else ' (by name only)'}",
            "<br>".join(map(_level, family.levels)),
            family.writer,
            f"`{family.replaces}`" if family.replaces else "",
        )
        for family in families
    )
    return table(head, rows)


def _level(level: LabelLevel) -> str:
    part = f" up to the last `{level.until}`" if level.until else ""
    optional = ", optional" if level.is_optional else ""
    return f"`{level.key}`{part}: {level.kind}{optional}"

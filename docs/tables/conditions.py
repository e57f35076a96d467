"""The tables of condition codes: one per kind of subject, a row per code."""

from docs.tables.section import table
from topo.model.conditions.catalogue import Table

_OWN_STEP = "each occurrence states its own"


def render(of: Table) -> str:
    """Return one table of the catalogue as Markdown."""
    rows = ((f"`{row.value}`", _text(row.cause), _text(row.step or _OWN_STEP)) for row in of.rows)
    return table(of.head, rows)


def _text(words: str) -> str:
    parts = words.split("`")
    return "`".join(p if n % 2 else p.replace("<", "&lt;") for n, p in enumerate(parts))

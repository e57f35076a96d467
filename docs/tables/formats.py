"""The table of the formats of vendors' tools: those that are read, those that are only known."""

from docs.tables.section import table
from topo.facts.registry import READERS, UNSUPPORTED


def render() -> str:
    """Return the formats that are read, and those that are named and refused."""
    read = ", ".join(f"`{name}`" for name in sorted(READERS))
    known = ", ".join(f"`{name}`" for name in sorted(UNSUPPORTED))
    rows = (("read", read), ("recognised and refused, with what to give instead", known))
    return table(("", "formats"), rows)

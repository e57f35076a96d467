"""The table of what speaks against a link: the kinds of events with their weights."""

from docs.tables.section import table
from topo.discovery.suspicion.evidence import KINDS
from topo.model.words import plural


def render() -> str:
    """Return the kinds, the weightiest first; those of one noun once."""
    rows: dict[str, tuple[str, str]] = {}
    for kind in sorted(KINDS.values(), key=lambda each: -each.weight):
        usual = f", beyond {kind.normal_per_h:g} an hour" if kind.normal_per_h else ""
        rows.setdefault(kind.noun, (f"{plural(kind.noun)}{usual}", f"{kind.weight:g} each"))
    return table(("event", "weight"), rows.values())

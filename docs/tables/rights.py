"""The table of rights: a row per resource and use."""

from docs.tables.section import table
from master.inspection.rights import RIGHTS, Right, RightScope

_PLACES = {
    RightScope.CLUSTER: "the cluster",
    RightScope.OWN: "its own namespace",
    RightScope.DEFAULT: "the namespace `default`",
}


def render() -> str:
    """Return the rights of a master as Markdown."""
    rows = (
        (_resource(right), ", ".join(right.verbs), _PLACES[right.scope], right.used_for)
        for right in RIGHTS
    )
    return table(("resource", "verbs", "in", "used for"), rows)


def _resource(right: Right) -> str:
    name = ".".join(filter(None, (right.resource.plural, right.group)))
    return f"`{name}`, `{right.name}` only" if right.name else f"`{name}`"

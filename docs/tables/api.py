"""The tables of the calls of the API, and of the fields of a job."""

from docs.tables.section import table
from master.api.route import Route
from master.api.routes import ROUTES
from topo.model.rest.jobs import PlacementBody

_TOKEN = {"never": "", "sometimes": "for a hold", "always": "yes"}


def calls() -> str:
    """Return the table of calls: what each does, its query, whether it needs a token."""
    head = ("call", "what it does", "query", "token")
    rows = ((_call(each), each.summary, _query(each), _TOKEN[each.writes]) for each in ROUTES)
    return table(head, rows)


def _call(route: Route) -> str:
    return ", ".join(f"`{route.method} {path}`" for path in route.paths)


def _query(route: Route) -> str:
    return ", ".join(f"`{each.name}`" for each in route.parameters if each.place == "query")


def job_fields() -> str:
    """Return the table of the fields that `POST /v1/placements` takes."""
    fields = PlacementBody.model_fields.items()
    return table(("field", "meaning"), ((f"`{name}`", str(f.description)) for name, f in fields))

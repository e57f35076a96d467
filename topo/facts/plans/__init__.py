"""Plans of cables in the formats in which people keep them: text → plan, or a refusal."""

from collections.abc import Callable

from topo.facts.plans import dot, nautobot_cables, netbox_cables, tables, topo_file
from topo.facts.plans.plan import CablePlan
from topo.model.errors import Refusal

_Recognises = Callable[[str], bool]
_Read = Callable[[str], CablePlan | Refusal]
_FORMATS: tuple[tuple[_Recognises, _Read], ...] = (
    (tables.recognises, tables.read),
    (dot.recognises, dot.read),
    (topo_file.recognises, topo_file.read),
    (netbox_cables.recognises, netbox_cables.read),
    (nautobot_cables.recognises, nautobot_cables.read),
)


def read_plan(text: str) -> CablePlan | Refusal:
    """Return the plan of a text in any of the formats, or why it is none. O(size)."""
    for recognises, read in _FORMATS:
        if recognises(text):
            return read(text)
    what = "no plan of cables that is known here"
    fix = "give CSV with the header a_node,a_port,z_node,z_port, a CVT or NetBox CSV, DOT, .topo, "
    fix += "the cables of the API of NetBox or Nautobot, or an ibnetdiscover of a good day"
    return Refusal(what, "line 1", fix)

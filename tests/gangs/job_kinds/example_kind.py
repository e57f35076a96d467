"""Reader of a Crew, a kind that the product does not know: what one file of the folder has to say.

    crew {count: 4, template} of 8 GPUs → a gang of 4 pods, ranked by their seats

Size: `spec.crew.count`. Identity: the label crews.example.com/uid, since another object owns each
pod. Rank: the label crews.example.com/seat.
"""

from collections.abc import Mapping
from typing import Any

from topo.gangs.job_kinds.job_kind import GangName, JobKind, PodFacts
from topo.gangs.job_kinds.templates import JobParts, Template, count
from topo.gangs.json_patch import mapping
from topo.gangs.machine.gang import gang_of

NAME, GROUP = "crew", "crews.example.com"
SEAT, UID = f"{GROUP}/seat", f"{GROUP}/uid"


def crew(found: Mapping[str, Any]) -> JobParts:
    """Return the parts of a Crew; O(1)."""
    stated = mapping(mapping(found.get("spec")).get("crew"))
    template = Template(
        path=("spec", "crew", "template"),
        name="crew",
        pods=count(stated.get("count")),
        body=mapping(stated.get("template")),
    )
    return JobParts(templates=(template,), stamped_kind=NAME)


def _gang(pod: PodFacts) -> GangName | None:
    uid = pod.labels.get(UID, "")
    return GangName(gang_of(NAME, pod.namespace, uid), uid) if uid else None


CREW = JobKind(
    name=NAME,
    title="Crew of an example",
    group=GROUP,
    version="v1",
    kind="Crew",
    resource="crews",
    index_key=SEAT,
    parts=crew,
    gang=_gang,
)

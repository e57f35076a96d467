"""Jobs whose nodes Volcano chooses: refusals, and warnings for the user.

The annotations of the job itself get the stamp, too: Volcano copies them to the PodGroup, which
`pod_group` judges.
"""

from collections.abc import Iterator, Mapping

from topo.gangs.admission.outcome import Rules
from topo.gangs.job_kinds.templates import JobParts
from topo.gangs.native import kinds, lowest_tier_for, tier_of_kind
from topo.gangs.terms import GroupTerms
from topo.model.errors import Refusal
from topo.placement.job.request import PlacementMode, Request


def refusal_for(
    parts: JobParts, terms: GroupTerms, rules: Rules, places: Mapping[str, str]
) -> Refusal | None:
    """Return why Volcano cannot choose the job's nodes; `places` says where each annotation is."""
    keys = rules.keys
    if not parts.has_pod_group:
        where = places.get(keys.way, places[keys.size])
        fix = f"write {keys.way}: nomination, or submit a Volcano Job"
        return Refusal(
            "native placement needs a Volcano Job, and this is a batch/v1 Job", where, fix
        )
    if terms.within is not None and rules.tiers and tier_of_kind(rules.tiers, terms.within) is None:
        what = f"{keys.within} is {str(terms.within)!r}, and no group is one"
        return Refusal(what, places[keys.within], f"write {' or '.join(kinds(rules.tiers))}")
    return None


def warnings(request: Request, terms: GroupTerms, rules: Rules) -> Iterator[str]:
    """Yield the warnings for the job's user, a sentence each."""
    if rules.unheeded:
        yield f"the groups of the job may be split: {rules.unheeded}"
    if terms.wait_s is not None:
        yield f"{rules.keys.wait} does nothing here: what Volcano is asked for stays as it is"
    pods, gpus = min(request.pods, request.pods_per_group), request.gpus_per_pod
    if terms.mode is PlacementMode.REQUIRED and lowest_tier_for(rules.tiers, pods, gpus) is None:
        yield (
            f"no group of nodes takes {pods} pods of {gpus} GPUs, even if it were empty: the job"
            " waits until there is one"
        )

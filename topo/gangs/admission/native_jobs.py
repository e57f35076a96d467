"""Jobs whose nodes their scheduler chooses: refusals, and warnings for the user.

The annotations of the job itself get the stamp, too: Volcano copies them to the PodGroup, which
`pod_group` judges. A PodGroup of Kubernetes has one constraint, that all of its pods are on nodes
with one value of a label: a batch Job of one group can be native, one of several cannot.
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
        what = (
            "native placement needs a Volcano Job, a queue of Kueue for a kind of job whose pods"
            " Kueue numbers, or PodGroups of Kubernetes for a batch/v1 Job"
        )
        return Refusal(what, where, f"write {keys.way}: nomination, or submit a Volcano Job")
    return _unknown_kind(terms, rules, places)


def topology_key(
    request: Request, terms: GroupTerms, rules: Rules, places: Mapping[str, str]
) -> str | Refusal:
    """Return the node label of which the pods of a batch Job need one value, or why it has none.

    Empty where groups are only preferred: a PodGroup of Kubernetes has no preference.
    """
    keys = rules.keys
    where = places.get(keys.way, places[keys.size])
    if request.pods > request.pods_per_group:
        groups = -(-request.pods // request.pods_per_group)
        what = f"kube-scheduler keeps one group together, and this job has {groups}"
        return Refusal(what, where, f"write {keys.way}: nomination, or submit a Volcano Job")
    if terms.mode is PlacementMode.PREFERRED:
        return ""
    if (refusal := _unknown_kind(terms, rules, places)) is not None:
        return refusal
    tier = lowest_tier_for(rules.tiers, request.pods, request.gpus_per_pod)
    inside = terms.within or next(iter(sorted(tier.kinds)) if tier is not None else iter(()), None)
    if inside is None or inside not in rules.label_keys:
        return no_label(request.pods, request.gpus_per_pod, rules, where)
    return rules.label_keys[inside]


def no_label(pods: int, gpus_per_pod: int, rules: Rules, where: str) -> Refusal:
    """Return that no label of nodes says where so many pods are in one group."""
    way = f"write {rules.keys.way}: nomination"
    if not rules.label_keys:
        what = "this master writes no labels of groups, and a scheduler goes by these alone"
        return Refusal(what, where, f"{way}, or have labels in --controllers")
    what = f"no label of nodes names groups of {pods} pods of {gpus_per_pod} GPUs"
    return Refusal(what, where, f"{way}; `topo tree` shows the groups")


def _unknown_kind(terms: GroupTerms, rules: Rules, places: Mapping[str, str]) -> Refusal | None:
    keys = rules.keys
    if terms.within is not None and rules.tiers and tier_of_kind(rules.tiers, terms.within) is None:
        what = f"{keys.within} is {str(terms.within)!r}, and no group of the tree is one"
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

"""What must hold of a shared cluster at any moment, judged by objects and counts of GPUs alone.

It imports nothing that decides. What a plan is, it reads from the annotation that a master wrote on
a victim's pod, which the hostile tenant cannot write.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.controllers.nomination.objects import WORDS
from tests.tenancy.cluster import (
    GPUS,
    SharedCluster,
    annotations_of,
    is_gated,
    is_live,
    node_of,
    takes,
)
from tests.tenancy.jobs import Document, UserJob

UNSEEN_S = 1.0
"""So long a master may not know of a pod."""
JobKey = tuple[str, str]
AFTER_S = 10.0
"""So long after something happened on a node of a plan the plan may change because of it."""


def note_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """What a master wrote of the place of a pod; empty for nothing."""
    text = annotations_of(pod).get(WORDS.placement)
    return dict(orjson.loads(text)) if text else {}


def plan_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """The place of a pod; empty for none, and for one that was given up."""
    found = note_of(pod)
    return {} if found.get("withdrawn") else found


@dataclass
class Standing:
    """How the pods of a victim's job stand: by uid the node and the hold of their plan.

    `is_settled`: a pod was opened, or each has a plan.
    """

    plans: dict[str, tuple[str, str]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    is_settled: bool = True


def standing(cluster: SharedCluster, key: JobKey, job: UserJob) -> Standing:
    """How a job stands now."""
    found = Standing()
    for pod in cluster.pods_of(key, job):
        uid = pod["metadata"]["uid"]
        if is_gated(pod):
            found.gated.add(uid)
        plan = plan_of(pod)
        if "node" in plan and not node_of(pod):
            found.plans[uid] = (plan["node"], plan["hold"])
    live = {pod["metadata"]["uid"] for pod in cluster.pods_of(key, job) if is_live(pod)}
    found.is_settled = not live <= found.gated or live <= found.plans.keys()
    return found


def flaws(cluster: SharedCluster) -> Iterator[str]:
    """Yield what is wrong with the jobs of the victims."""
    for key, job in cluster.jobs.items():
        pods = [pod for pod in cluster.pods_of(key, job) if is_live(pod)]
        yield from _split(cluster, key, job, pods)
        for pod in pods if job.group_pods and job.is_admitted else ():
            if not is_gated(pod) and "node" not in note_of(pod):
                text = annotations_of(pod).get(WORDS.placement)
                yield f"{key}: {pod['metadata']['name']} was opened without a plan: {text}"


def _split(
    cluster: SharedCluster, key: JobKey, job: UserJob, pods: Iterable[Document]
) -> Iterator[str]:
    """Yield the groups of a job whose pods run in several of the smallest groups."""
    bound = [pod for pod in pods if node_of(pod)]
    if not job.group_pods or not job.is_required:
        return
    if job.is_elastic:
        homes = Counter(cluster.shape.homes[node_of(pod)] for pod in bound)
        if len(bound) == len(job.pods) and any(n % job.group_pods for n in homes.values()):
            yield f"{key}: its pods run in {dict(homes)}, in groups of {job.group_pods}"
        return
    found: dict[int, set[str]] = {}
    for pod in bound:
        _, rank = cluster.ranks[pod["metadata"]["uid"]]
        home = cluster.shape.homes[node_of(pod)]
        found.setdefault(rank // job.group_pods, set()).add(home)
    for group, at in found.items():
        if len(at) > 1:
            yield f"{key}: group {group} is split over {sorted(at)}"


def lost_places(
    cluster: SharedCluster, key: JobKey, before: Standing, now: Standing
) -> Iterator[str]:
    """Yield the pods of a job that lost their place although nothing happened on its nodes.

    A leader may die between the notes of two pods. Where nothing is opened the next one places all
    of them again (`restore_record`), so that a plan of a part of them is no place yet.
    """
    if not before.is_settled:
        return
    happened = [cluster.touched_s.get(node, -AFTER_S) for node, _ in before.plans.values()]
    happened.append(cluster.disturbed_s[key])
    if cluster.clock() - max(happened) < AFTER_S:
        return
    there = {pod["metadata"]["uid"]: pod for pod in cluster.pods()}
    if not before.plans.keys() <= there.keys():
        return  # pods of its own went: the rest may be planned again
    for uid, (node, hold) in before.plans.items():
        pod = there[uid]
        if takes(pod) or not is_live(pod):
            continue
        if now.plans.get(uid) != (node, hold):
            name = pod["metadata"]["name"]
            yield f"{key}: {name} had {node} by {hold}, and now {now.plans.get(uid)}"


def owner_of(pod: Mapping[str, Any]) -> str:
    """The name under which what a pod takes is counted."""
    namespace, name, uid = (pod["metadata"][each] for each in ("namespace", "name", "uid"))
    return f"pod/{namespace}/{name}/{uid}"


Booked = Mapping[str, Mapping[str, int]]
"""The GPUs of each node by who has them: the name of a pod, or of a hold."""


@dataclass
class Ledger:
    """Compares what a master has booked with the pods there are.

    `rightful`: holds, and places of pods, that were there when their node had room for them, or
    when no master could know that it had none any more. Pods that come later may take it: no API
    server asks a master.
    """

    rightful: set[tuple[str, str]] = field(default_factory=set)

    def look(self, cluster: SharedCluster, booked: Booked) -> None:
        """Note what has room now."""
        there, used = {owner_of(pod): pod for pod in cluster.pods()}, cluster.used()
        held = _held(there, booked)
        for node, owners in held.items():
            has_room = used[node] + sum(owners.values()) <= GPUS
            came_s = cluster.touched_s.get(node, -UNSEEN_S)
            if has_room or cluster.clock() - came_s < UNSEEN_S:
                self.rightful |= {(owner, node) for owner in owners}

    def flaws(self, cluster: SharedCluster, booked: Booked) -> Iterator[str]:
        """Yield nodes whose GPUs are not used, held, free and closed together.

        A node of which a master cannot know yet is left out.
        """
        there, used = {owner_of(pod): pod for pod in cluster.pods()}, cluster.used()
        counted: Counter[str] = Counter()
        unseen = {
            node
            for node, touched_s in cluster.touched_s.items()
            if cluster.clock() - touched_s < UNSEEN_S
        }
        for owner, nodes in booked.items():
            pod = there.get(owner)
            if owner.startswith("pod/") and pod is None and not unseen.intersection(nodes):
                yield f"{owner} is gone and has {dict(nodes)}"
            if pod is not None and takes(pod):
                counted.update(nodes)
                if {*nodes} != {node_of(pod)} and node_of(pod) not in unseen:
                    yield f"{owner} is counted on {dict(nodes)} and runs on {node_of(pod)}"
        held = _held(there, booked)
        for node in cluster.shape.homes.keys() - unseen:
            if counted[node] != used[node]:
                yield f"{node}: {used[node]} GPUs are used and {counted[node]} counted"
            owners = held.get(node, {})
            is_rightful = all((owner, node) in self.rightful for owner in owners)
            if used[node] + sum(owners.values()) > GPUS and not is_rightful:
                yield f"{node}: {used[node]} GPUs used and {owners} held of {GPUS}"


def _held(there: Mapping[str, Document], booked: Booked) -> dict[str, dict[str, int]]:
    """What is kept of each node for pods that do not run there, by who has it."""
    found: dict[str, dict[str, int]] = {}
    for owner, nodes in booked.items():
        if owner not in there or not takes(there[owner]):
            for node, gpus in nodes.items():
                found.setdefault(node, {})[owner] = gpus
    return found


def fits(cluster: SharedCluster, job: UserJob, taken: Mapping[str, int]) -> bool:
    """Whether a job of like pods has room beside what is taken: an exact count of its groups."""
    size, pods = job.group_pods, len(job.pods)
    room: Counter[str] = Counter()
    for node, home in cluster.shape.homes.items():
        if cluster.is_open(node):
            room[home] += max(0, GPUS - taken.get(node, 0)) // job.gpus
    if not size or not job.is_required:
        return sum(room.values()) >= pods
    whole, tail = divmod(pods, size)
    most = sum(slots // size for slots in room.values())
    if not tail:
        return most >= whole
    return any(
        slots >= tail and most - slots // size + (slots - tail) // size >= whole
        for slots in room.values()
    )


def first_delayed(cluster: SharedCluster, taken: Mapping[str, int]) -> str:
    """Say which job, the first of those that wait, has room beside what is taken; empty for none.

    Whether one of unlike pods, or the rest of one that runs in part, has room is more than a count
    of GPUs, and is not judged.
    """
    waiting = [
        (min(pod["metadata"]["creationTimestamp"] for pod in pods), key)
        for key, job in cluster.jobs.items()
        if (pods := [*cluster.pods_of(key, job)]) and not all(map(takes, pods))
    ]
    if not waiting:
        return ""
    _, key = min(waiting)
    job = cluster.jobs[key]
    is_unlike = any("nodeSelector" in pod["spec"] for _, pod in job.pods.values())
    has_begun = any(map(takes, cluster.pods_of(key, job)))
    if is_unlike or has_begun or not fits(cluster, job, taken):
        return ""
    return f"{key} has room and does not run"

"""Who has which GPUs and which jobs would fit, counted from the API server and `/node_group` alone.

It shares no line with the product's own counting.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from aiohttp import ClientSession

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.asking import rank_of
from tests.e2e.scheduling.hostile import AT_NODE
from tests.e2e.scheduling.jobs import GPU, NODES, WORDS, owner_of
from tests.support.waiting import eventually


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """A job of pods of `gpus` GPUs in groups of `size` GPUs, which are required whole or not."""

    name: str
    pods: int
    gpus: int
    size: int
    required: bool
    is_high: bool

    @property
    def group_pods(self) -> int:
        """Pods of a whole group."""
        return self.size // self.gpus


@dataclass(frozen=True, slots=True)
class Free:
    """GPUs that nobody has or is to have, by node; and the nodes of each group, by its kind."""

    gpus: Mapping[str, int]
    domains: Mapping[str, Sequence[Sequence[str]]]

    def fits(self, wish: Wish) -> bool:
        """Whether the job would fit now: whole groups in domains, or pods anywhere."""
        if not wish.required:
            return self._slots(self.gpus, wish) >= wish.pods
        k = wish.group_pods
        whole, tail = divmod(wish.pods, k)
        slots = [self._slots(nodes, wish) for nodes in self.domains[_kind(wish)]]
        groups = sum(each // k for each in slots)
        if not tail:
            return groups >= whole
        return any(
            groups - each // k + (each - tail) // k >= whole for each in slots if each >= tail
        )

    def _slots(self, nodes: Iterable[str], wish: Wish) -> int:
        return sum(self.gpus[node] // wish.gpus for node in nodes)


@dataclass(frozen=True, slots=True)
class Ground:
    """The GPUs of each node, and the nodes of each group by its kind: neither changes."""

    room: Mapping[str, int]
    domains: Mapping[str, Sequence[Sequence[str]]]


class Strangers(Protocol):
    """A tenant whose pods name jobs of others, and have notes that no master wrote."""

    @property
    def namespace(self) -> str:
        """Where its pods are: they are of no job of others, whatever they say."""

    @property
    def forgeries(self) -> Collection[str]:
        """The notes that it wrote: they count for nothing."""


@dataclass(frozen=True, slots=True)
class Recount:
    """All pods that ask for GPUs, at one time."""

    pods: Sequence[Any]
    ground: Ground
    strangers: Strangers | None = None

    def owner_of(self, pod: Any) -> str:
        """The name of the job that a pod is of; empty for a stranger's."""
        return "" if self._is_strange(pod) else owner_of(pod)

    def seized(self) -> set[str]:
        """Nodes that pods of strangers named themselves, however full they were."""
        names = (pod["metadata"]["name"] for pod in self.pods)
        found = zip(self.pods, names, strict=True)
        return {
            pod["spec"].get("nodeName", "")
            for pod, name in found
            if self._is_strange(pod) and name.startswith(AT_NODE)
        }

    def unplanned(self, jobs: Collection[str]) -> list[str]:
        """Pods of these jobs whose gates were opened without a plan; O(pods)."""
        return [
            pod["metadata"]["name"]
            for pod in self.pods
            if self.owner_of(pod) in jobs and "unplanned" in _note(pod)
        ]

    def planned(self) -> list[str]:
        """Nodes of pods that have a plan and are not bound yet, each once, in the pods' order."""
        found = (self._place(pod) for pod in self.pods if not pod["spec"].get("nodeName"))
        return [node for node in dict.fromkeys(found) if node]

    def overbooked(self) -> dict[str, int]:
        """Nodes on which bound pods take more GPUs than there are."""
        used = self._used(lambda pod: pod["spec"].get("nodeName", ""))
        room = self.ground.room
        return {node: gpus for node, gpus in used.items() if node in room and gpus > room[node]}

    def free(self, job: str) -> Free:
        """What is left for a job beside pods that are bound, and others that have a place."""

        def where(pod: Any) -> str:
            own = self.owner_of(pod) == job
            return str(pod["spec"].get("nodeName", "")) if own else self._place(pod)

        used = self._used(where)
        gpus = {node: max(0, room - used[node]) for node, room in self.ground.room.items()}
        return Free(gpus, self.ground.domains)

    def places(self) -> dict[str, str]:
        """Where each pod is or shall be, by uid."""
        return {pod["metadata"]["uid"]: self._place(pod) for pod in self.pods}

    def bound(self, jobs: Collection[str]) -> dict[str, list[str]]:
        """The nodes of the pods that are bound, by rank, of each of these jobs; O(pods).

        A pod that ends is none of them: the one that replaces it may be elsewhere.
        """
        own: dict[str, list[Any]] = {job: [] for job in jobs}
        for pod in self.pods:
            if "deletionTimestamp" in pod["metadata"] or not pod["spec"].get("nodeName"):
                continue
            if (job := self.owner_of(pod)) in own:
                own[job].append(pod)
        return {
            job: [pod["spec"]["nodeName"] for pod in sorted(pods, key=rank_of)]
            for job, pods in own.items()
        }

    def gated(self, jobs: Collection[str]) -> Counter[str]:
        """How many pods of each of these jobs wait behind a gate; O(pods)."""
        gated = (self.owner_of(pod) for pod in self.pods if pod["spec"].get("schedulingGates"))
        return Counter(job for job in gated if job in jobs)

    def split(self, wish: Wish, nodes: Sequence[str]) -> list[int]:
        """The groups of a job that lie in several domains."""
        home = {
            node: at for at, each in enumerate(self.ground.domains[_kind(wish)]) for node in each
        }
        k = wish.group_pods
        groups = [nodes[at : at + k] for at in range(0, len(nodes), k)]
        return [at for at, group in enumerate(groups) if len({home[each] for each in group}) > 1]

    def _place(self, pod: Any) -> str:
        note = {} if self._is_forged(pod) else _note(pod)
        return str(pod["spec"].get("nodeName") or note.get("node", ""))

    def _is_strange(self, pod: Any) -> bool:
        strangers = self.strangers
        return strangers is not None and pod["metadata"]["namespace"] == strangers.namespace

    def _is_forged(self, pod: Any) -> bool:
        if self.strangers is None or not self._is_strange(pod):
            return False
        text = pod["metadata"].get("annotations", {}).get(WORDS.placement, "")
        return text in self.strangers.forgeries

    def _used(self, where: Callable[[Any], str]) -> Counter[str]:
        used: Counter[str] = Counter()
        for pod in self.pods:
            if node := where(pod):
                used[node] += _gpus(pod)
        return used


async def ground(api: Api, url: str) -> Ground:
    """What two servers say of the nodes, once one of them knows their groups."""
    nodes = await api.items(NODES)
    room = {node["metadata"]["name"]: int(node["status"]["allocatable"][GPU]) for node in nodes}
    domains: dict[str, list[list[str]]] = {}

    async def are_known() -> bool:
        async with ClientSession() as session, session.get(f"{url}/node_group") as answer:
            tree = await answer.json(content_type=None) if answer.ok else ()
        for root in tree or ():
            _collect(root, domains)
        return bool(domains)

    await eventually(are_known)
    return Ground(room, domains)


async def recounted(api: Api, on: Ground, strangers: Strangers | None = None) -> Recount:
    """What the API server says now."""
    pods = await api.items("/api/v1/pods")
    return Recount([pod for pod in pods if _gpus(pod) and not _is_over(pod)], on, strangers)


def _collect(group: Any, into: dict[str, list[list[str]]]) -> list[str]:
    if group["kind"] == "node":
        return [group["name"]]
    nodes = [node for child in group.get("child", ()) for node in _collect(child, into)]
    into.setdefault(group["kind"], []).append(nodes)
    return nodes


def _kind(wish: Wish) -> str:
    """The smallest kind of group that holds so many GPUs."""
    return "dragonfly" if wish.size <= 16 else "switchbox"


def _note(pod: Any) -> Mapping[str, Any]:
    text = pod["metadata"].get("annotations", {}).get(WORDS.placement, "{}")
    found: Mapping[str, Any] = json.loads(text)
    return found


def _gpus(pod: Any) -> int:
    return sum(
        int(each.get("resources", {}).get("limits", {}).get(GPU, 0))
        for each in pod["spec"]["containers"]
    )


def _is_over(pod: Any) -> bool:
    return pod["status"].get("phase") in {"Succeeded", "Failed"}

"""A tenant that does at random what harms others, if anything that a pod or job says can.

It knows all pods of others, which a real tenant would have to guess: whatever it copies, mutates or
invents may change nothing for them but by the GPUs that its pods take, and these are few: at most
`most` pods of 8 GPUs could be bound at a time, of which two name their node themselves.
"""

import asyncio
import copy
import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from aiohttp import ClientError

from tests.e2e.controlplane.client import ApiError
from tests.e2e.scheduling.jobs import GPU, WORDS
from tests.e2e.scheduling.tenant import (
    FINALIZER,
    NOWHERE,
    Tenant,
    claim,
    copied,
    note,
    reference,
    stamped,
)
from topo.gangs.machine.gang import gang_of, gang_of_owner

AT_NODE = "at-node-"
"""How the name of a pod begins that names its node itself, however full that is."""
_ACTS = (20, 60)
"""While a burst of jobs arrives."""
_MOST_PODS, _MOST_JOBS, _MOST_AT_NODES = 32, 6, 2
_PAUSE_S = 0.1
_COPIES = 0.5
_NUMBERS = ("0", "1", "2", "3", "8", "-1", "10000", "900000", "99999999999", "x", "", "1.5", "٣")
_WORDS = ("true", "false", "one-by-one", "required", "preferred", "nomination", "native", "x" * 300)
_INDEX = "batch.kubernetes.io/job-completion-index"
_SCHEDULERS = ("default-scheduler", "volcano", "nobody")
_KINDS = (
    "job",
    "jobset",
    "deployment",
    "pods",
    "raycluster",
    "statefulset",
    "leaderworkerset",
    "x",
)
_OWNERS = (
    ("batch/v1", "Job"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("apps/v1", "ReplicaSet"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("kubeflow.org/v1", "PyTorchJob"),
    ("v1", "Pod"),
)


class Hostile:
    """Acts of a tenant at random; all are its account's own.

    `nodes` are all of the cluster, `most` the pods that could be bound at a time.
    """

    def __init__(self, tenant: Tenant, nodes: Sequence[str], *, most: int, seed: int = 1) -> None:
        self.tenant, self._nodes, self._most = tenant, nodes, most
        self._rng = random.Random(seed)  # noqa: S311 - the same acts each time
        self.forgeries: set[str] = set()
        """Notes that it wrote: no master did."""
        self._numbers = itertools.count(1)
        self._acts: Counter[str] = Counter()

    @property
    def namespace(self) -> str:
        """Where all that it makes is."""
        return self.tenant.namespace

    def __str__(self) -> str:
        return f"a tenant did {dict(self._acts)}"

    async def rage(self, others: Sequence[Any]) -> None:
        """Some acts beside these pods of others."""
        for _ in range(self._rng.randint(*_ACTS)):
            acts = (self._make, self._make, self._make, self._patch, self._patch, self._end)
            act = self._rng.choice((*acts, self._make_job, self._change_job))
            try:
                await act(others)
            except ApiError as error:
                self._acts[f"refused {error.status}"] += 1
            except (ClientError, TimeoutError):
                self._acts["unanswered"] += 1
            else:
                self._acts[act.__name__.strip("_")] += 1
            await asyncio.sleep(self._rng.uniform(0.0, _PAUSE_S))

    async def calm(self) -> None:
        """Its late gangs end, whose kept places no pod shows to a judge; all else stays."""
        for pod in await self._pods():
            if WORDS.is_late in pod["metadata"].get("annotations", {}):
                await self._take_away(pod)

    # Acts

    async def _make(self, others: Sequence[Any]) -> None:
        pods = await self._pods()
        if len(pods) >= _MOST_PODS:
            await self._take_away(self._rng.choice(pods))
        made = self._invent(others, await self.tenant.api.items(self.tenant.jobs))
        for _ in range(self._rng.randint(0, 3)):
            self._rng.choice(self._twists)(made, others)
        self._limit(made, pods)
        self._remember(made)
        await self.tenant.pod(made)

    async def _patch(self, others: Sequence[Any]) -> None:
        pods = await self._pods()
        if not pods:
            return
        pod = self._rng.choice(pods)
        made = self._invent(others, ())
        for _ in range(2):
            self._rng.choice(self._twists)(made, others)
        self._remember(made)
        metadata = made["metadata"]
        patches: Sequence[Mapping[str, Any]] = (
            {"metadata": {"annotations": metadata["annotations"]}},
            {"metadata": {"labels": metadata["labels"]}},
            {"metadata": {"ownerReferences": metadata["ownerReferences"]}},
            {"metadata": {"annotations": {self._rng.choice(WORDS.of_stamp): None}}},
            {"metadata": {"annotations": {WORDS.placement: None, WORDS.rank: None}}},
            {"spec": {"schedulingGates": None}},
            {"spec": {"nodeSelector": {f"gang.metax-tech.com/{self._gang(made)}": "by-hand"}}},
        )
        await self.tenant.api.merge(self._path(pod), self._rng.choice(patches))

    async def _end(self, _others: Sequence[Any]) -> None:
        pods = await self._pods()
        if pods:
            await self._take_away(self._rng.choice(pods))

    async def _make_job(self, others: Sequence[Any]) -> None:
        """Of the name of somebody's, or its own; no node has what its pods select."""
        jobs = await self.tenant.api.items(self.tenant.jobs)
        if len(jobs) >= _MOST_JOBS:
            await self.tenant.api.delete(self._path(self._rng.choice(jobs), self.tenant.jobs))
        made = self._invent(others, ())
        for _ in range(self._rng.randint(0, 2)):
            self._rng.choice((self._mark, self._stamp, self._lie))(made, others)
        self._remember(made)
        names = [each["name"] for pod in others for each in pod["metadata"]["ownerReferences"]]
        pods = self._rng.randint(1, 3)
        metadata = {key: made["metadata"][key] for key in ("annotations", "labels")}
        for key in [key for key in metadata["labels"] if "batch.kubernetes" in key]:
            del metadata["labels"][key]  # the API server takes no Job with these
        pod = {
            "containers": made["spec"]["containers"],
            "nodeSelector": NOWHERE,
            "restartPolicy": "Never",
            "schedulerName": self._rng.choice(_SCHEDULERS),
        }
        spec = {
            "completions": pods,
            "parallelism": self._rng.randint(1, pods),
            "backoffLimit": 0,
            "completionMode": "Indexed",
            "suspend": self._rng.random() < 0.2,
            **({"managedBy": "example.com/nobody"} if self._rng.random() < 0.5 else {}),
            "template": {"metadata": metadata, "spec": pod},
        }
        own = f"own-{next(self._numbers)}"
        name = self._rng.choice(names) if names and self._rng.random() < 0.5 else own
        annotations = made["metadata"]["annotations"]
        body = {"metadata": {"name": name, "annotations": annotations}, "spec": spec}
        await self.tenant.api.create(self.tenant.jobs, body)

    async def _change_job(self, _others: Sequence[Any]) -> None:
        jobs = await self.tenant.api.items(self.tenant.jobs)
        if not jobs:
            return
        path = self._path(self._rng.choice(jobs), self.tenant.jobs)
        patches: Sequence[Mapping[str, Any]] = (
            {"spec": {"suspend": self._rng.random() < 0.5}},
            {"spec": {"completions": 2, "parallelism": 2}},
            {"metadata": {"annotations": {self._word(): self._rng.choice(_NUMBERS)}}},
        )
        if self._rng.random() < 0.5:
            await self.tenant.api.delete(path)
        else:
            await self.tenant.api.merge(path, self._rng.choice(patches))

    # What it says

    def _invent(self, others: Sequence[Any], jobs: Sequence[Any]) -> dict[str, Any]:
        """A pod that has all that one of somebody's has, or one with an owner of its own."""
        rng = self._rng
        if others and rng.random() < _COPIES:
            made = copied(rng.choice(others))
        else:
            owner = None
            if jobs and rng.random() < 0.7:
                found = rng.choice(jobs)["metadata"]
                owner = reference("batch/v1", "Job", found["name"], found["uid"])
            pods = rng.choice((1, 2, 2, 4, 8))
            stamps = stamped(rng.choice((8, 16, 64)), pods, rng.choice((1, 2, 8)))
            made = claim(owner, rng.randrange(pods), stamps)
            if owner is None:
                made["metadata"]["annotations"][WORDS.gang_name] = f"own-{rng.randint(1, 3)}"
        if rng.random() < 0.3:
            kept = made["spec"]["nodeSelector"].items() - NOWHERE.items()
            made["spec"]["nodeSelector"] = dict(kept)
        return made

    @property
    def _twists(self) -> Sequence[Callable[[dict[str, Any], Sequence[Any]], None]]:
        return (
            *(self._own, self._stamp, self._mark, self._lie, self._lie, self._stay, self._gate),
            *(self._choose, self._size, self._borrow),
        )

    def _own(self, made: dict[str, Any], others: Sequence[Any]) -> None:
        """An owner that is somebody's, none that there is, none at all, or two."""
        rng, owners = self._rng, list(made["metadata"]["ownerReferences"])
        if others and rng.random() < 0.5:
            owners = copy.deepcopy(rng.choice(others)["metadata"]["ownerReferences"])
        if not owners or rng.random() < 0.3:
            uid = f"{rng.getrandbits(32):08x}-0000-4000-8000-{rng.getrandbits(48):012x}"
            owners.append(reference(*rng.choice(_OWNERS), f"lost-{rng.randint(1, 3)}", uid))
            owners[-1]["controller"] = len(owners) == 1
        mutated = rng.choice(owners)
        if rng.random() < 0.3:
            mutated["apiVersion"], mutated["kind"] = rng.choice(_OWNERS)
        if rng.random() < 0.2:
            mutated["uid"] = mutated["uid"][::-1]
        made["metadata"]["ownerReferences"] = [] if rng.random() < 0.1 else owners

    def _stamp(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        """Sizes, ranks and totals of its own."""
        for _ in range(self._rng.randint(1, 3)):
            made["metadata"]["annotations"][self._word()] = self._rng.choice(_NUMBERS)
        if self._rng.random() < 0.3:
            for kept in (made["metadata"]["annotations"], made["metadata"]["labels"]):
                kept[_INDEX] = self._rng.choice(("0", "1", "7", "900000"))

    def _mark(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        """What the webhook stamps on jobs of other kinds, and their controllers on their pods."""
        rng, annotations, labels = self._rng, *_words_of(made)
        annotations[WORDS.kind] = rng.choice(_KINDS)
        uid = rng.choice([each["uid"] for each in made["metadata"]["ownerReferences"]] or ["x"])
        labels |= rng.choice(
            (
                {"jobset.sigs.k8s.io/jobset-uid": uid, "jobset.sigs.k8s.io/jobset-name": "own"},
                {"leaderworkerset.sigs.k8s.io/name": "own", "pod-template-hash": "5d8f"},
                {"kueue.x-k8s.io/pod-group-name": "own", "kueue.x-k8s.io/queue-name": "own"},
                {"volcano.sh/job-name": "own", "volcano.sh/task-index": "7"},
                {WORDS.group: "900000"},
            )
        )
        if rng.random() < 0.3:
            annotations[WORDS.is_late] = rng.choice(("true", "one-by-one"))
            annotations[WORDS.pods] = rng.choice(("8", "64"))

    def _lie(self, made: dict[str, Any], others: Sequence[Any]) -> None:
        """A note that no master wrote for this pod."""
        rng, annotations = self._rng, made["metadata"]["annotations"]
        notes = [text for pod in others if (text := _note_of(pod))]
        whose = self._gang(made)
        if notes and rng.random() < 0.4:
            whose = json.loads(rng.choice(notes)).get("gang", whose)
        hold = json.loads(rng.choice(notes)).get("hold", "x") if notes else "by-hand"
        node = rng.choice((*self._nodes, "gone"))
        forged = note(whose, node, rng.choice((0, 0, 0, 1, 7, 900000)), name=hold)[WORDS.placement]
        more = rng.choice(({}, {}, {"over": True}, {"withdrawn": True}, {"inside": "x" * 600}))
        texts = (
            *(json.dumps({**json.loads(forged), **more}), json.dumps({"unplanned": "x"}), "[]"),
            *("{", rng.choice(notes or ["{}"])),
        )
        annotations[WORDS.placement] = rng.choice(texts)

    def _stay(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        made["metadata"]["finalizers"] = [FINALIZER]

    def _gate(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        made["spec"]["schedulingGates"] = [{"name": "example.com/own"}]

    def _choose(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        """A scheduler or a node of its own."""
        rng, spec = self._rng, made["spec"]
        spec["schedulerName"] = rng.choice(_SCHEDULERS)
        if rng.random() < 0.3:
            spec["nodeSelector"] = {"kubernetes.io/hostname": rng.choice((*self._nodes, "gone"))}
        elif rng.random() < 0.2:
            spec["nodeName"] = rng.choice((*self._nodes, "gone"))

    def _size(self, made: dict[str, Any], _others: Sequence[Any]) -> None:
        amount = self._rng.choice(("1", "3", "4", "8"))
        resources = {"requests": {GPU: amount}, "limits": {GPU: amount}}
        made["spec"]["containers"][0]["resources"] = resources

    def _borrow(self, made: dict[str, Any], others: Sequence[Any]) -> None:
        """The hold that the plan of somebody names, and the PodGroup of Kubernetes of somebody."""
        held = [json.loads(text).get("hold") for pod in others if (text := _note_of(pod))]
        made["metadata"]["annotations"][WORDS.hold] = self._rng.choice([*filter(None, held), "x"])
        groups = [group for pod in others if (group := pod["spec"].get("schedulingGroup"))]
        if groups and self._rng.random() < _COPIES:
            made["spec"]["schedulingGroup"] = self._rng.choice(groups)

    def _word(self) -> str:
        return self._rng.choice((*WORDS.of_stamp, *WORDS.asked, WORDS.rank, WORDS.gang_name))

    def _gang(self, made: Mapping[str, Any]) -> str:
        """The id of the gang that a pod says it is of, which anybody can compute."""
        namespace, metadata = self.tenant.namespace, made["metadata"]
        for each in metadata["ownerReferences"]:
            return gang_of_owner(namespace, each["apiVersion"], each["kind"], each["uid"])
        return gang_of("pods", namespace, metadata["annotations"].get(WORDS.gang_name, ""))

    # What it stays within

    def _limit(self, made: dict[str, Any], pods: Sequence[Any]) -> None:
        """Lets a pod be bound only while few others can be."""
        spec = made["spec"]
        taking = [pod for pod in pods if not NOWHERE.items() <= _selector(pod).items()]
        at_nodes = [pod for pod in taking if pod["metadata"]["name"].startswith(AT_NODE)]
        if len(taking) >= self._most or len(at_nodes) >= _MOST_AT_NODES:
            spec.pop("nodeName", None)
        if len(taking) >= self._most:
            spec["nodeSelector"] = {**spec.get("nodeSelector", {}), **NOWHERE}
        if spec.get("nodeName"):
            made["metadata"]["name"] = f"{AT_NODE}{next(self._numbers)}"
            spec["nodeSelector"] = {}
            spec.pop("schedulingGates", None)

    def _remember(self, made: Mapping[str, Any]) -> None:
        if text := made["metadata"]["annotations"].get(WORDS.placement):
            self.forgeries.add(text)

    async def _take_away(self, pod: Any) -> None:
        if pod["metadata"].get("finalizers"):
            await self.tenant.api.merge(self._path(pod), {"metadata": {"finalizers": None}})
        await self.tenant.api.delete(self._path(pod), grace_s=0)

    async def _pods(self) -> list[Any]:
        return await self.tenant.api.items(self.tenant.pods)

    def _path(self, found: Any, collection: str = "") -> str:
        return f"{collection or self.tenant.pods}/{found['metadata']['name']}"


def _words_of(made: dict[str, Any]) -> tuple[dict[str, str], dict[str, str]]:
    return made["metadata"]["annotations"], made["metadata"]["labels"]


def _selector(pod: Any) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["spec"].get("nodeSelector", {})
    return found


def _note_of(pod: Any) -> str:
    return str(pod["metadata"].get("annotations", {}).get(WORDS.placement, ""))

"""A hostile tenant: all that `create`, `patch` and `delete` of pods in one namespace can state.

It reads everybody's objects and holds, as `GET /v1/gangs` and a careless Role let it, and writes
copies, mutations and inventions of them on its own pods.
"""

import copy
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from tests.controllers.nomination.objects import GPU, WORDS, parse
from tests.tenancy.cluster import EVIL, SharedCluster, annotations_of
from tests.tenancy.jobs import KINDS, Document, Wish, admitted_pod
from topo.gangs.annotation_keys import COMPLETION_INDEX, HOSTNAME, POD_GROUP, TASK_INDEX
from topo.gangs.job_kinds import kinds
from topo.gangs.job_kinds.plain_pods import PLAIN_PODS

NUMBERS = ("0", "1", "2", "3", "8", "16", "900000", "999999999", "-1", "x", "", "1e3", "٣")
FINALIZER = "example.com/never"
_OWNERS = (
    ("batch/v1", "Job"),
    ("batch.volcano.sh/v1alpha1", "Job"),
    ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("v1", "Pod"),
    ("evil.example.com/v1", "Job"),
)


@dataclass
class Tenant:
    """Acts in one namespace of a cluster.

    `holds` and `gangs` return the ids of the holds and the gangs that there are. How the id of a
    gang follows from its pods is no secret.
    """

    cluster: SharedCluster
    random: random.Random
    holds: Callable[[], Sequence[str]]
    gangs: Callable[[], Sequence[str]]
    priority: int = 0
    is_tame: bool = False
    """Whether it writes ordinary pods and jobs alone, which take what hostile ones would."""
    log: list[str] = field(default_factory=list)
    _names: int = 0

    def act(self) -> None:
        """One thing that the tenant does."""
        acts: tuple[Callable[[], None], ...] = (
            *(self.create,) * 4,
            *(self.copy,) * 4,
            *(self.gang,) * 3,
            self.honest,
            *(self.change,) * 3,
            self.remove,
            self.free_finalizers,
        )
        self.random.choice((self.ordinary, self.honest) if self.is_tame else acts)()

    def leave(self) -> None:
        """All of its pods are deleted for good."""
        for pod in self.cluster.evil_pods():
            pod["metadata"].pop("finalizers", None)
            self.cluster.delete(pod)

    # What it does

    def create(self) -> None:
        """A pod of inventions."""
        self._put(self._mutated(self._bare()))

    def ordinary(self) -> None:
        """A pod that claims nothing, or the end of one."""
        if self.random.random() < 0.5 and self.cluster.evil_pods():
            return self.remove()
        pod = self._bare()
        if self.random.random() < 0.4:
            pod["spec"]["nodeName"] = self._node()
        return self._put(pod)

    def copy(self) -> None:
        """A pod that is a victim's but for its namespace, with up to four changes."""
        victims = self._victims()
        if not victims:
            return self.create()
        pod = copy.deepcopy(self.random.choice(victims))
        metadata = pod["metadata"]
        for name in ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp"):
            metadata.pop(name, None)
        metadata["namespace"] = EVIL
        pod.pop("status", None)
        if self.random.random() < 0.8:
            pod["spec"].pop("nodeName", None)
        for _ in range(self.random.randrange(5)):
            pod = self._mutated(pod)
        return self._put(pod)

    def gang(self) -> None:
        """Several pods of one owner, with ranks once, twice or three times, and beyond."""
        pods, total = self.random.randint(1, 5), self.random.choice((1, 2, 3, 4, 8))
        base = self._mutated(self._bare()) if self.random.random() < 0.4 else self._bare()
        annotations = base["metadata"]["annotations"]
        size = self.random.choice((1, 2, 2, 4))
        annotations |= {
            WORDS.size: str(8 * size),
            WORDS.pods: str(total),
            WORDS.rank_offset: "0",
            WORDS.pods_per_group: str(size),
        }
        if self.random.random() < 0.3:
            annotations[WORDS.is_late] = self.random.choice(("true", "one-by-one"))
        if self.random.random() < 0.5:
            base["metadata"]["ownerReferences"] = [self._owner()]
        if self.random.random() < 0.7:
            base["spec"]["schedulingGates"] = [{"name": WORDS.gate}]
        at_rank = self.random.choice((0, 1, total - 1, total, 900_000))
        for _ in range(pods):
            rank = self.random.choice((at_rank, at_rank, self.random.randrange(total + 1)))
            made = copy.deepcopy(base)
            made["metadata"]["annotations"] |= {WORDS.rank: str(rank), COMPLETION_INDEX: str(rank)}
            if self.random.random() < 0.35:
                made["metadata"]["annotations"][WORDS.placement] = self._note(made)
            if self.random.random() < 0.1:
                made["spec"]["nodeName"] = self._node()
            made["metadata"]["name"] = self._name()
            self._put(made, by_webhook=False)

    def honest(self) -> None:
        """A job as anybody writes it, through the webhook."""
        self._names += 1
        wish = Wish(
            namespace=EVIL,
            name=f"own-{self._names}",
            pods=self.random.choice((1, 2, 4)),
            group_pods=self.random.choice(self.cluster.shape.group_pods),
        )
        job = KINDS[self.random.choice(("batch", "plain", "deployment"))](wish)
        for _, pod in job.pods.values():
            self._add(admitted_pod(pod))

    def change(self) -> None:
        """Labels and annotations of a pod of its own; the API server lets nothing else change."""
        mine = self.cluster.evil_pods()
        if not mine:
            return
        pod = self.random.choice(mine)
        changed = self._mutated(copy.deepcopy(pod))
        for name in ("labels", "annotations", "finalizers"):
            pod["metadata"][name] = changed["metadata"].get(name) or {}
        if not pod["metadata"]["finalizers"]:
            del pod["metadata"]["finalizers"]
        if self.random.random() < 0.2:
            pod["spec"]["schedulingGates"] = []
        self.log.append(f"change {pod['metadata']['name']}")
        self.cluster.touch(pod)

    def remove(self) -> None:
        """A pod of its own is deleted; one with a finalizer terminates without end."""
        if mine := self.cluster.evil_pods():
            pod = self.random.choice(mine)
            self.log.append(f"delete {pod['metadata']['name']}")
            self.cluster.delete(pod)

    def free_finalizers(self) -> None:
        """The terminating pods are gone at last."""
        for pod in self.cluster.evil_pods():
            if "deletionTimestamp" in pod["metadata"]:
                pod["metadata"].pop("finalizers", None)
                self.cluster.delete(pod)

    # What it writes

    def _bare(self) -> Document:
        gpus = self.random.choice((0, 1, 4, 8, 8, 8, 8))
        container = {"name": "main", "resources": {"limits": {GPU: str(gpus)}}}
        metadata: Document = {"name": self._name(), "namespace": EVIL}
        metadata |= {"labels": {}, "annotations": {}}
        own = {"apiVersion": "batch/v1", "kind": "Job", "name": "own", "uid": "uid-of-own"}
        metadata["ownerReferences"] = [{**own, "controller": True}]
        scheduler = self.random.choice(("default-scheduler", "volcano", "nobody"))
        return {
            "metadata": metadata,
            "spec": {"containers": [container], "schedulerName": scheduler},
        }

    def _mutated(self, pod: Document) -> Document:
        """The pod with one to three more claims."""
        for _ in range(self.random.randint(1, 3)):
            self.random.choice(self._MUTATIONS)(self, pod)
        return pod

    def _set_owner(self, pod: Document) -> None:
        owners = [self._owner() for _ in range(self.random.choice((0, 1, 1, 1, 2)))]
        pod["metadata"]["ownerReferences"] = owners

    def _set_note(self, pod: Document) -> None:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[WORDS.placement] = self._note(pod)

    def _set_hold(self, pod: Document) -> None:
        hold = self.random.choice([*self.holds(), "hold-0", "x" * 64, "", "\u2028"])
        pod["metadata"].setdefault("annotations", {})[WORDS.hold] = hold

    def _set_number(self, pod: Document) -> None:
        keys = (
            *(WORDS.size, WORDS.pods, WORDS.rank_offset, WORDS.pods_per_group, WORDS.rank),
            *(WORDS.pods_of_repeat, WORDS.first_index, WORDS.claimed_gpus),
            *(COMPLETION_INDEX, TASK_INDEX),
        )
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[self.random.choice(keys)] = self.random.choice(NUMBERS)

    def _set_word(self, pod: Document) -> None:
        annotations = pod["metadata"].setdefault("annotations", {})
        jobs = list(self.cluster.jobs) or [("jobs", "none")]
        namespace, name = self.random.choice(jobs)
        uid = self.cluster.jobs[namespace, name].uid if self.cluster.jobs else "none"
        names = (*kinds.names(), PLAIN_PODS.name, "nothing")
        key, values = self.random.choice(
            (
                (WORDS.kind, names),
                (WORDS.gang_name, (name, f"{namespace}/{name}", "")),
                (WORDS.mode, ("required", "preferred", "x")),
                (WORDS.way, ("nomination", "native", "x")),
                (WORDS.within, ("dragonfly", "switchbox", "node", "x")),
                (WORDS.wait, ("0s", "1s", "10m", "x")),
                (WORDS.is_late, ("true", "one-by-one", "x")),
                (WORDS.ungrouped, ("it says so",)),
                (WORDS.by_links, ("true", "enabled")),
                (WORDS.own_domains, ("1x1@", "2x2@rack", "1x8@zone", "x")),
                (WORDS.of_pod_group, (f"{name}-{uid}", name)),
                (WORDS.of_composite, (name,)),
                (WORDS.pod_group, (name,)),
                (WORDS.topology_key, ("zone", "metax-tech.com/switchbox")),
                (POD_GROUP, (f"{name}-{uid}", name)),
                ("kueue.x-k8s.io/workload", (name,)),
                ("autoscaling.x-k8s.io/consume-provisioning-request", (name,)),
                ("autoscaling.x-k8s.io/provisioning-class-name", (WORDS.provisioning_class,)),
            )
        )
        annotations[key] = self.random.choice(values)

    def _set_labels(self, pod: Document) -> None:
        """Labels of another kind of job, a victim's or its own."""
        victims = self._victims()
        labels = pod["metadata"].setdefault("labels", {})
        if victims and self.random.random() < 0.7:
            labels |= self.random.choice(victims)["metadata"].get("labels", {})
        else:
            labels[WORDS.group] = self.random.choice(NUMBERS)

    def _set_selector(self, pod: Document) -> None:
        selector = pod["spec"].setdefault("nodeSelector", {})
        copied = [each["spec"].get("nodeSelector") or {} for each in self._victims()]
        ids = [annotations_of(each).get(WORDS.placement) for each in self._victims()]
        found = [orjson.loads(text) for text in ids if text]
        marks = {
            WORDS.node_label_prefix + str(each["gang"]): str(each["selection"])
            for each in found
            if "gang" in each
        }
        self.random.choice(
            (
                lambda: selector.update(self.random.choice([*copied, {}])),
                lambda: selector.update(marks),
                lambda: selector.update({HOSTNAME: self._node()}),
                lambda: selector.update({"disk": "large"}),
            )
        )()

    def _set_spec(self, pod: Document) -> None:
        spec, draw = pod["spec"], self.random.choice
        changes: tuple[Callable[[], Any], ...] = (
            lambda: spec.update(schedulingGates=[{"name": WORDS.gate}]),
            lambda: spec.update(schedulingGates=[{"name": "example.com/other"}]),
            lambda: spec.update(
                schedulingGates=[{"name": WORDS.gate}, {"name": "example.com/other"}]
            ),
            lambda: spec.update(schedulingGates=[]),
            lambda: spec.update(schedulerName=draw(("default-scheduler", "volcano", "nobody"))),
            lambda: spec.update(nodeName=self._node()),
            lambda: spec.update(schedulingGroup={"podGroupName": draw(("own", "train"))}),
            lambda: spec.update(preemptionPolicy="Never"),
            lambda: spec["containers"][0]["resources"]["limits"].update(
                {GPU: draw(("0", "1", "8", "16", "1k"))}
            ),
        )
        draw(changes)()

    def _set_finalizer(self, pod: Document) -> None:
        pod["metadata"]["finalizers"] = [FINALIZER]

    _MUTATIONS: tuple[Callable[["Tenant", Document], None], ...] = (
        *(_set_owner, _set_owner, _set_note, _set_note, _set_hold, _set_number, _set_number),
        *(_set_word, _set_word, _set_labels, _set_selector, _set_spec, _set_spec, _set_finalizer),
    )

    def _owner(self) -> Document:
        """A reference to a victim's owner, to one of its own, or to nothing that exists."""
        known = [
            owner for pod in self._victims() for owner in pod["metadata"].get("ownerReferences", ())
        ]
        own = {"apiVersion": "batch/v1", "kind": "Job", "name": "own", "uid": "uid-of-own"}
        made = dict(self.random.choice([*known, *known, {**own, "controller": True}]))
        change = self.random.randrange(8)
        if change == 0:
            made["apiVersion"], made["kind"] = self.random.choice(_OWNERS)
        elif change == 1:
            made["uid"] = self.random.choice(("", "00000000-0000-0000-0000-000000000000", "x/y"))
        elif change == 2:
            made["controller"] = False
        elif change == 3:
            made["uid"] = self.random.choice([*self.cluster.ranks, "uid-1"])
        elif change == 4:
            made["name"] = "another"
        return made

    def _note(self, pod: Document) -> str:
        """A note copied from a victim, as a master would write it for itself, or neither."""
        texts = [annotations_of(each).get(WORDS.placement) for each in self._victims()]
        known = [text for text in texts if text]
        change = self.random.randrange(6)
        if change == 0:
            return self.random.choice(('{"unplanned":"x"}', "{}", "null", "x", "[1]"))
        if known and change < 3:
            return self.random.choice(known)
        note: Document = orjson.loads(self.random.choice(known)) if known and change == 3 else {}
        holds = [*self.holds(), "hold-0"]
        made = {
            "gang": self.random.choice([parse(pod).gang_id] * 3 + [*self.gangs(), "x"]),
            "node": self.random.choice([self._node(), "gone"]),
            "hold": self.random.choice(holds),
            "selection": self.random.choice([*holds, "x"]),
            "group": self.random.choice((0, 0, 1, 7, 900_000)),
            "generation": 1,
            "certified": True,
        }
        for name in ("over", "withdrawn"):
            if self.random.random() < 0.1:
                made[name] = True
        return orjson.dumps({**made, **(note if self.random.random() < 0.5 else {})}).decode()

    def _victims(self) -> list[Document]:
        return [pod for pod in self.cluster.pods() if pod["metadata"]["namespace"] != EVIL]

    def _node(self) -> str:
        return self.random.choice(sorted(self.cluster.shape.homes))

    def _name(self) -> str:
        self._names += 1
        return f"e-{self._names}"

    def _put(self, pod: Document, *, by_webhook: bool | None = None) -> None:
        """Creates a pod, with the webhook or while it does not answer, and patches it back."""
        if by_webhook or (by_webhook is None and self.random.random() < 0.5):
            stated = copy.deepcopy(pod["metadata"].get("annotations") or {})
            pod = admitted_pod(pod)
            pod["metadata"].setdefault("annotations", {}).update(stated)
        self._add(pod)

    def _add(self, pod: Document) -> None:
        at = (f"/api/v1/namespaces/{EVIL}/pods", pod["metadata"]["name"])
        if at in self.cluster.api.objects:
            return  # the name is taken
        pod["spec"].setdefault("schedulingGates", [])
        pod["spec"]["priority"] = self.priority
        if pod["spec"].get("nodeName"):
            pod["spec"]["schedulingGates"] = []  # the API server refuses a gated pod with a node
        document = self.cluster.add_pod(pod)
        self.log.append(
            f"create {orjson.dumps({k: document[k] for k in ('metadata', 'spec')}).decode()}"
        )

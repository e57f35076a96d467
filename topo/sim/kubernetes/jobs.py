"""The controllers of a cluster that jobs meet: of Indexed Jobs, of their pods' lives, of leftovers.

A Job gets a pod for each index from 0, each created through the webhooks as by the real controller;
it is complete when all have succeeded. Pods go with their Job. A bound pod runs at once, and
succeeds after `RUN_SECONDS` of its annotations, or when somebody writes so to its status.
Source: kubernetes.io, "Jobs", and `pkg/controller/job` of Kubernetes v1.36.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topo.sim.kubernetes.apiserver.api import Api, Document
from topo.sim.kubernetes.apiserver.resources import JOBS, PODS, ObjectPath
from topo.sim.kubernetes.apiserver.statuses import RefusedError
from topo.sim.kubernetes.apiserver.store import Key, ObjectChange, ObjectStore

RUN_SECONDS = "demo.supernode-topology/run-seconds"
"""Annotation of a pod: it succeeds so long after it began to run."""
COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_MANAGER = "kube-controller-manager"
MAX_EVENTS, MAX_FINISHED_JOBS = 2000, 200
"""A real cluster forgets Events after an hour, and finished Jobs when their owner says so."""
_ENDED = frozenset({"Succeeded", "Failed"})


@dataclass(slots=True)
class JobController:
    """Creates the pods of Jobs, counts them, and deletes those whose Job is gone."""

    api: Api
    _pods: dict[str, dict[Key, Mapping[str, Any]]] = field(default_factory=dict)
    """By the uid of the Job."""
    _jobs: dict[str, Key] = field(default_factory=dict)
    _to_do: dict[str, None] = field(default_factory=dict)

    def observe(self, change: ObjectChange) -> None:
        """Take a change of the store in."""
        key = (change.collection, change.name)
        if change.collection.endswith("/jobs"):
            uid = change.document["metadata"]["uid"]
            if change.what == "DELETED":
                self._jobs.pop(uid, None)
            else:
                self._jobs[uid] = key
            self._to_do[uid] = None
        elif change.collection.endswith("/pods"):
            uid = _job_of(change.document)
            if uid:
                pods = self._pods.setdefault(uid, {})
                if change.what == "DELETED":
                    pods.pop(key, None)
                else:
                    pods[key] = change.document
                self._to_do[uid] = None

    async def step(self) -> bool:
        """Bring the Jobs that changed up to date; return whether one must be tried again."""
        failed = False
        while self._to_do:
            uid = next(iter(self._to_do))
            del self._to_do[uid]
            try:
                await self._reconcile(uid)
            except RefusedError:  # a webhook does not answer: as the real one, try again
                self._to_do[uid] = None
                failed = True
                break
        return failed

    async def _reconcile(self, uid: str) -> None:
        pods = dict(self._pods.get(uid, {}))
        if uid not in self._jobs:
            self._pods.pop(uid, None)
            for key in pods:
                if key in self.api.store.objects:
                    self.api.store.delete(*key)
            return
        collection, name = self._jobs[uid]
        job = self.api.store.find(collection, name).document
        wanted = int(job["spec"].get("completions") or 1)
        there = {_index(pod) for pod in pods.values()}
        missing = [] if _is_complete(job) else [i for i in range(wanted) if i not in there]
        for index in missing:
            await self._create_pod(job, index)
        if uid in self._jobs:  # else it was deleted meanwhile, and its pods are to go
            stored = self.api.store.find(collection, name)
            counted = list(self._pods.get(uid, {}).values())
            _count(stored.document, counted, wanted, self.api.store.now())
            self.api.store.record(collection, name)

    async def _create_pod(self, job: Mapping[str, Any], index: int) -> None:
        metadata, template = job["metadata"], copy.deepcopy(job["spec"]["template"])
        given = template.get("metadata") or {}
        labels = {"batch.kubernetes.io/job-name": metadata["name"], COMPLETION_INDEX: str(index)}
        owner = {
            "apiVersion": JOBS.api_version,
            "kind": JOBS.kind,
            "name": metadata["name"],
            "uid": metadata["uid"],
            "controller": True,
        }
        pod: Document = {
            "metadata": {
                "generateName": f"{metadata['name']}-{index}-",
                "labels": {**(given.get("labels") or {}), **labels},
                "annotations": {
                    **(given.get("annotations") or {}),
                    COMPLETION_INDEX: str(index),
                },
                "ownerReferences": [owner],
            },
            "spec": template.get("spec") or {},
        }
        await self.api.create(ObjectPath(PODS, metadata["namespace"]), pod, _MANAGER, [])


def _job_of(pod: Mapping[str, Any]) -> str:
    """Return the uid of the Job that controls a pod; empty for none."""
    for owner in pod["metadata"].get("ownerReferences", ()):
        if owner.get("controller") and owner["kind"] == JOBS.kind:
            return str(owner["uid"])
    return ""


def _index(pod: Mapping[str, Any]) -> int:
    return int(pod["metadata"]["annotations"][COMPLETION_INDEX])


def _is_complete(job: Mapping[str, Any]) -> bool:
    return any(each["type"] == "Complete" for each in job["status"].get("conditions", ()))


def _count(job: Document, pods: list[Mapping[str, Any]], wanted: int, now: str) -> None:
    """Set the status of a Job from its pods."""
    phases = [pod.get("status", {}).get("phase") for pod in pods]
    succeeded = phases.count("Succeeded")
    status = {
        **job["status"],
        "active": sum(phase not in _ENDED for phase in phases),
        "succeeded": succeeded,
        "ready": phases.count("Running"),
    }
    status.setdefault("startTime", now)
    if succeeded >= wanted and not _is_complete(job):
        done = {"type": "Complete", "status": "True", "lastTransitionTime": now}
        status |= {"completionTime": now, "conditions": [done]}
    job["status"] = status


@dataclass(slots=True)
class Kubelets:
    """All kubelets in one: bound pods run, and end after their time.

    `call_later` calls a function after some seconds.
    """

    store: ObjectStore
    call_later: Callable[[float, Callable[[], None]], object]
    _bound: deque[Key] = field(default_factory=deque)

    def observe(self, change: ObjectChange) -> None:
        """Take a change of the store in."""
        if change.collection.endswith("/pods") and change.what != "DELETED":
            status, node = (
                change.document.get("status", {}),
                change.document["spec"].get("nodeName"),
            )
            if node and status.get("phase") == "Pending":
                self._bound.append((change.collection, change.name))

    def step(self) -> None:
        """Start the pods that were bound."""
        while self._bound:
            key = self._bound.popleft()
            stored = self.store.objects.get(key)
            if stored is None or stored.document["status"].get("phase") != "Pending":
                continue
            now, status = self.store.now(), stored.document["status"]
            ready = {"type": "Ready", "status": "True", "lastTransitionTime": now}
            conditions = [*status.get("conditions", ()), ready]
            stored.document["status"] = {
                **status,
                "phase": "Running",
                "startTime": now,
                "conditions": conditions,
            }
            self.store.record(*key)
            self.watch_end(key, stored.document)

    def watch_end(self, key: Key, pod: Mapping[str, Any]) -> None:
        """Let a running pod succeed after its time, where it has one."""
        metadata = pod["metadata"]
        seconds = metadata.get("annotations", {}).get(RUN_SECONDS, "")
        if seconds.isdecimal():
            self.call_later(float(seconds), lambda: self._end(key, metadata["uid"]))

    def _end(self, key: Key, uid: str) -> None:
        stored = self.store.objects.get(key)
        if stored is not None and stored.document["metadata"]["uid"] == uid:
            stored.document["status"]["phase"] = "Succeeded"
            self.store.record(*key)


@dataclass(slots=True)
class Retention:
    """Deletes the oldest Events and finished Jobs, so that a long run needs no more memory."""

    store: ObjectStore
    _events: deque[Key] = field(default_factory=deque)
    _finished: deque[Key] = field(default_factory=deque)
    _counted: set[str] = field(default_factory=set)

    def observe(self, change: ObjectChange) -> None:
        """Take a change of the store in."""
        key = (change.collection, change.name)
        if change.collection.endswith("/events") and change.what == "ADDED":
            self._events.append(key)
        elif change.collection.endswith("/jobs"):
            uid = change.document["metadata"]["uid"]
            if change.what == "DELETED":
                self._counted.discard(uid)
            elif _is_complete(change.document) and uid not in self._counted:
                self._counted.add(uid)
                self._finished.append(key)

    def step(self) -> None:
        """Delete what is too much."""
        for keys, most in ((self._events, MAX_EVENTS), (self._finished, MAX_FINISHED_JOBS)):
            while len(keys) > most:
                key = keys.popleft()
                if key in self.store.objects:
                    self.store.delete(*key)

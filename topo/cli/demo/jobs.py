"""Jobs of a running demo: submitted to its simulated Kubernetes, listed, ended."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich.console import RenderableType
from rich.text import Text

from topo.cli import worlds
from topo.cli.demo.kubernetes_client import JOBS, PODS, KubernetesClient, kubernetes
from topo.cli.demo_directory import Demo, required_demo
from topo.cli.exit_codes import CliError, Exit, usage
from topo.cli.render.shapes.rows import Column, table
from topo.cli.render.terminal import Glyphs
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.errors import Refusal
from topo.model.ids import natural_key
from topo.placement.job.policy import DOMAIN
from topo.publish.names import is_dns_name
from topo.sim.kubernetes.install import gpu_resource
from topo.sim.kubernetes.jobs import RUN_SECONDS

_JOB_OF_POD = "batch.kubernetes.io/job-name"
_KEYS = AnnotationKeys(DOMAIN)
_PAIR = 2
"""Pods of a group where none is asked for: the vendor's dragonflies have two nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJob:
    """What `topo demo submit` asks for; `gpus` and `group_size` of None follow the demo's nodes.

    `group_size` 0 asks for no groups. `run_s` is how long its pods run, None until they are ended.
    """

    name: str | None
    pods: int
    gpus: int | None = None
    group_size: int | None = None
    mode: str | None = None
    within: str | None = None
    run_s: int | None = None


def submit(asked: AskedJob) -> tuple[str, tuple[str, ...]]:
    """Create the job; return its name and what the admission webhook warns of.

    Raises `CliError`.
    """
    demo = required_demo()
    if asked.name is not None and not is_dns_name(asked.name):
        fix = "use small letters, digits and -, such as train-1"
        raise usage(f"{asked.name!r} is not a name of a job", "NAME", fix)

    async def conversation() -> tuple[str, tuple[str, ...]]:
        async with kubernetes(demo) as client:
            name = asked.name or _free_name(await client.items(JOBS))
            return name, await client.create(JOBS, _manifest(demo, name, asked))

    return asyncio.run(conversation())


def finish(name: str) -> str:
    """End a job: the pods of a running one succeed, one that waits is deleted; say which.

    Raises `CliError`.
    """
    demo = required_demo()

    async def conversation() -> str:
        async with kubernetes(demo) as client:
            jobs = await client.items(JOBS)
            _require(name, jobs)
            pods = [pod for pod in await client.items(PODS) if _job_of(pod) == name]
            return await _end(client, name, pods)

    return asyncio.run(conversation())


def listed() -> list[dict[str, Any]]:
    """Return the jobs in the order of their names, as Kubernetes has them. Raises `CliError`."""
    demo = required_demo()

    async def conversation() -> list[dict[str, Any]]:
        async with kubernetes(demo) as client:
            jobs, pods = await client.items(JOBS), await client.items(PODS)
        jobs.sort(key=lambda job: natural_key(_name(job)))
        return [_row(job, [pod for pod in pods if _job_of(pod) == _name(job)]) for job in jobs]

    return asyncio.run(conversation())


def render(rows: Sequence[Mapping[str, Any]], glyphs: Glyphs) -> RenderableType:
    """Return a line for each job."""
    if not rows:
        return Text("no jobs; `topo demo submit` creates one", style="dim")
    marks = {"running": glyphs.ready, "finished": glyphs.ready, "waits": glyphs.attention}
    columns = ("job", "state", Column("pods", right=True), Column("nodes", prose=True))
    lines = (
        (row["name"], f"{marks[row['state']]} {row['state']}", row["pods"], " ".join(row["nodes"]))
        for row in rows
    )
    return table(*columns, rows=lines)


async def _end(client: KubernetesClient, name: str, pods: Sequence[Mapping[str, Any]]) -> str:
    running = [pod for pod in pods if pod["status"].get("phase") == "Running"]
    if not running:
        await client.delete(f"{JOBS}/{name}")
        return f"{name} is deleted: nothing of it ran"
    for pod in running:
        await client.merge(f"{PODS}/{_name(pod)}/status", {"status": {"phase": "Succeeded"}})
    return f"{name} is over: {len(running)} pods have ended"


def _manifest(demo: Demo, name: str, asked: AskedJob) -> dict[str, Any]:
    """Return the Job as a user writes it: an annotation, an index for each pod, GPUs."""
    hardware = worlds.chosen(demo.world).nodes[0].hardware
    gpus = hardware.gpus if asked.gpus is None else asked.gpus
    size = _PAIR * gpus if asked.group_size is None else asked.group_size
    terms = {
        _KEYS.size: str(size) if size else None,
        _KEYS.mode: asked.mode,
        _KEYS.within: asked.within,
    }
    ends = {} if asked.run_s is None else {RUN_SECONDS: str(asked.run_s)}
    limits = {gpu_resource(hardware): str(gpus)}
    container = {"name": "train", "image": "train", "resources": {"limits": limits}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": name,
            "annotations": {key: text for key, text in terms.items() if text is not None},
        },
        "spec": {
            "completionMode": "Indexed",
            "completions": asked.pods,
            "parallelism": asked.pods,
            "template": {
                "metadata": {"annotations": ends},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        },
    }


def _row(job: Mapping[str, Any], pods: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    wanted = int(job["spec"]["completions"])
    phases = [pod["status"].get("phase") for pod in pods]
    running, ended = phases.count("Running"), phases.count("Succeeded")
    state = "finished" if ended == wanted else "running" if running else "waits"
    nodes = {pod["spec"].get("nodeName", "") for pod in pods} - {""}
    return {
        "name": _name(job),
        "state": state,
        "pods": f"{running + ended} of {wanted}",
        "nodes": sorted(nodes, key=natural_key),
    }


def _require(name: str, jobs: Iterable[Mapping[str, Any]]) -> None:
    names = [_name(job) for job in jobs]
    if name not in names:
        fix = f"there are {', '.join(names)}" if names else "`topo demo submit` creates one"
        raise CliError(Exit.REFUSED, Refusal(f"the demo has no job {name!r}", "JOB", fix))


def _free_name(jobs: Iterable[Mapping[str, Any]]) -> str:
    """Return the first of train-1, train-2, … that no job has."""
    taken = {_name(job) for job in jobs}
    return next(
        name for name in (f"train-{n}" for n in range(1, len(taken) + 2)) if name not in taken
    )


def _name(document: Mapping[str, Any]) -> str:
    return str(document["metadata"]["name"])


def _job_of(pod: Mapping[str, Any]) -> str:
    return str(pod["metadata"].get("labels", {}).get(_JOB_OF_POD, ""))

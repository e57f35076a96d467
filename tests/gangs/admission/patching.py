"""JSON patches applied as RFC 6902 says, and jobs to apply them to."""

import copy
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from topo.gangs.admission.jobs import admit_job
from topo.gangs.admission.outcome import AdmissionOutcome, Rules
from topo.gangs.annotation_keys import AnnotationKeys
from topo.gangs.job_kinds.batch_job import batch_job
from topo.gangs.job_kinds.volcano_job import volcano_job

DOMAIN = "metax-tech.com"
WORDS = AnnotationKeys(DOMAIN)
RULES = Rules(keys=WORDS)
SIZE = f"{DOMAIN}/gpu-group-size"
SAMPLE = (
    Path(__file__).parents[2] / "e2e" / "scheduling" / "vendor" / "sample-volcano-supernode.yaml"
)


def sample() -> dict[str, Any]:
    """The vendor's job, as the manual has it."""
    loaded: dict[str, Any] = yaml.safe_load(SAMPLE.read_text())
    return loaded


def patched(document: Mapping[str, Any], patch: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The document after the patch; any operation that does not fit raises."""
    result: Any = copy.deepcopy(document)
    for operation in patch:
        parts = [
            part.replace("~1", "/").replace("~0", "~") for part in operation["path"].split("/")[1:]
        ]
        at = result
        for part in parts[:-1]:
            at = at[int(part)] if isinstance(at, list) else at[part]
        last = parts[-1]
        assert operation["op"] in ("add", "remove")
        if operation["op"] == "remove":
            del at[last]
        elif isinstance(at, list):
            at.insert(len(at) if last == "-" else int(last), operation["value"])
        else:
            assert isinstance(at, dict)
            at[last] = operation["value"]
    return dict(result)


def admitted(job: Mapping[str, Any], rules: Rules = RULES) -> AdmissionOutcome:
    """What becomes of a job of either kind."""
    read = volcano_job if job["apiVersion"].startswith("batch.volcano.sh/") else batch_job
    return admit_job(job, read(job), rules)


def task(name: str, replicas: int, gpus: object = 8, **annotations: object) -> dict[str, Any]:
    """A task of a Volcano Job; its GPUs are limits only, as the manual writes them."""
    limits = {} if gpus is None else {f"{DOMAIN}/gpu": gpus}
    template: dict[str, Any] = {"spec": {"containers": [{"resources": {"limits": limits}}]}}
    if annotations:
        marked = {f"{DOMAIN}/{key.replace('_', '-')}": value for key, value in annotations.items()}
        template["metadata"] = {"annotations": marked}
    return {"name": name, "replicas": replicas, "template": template}


def volcano(*tasks: Mapping[str, Any], **spec: object) -> dict[str, Any]:
    """A Volcano Job of these tasks."""
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {"tasks": list(tasks), **spec},
    }


def batch(pods: int, gpus: object = 8, size: str | None = "16", **spec: object) -> dict[str, Any]:
    """An Indexed batch Job."""
    made = task("", pods, gpus, **({} if size is None else {"gpu_group_size": size}))
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train"},
        "spec": {
            "completions": pods,
            "parallelism": pods,
            "completionMode": "Indexed",
            "template": made["template"],
            **spec,
        },
    }


def stamps(job: Mapping[str, Any]) -> list[dict[str, str]]:
    """The annotations of each task's template, without the domain."""
    found: list[dict[str, str]] = []
    for each in job["spec"]["tasks"]:
        annotations = each["template"].get("metadata", {}).get("annotations", {})
        found.append({key.removeprefix(f"{DOMAIN}/"): value for key, value in annotations.items()})
    return found

"""The pod templates of a job, read from its JSON object, and the GPUs of one of their pods."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topo.gangs.json_patch import Operation, Path, mapping, scalar_text, sequence, text
from topo.model.errors import Refusal
from topo.model.pod_requests import (
    Container,
    PodRequests,
    Resources,
    requested,
    unreadable,
    whole_gpus,
)

MAX_CONTAINERS = 2000
"""Containers of all templates of an object. A review is judged while others wait: so many take some
30 ms, and a job of a thousand tasks with a side container each has as many."""
MAX_COUNT = (1 << 31) - 1
"""Kubernetes has 32 bits for a number of pods."""


@dataclass(frozen=True, slots=True)
class Wait:
    """The templates, by name, whose pods have to be ready before those of another are created.

    Then places are kept for the later ones. `until_ended`: they even have to have ended, so that
    the pods are no gang; `where` is the field that says so, `fix` how to have them run together.
    `is_one_by_one`: each pod of the template waits for the one before it.
    """

    names: frozenset[str]
    until_ended: bool = field(kw_only=True)
    where: str = field(kw_only=True)
    fix: str = field(kw_only=True)
    is_one_by_one: bool = field(default=False, kw_only=True)

    def refusal(self, late: str, first: str) -> Refusal:
        """Return why pods of template `late`, which wait for the end of `first`, are no gang."""
        what = f"the pods of {late} are made once those of {first} have ended"
        return Refusal(f"{what}, so they never run together", self.where, self.fix)


@dataclass(frozen=True, slots=True, kw_only=True)
class Template:
    """One template of `pods` pods; `path` is where it is in the job, `name` is shown to people.

    `pods_of_repeat`: the pods of one repetition where the template is repeated, else 0.
    `first_index` is the index of its first pod. `flaw` says why its pods can have no groups.
    """

    path: Path
    name: str
    pods: int
    body: Mapping[str, Any]
    pods_of_repeat: int = 0
    first_index: int = 0
    flaw: Refusal | None = None
    waits: Wait | None = None

    @property
    def metadata(self) -> Mapping[str, Any]:
        """The metadata of its pods."""
        return mapping(self.body.get("metadata"))

    @property
    def annotations(self) -> Mapping[str, Any]:
        """The annotations of its pods."""
        return mapping(self.metadata.get("annotations"))

    @property
    def spec(self) -> Mapping[str, Any]:
        """The spec of its pods."""
        return mapping(self.body.get("spec"))

    @property
    def containers(self) -> int:
        """The number of its containers, init containers included."""
        return container_count(self.spec)


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of a job, `times` of them, that each need a domain of their own.

    A domain is the nodes with one value of `label`; empty: these pods need none. `pods` are the
    names of the templates that a part has pods of, and how many, in the order of ranks. By the node
    of its first pod the domain of the others is chosen.
    """

    times: int
    label: str
    pods: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobParts:
    """The parts of a job that concern groups: its templates in the order of ranks.

    `own` says by what other means the user chooses nodes, `flaw` why the job can have no groups.
    `more` are operations besides the stamps. `has_pod_group`: Volcano creates a PodGroup with the
    job's annotations. `single` is the template whose pods kube-scheduler binds one by one, unless
    they are of a PodGroup of Kubernetes. `places` are further annotations of the job, each with its
    path, in which its user may ask for groups. `stamped_kind` is the name of a kind whose pods say
    themselves which gang they are of. `own_domains` are all of its pods by rank, where some need
    domains of their own. `is_complete`: no other object says more of its pods, as a runtime does.
    """

    templates: tuple[Template, ...]
    own: str = ""
    flaw: Refusal | None = None
    more: tuple[Operation, ...] = ()
    has_pod_group: bool = False
    single: Template | None = None
    places: tuple[tuple[Path, Mapping[str, Any]], ...] = ()
    stamped_kind: str = ""
    own_domains: tuple[Parts, ...] = ()
    is_complete: bool = True


def count(value: object) -> int:
    """Return a number of pods; 0 for an invalid value, which the API server refuses itself."""
    if not isinstance(value, int) or isinstance(value, bool):
        return 0
    return value if 0 < value <= MAX_COUNT else 0


def container_count(spec: Mapping[str, Any]) -> int:
    """Return the number of containers of a pod, init containers included; O(1)."""
    return sum(len(sequence(spec.get(name))) for name in ("containers", "initContainers"))


def too_many_containers(containers: int) -> Refusal | None:
    """Return why an object with so many containers is not judged; None if it is."""
    if containers <= MAX_CONTAINERS:
        return None
    what = f"the templates have {containers} containers"
    return Refusal(what, "spec", f"give them at most {MAX_CONTAINERS}")


def field_path(path: Iterable[str | int]) -> str:
    """Return a path in the notation of Kubernetes: `spec.tasks[1].template`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return text.removeprefix(".")


def pod_gpus(
    spec: Mapping[str, Any], resources: Sequence[str], path: Path = ("spec",)
) -> int | Refusal:
    """Return a pod's whole GPUs as the scheduler counts them.

    A refusal for an invalid quantity or for too many containers.
    """
    if (refusal := too_many_containers(container_count(spec))) is not None:
        return refusal
    pod = PodRequests(
        containers=_containers(spec.get("containers")),
        init_containers=_containers(spec.get("initContainers")),
        overhead=_quantities(spec.get("overhead")),
    )
    for asked in unreadable(pod, resources):
        fix = "give a whole number, such as 8"
        return Refusal(f"{asked} is not a number of GPUs", field_path((*path, "containers")), fix)
    _, gpus = whole_gpus(requested(pod, resources), resources)
    return gpus


def _containers(value: object) -> tuple[Container, ...]:
    found = []
    for each in sequence(value):
        if not isinstance(each, dict):
            continue
        stated = mapping(each.get("resources"))
        asked = Resources(
            requests=_quantities(stated.get("requests")), limits=_quantities(stated.get("limits"))
        )
        policy = text(each.get("restartPolicy"))
        found.append(Container(resources=asked, restart_policy=policy))
    return tuple(found)


def _quantities(value: object) -> dict[str, str]:
    """Return the quantities as texts, because a custom resource may hold numbers."""
    stated = value if isinstance(value, dict) else {}
    return {name: scalar_text(number) for name, number in stated.items()}

"""The questions of kube-scheduler to an extender, and the answers, as its versions write them.

Keys are written `Pod`, `NodeNames`, … since Kubernetes 1.19; before, under `apiVersion: v1beta1` of
a Policy, `pod`, `nodenames`, …. Go reads either, so an answer has the case of its question.
Source: k8s.io/kube-scheduler extender/v1, types.go; k8s.io/kubernetes v1.18
pkg/scheduler/apis/extender/v1, the same without tags, and v1.16 pkg/scheduler/api/v1 with tags.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from topo.gangs.extender.verdicts import BEST, NodeVerdict
from topo.gangs.json_patch import mapping, mappings
from topo.model.errors import BadInputError, Refusal

_FIX = "send the ExtenderArgs of kube-scheduler: Pod, and NodeNames (nodeCacheCapable) or Nodes"
MAX_NAMES = 200_000


@dataclass(frozen=True, slots=True)
class Asked:
    """A question about one pod. `nodes` are whole objects by name, empty where only names came.

    `lower`: the keys came in small letters.
    """

    pod: Mapping[str, Any]
    names: Sequence[str]
    nodes: Mapping[str, Mapping[str, Any]]
    lower: bool

    @property
    def key(self) -> tuple[str, str]:
        """The namespace and the name of the pod."""
        metadata = mapping(self.pod.get("metadata"))
        return _text(metadata.get("namespace")) or "default", _text(metadata.get("name"))

    @property
    def uid(self) -> str:
        """The uid of the pod."""
        return _text(mapping(self.pod.get("metadata")).get("uid"))

    @property
    def labels(self) -> dict[str, Mapping[str, str]]:
        """The labels of the nodes that came whole. O(nodes and their labels)."""
        stated = {
            name: mapping(mapping(node.get("metadata")).get("labels")).items()
            for name, node in self.nodes.items()
        }
        return {name: {key: _text(text) for key, text in found} for name, found in stated.items()}

    def names_any(self, resources: Collection[str]) -> bool:
        """Return whether a container of the pod names one of these resources. O(containers)."""
        spec = mapping(self.pod.get("spec"))
        for field in ("containers", "initContainers"):
            found = spec.get(field)
            for container in found if isinstance(found, list) else ():
                stated = mapping(mapping(container).get("resources"))
                for amounts in mappings(stated, "limits", "requests"):
                    if any(name in amounts for name in resources):
                        return True
        return False


def read_asked(content: bytes) -> Asked:
    """Return the question; raises `BadInputError` for a body that is none. O(names)."""
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise BadInputError(Refusal(f"the body is no JSON: {error}", "body", _FIX)) from None
    if not isinstance(document, dict):
        raise BadInputError(Refusal("the body is not an object", "body", _FIX))
    found = {str(key).lower(): value for key, value in document.items()}
    pod = found.get("pod")
    if not isinstance(pod, dict):
        raise BadInputError(Refusal("the question has no pod", "Pod", _FIX))
    nodes = _nodes(found.get("nodes"))
    names = found.get("nodenames")
    if names is None:
        names = list(nodes)
    if not isinstance(names, list) or len(names) > MAX_NAMES or not _are_texts(names):
        what = f"the names of the nodes are no list of at most {MAX_NAMES} names"
        raise BadInputError(Refusal(what, "NodeNames", _FIX))
    return Asked(pod, names, nodes, lower="pod" in document)


def _are_texts(names: list[Any]) -> bool:
    try:
        "".join(names)  # a tenth of the time of looking at the type of each
    except TypeError:
        return False
    return True


def _nodes(found: object) -> dict[str, Mapping[str, Any]]:
    """Return the nodes of a NodeList by name."""
    if found is None:
        return {}
    items = {str(key).lower(): value for key, value in mapping(found).items()}.get("items")
    if items is None:
        return {}
    if not isinstance(items, list):
        raise BadInputError(Refusal("Nodes has no list of items", "Nodes", _FIX))
    named = ((_text(mapping(mapping(each).get("metadata")).get("name")), each) for each in items)
    return {name: each for name, each in named if name}


def _text(found: object) -> str:
    return found if isinstance(found, str) else ""


def filter_answer(asked: Asked, verdict: NodeVerdict) -> bytes:
    """Return an ExtenderFilterResult."""
    failed = "FailedAndUnresolvableNodes" if verdict.is_final else "FailedNodes"
    answer: dict[str, Any] = {
        "Nodes": None,
        "NodeNames": None,
        "FailedNodes": {},
        "Error": verdict.error,
        failed: orjson.Fragment(_reasons(verdict.failed)),
    }
    if not verdict.error:
        if asked.nodes:
            items = [asked.nodes[name] for name in verdict.passed if name in asked.nodes]
            answer["Nodes"] = {"items": items}
        else:
            answer["NodeNames"] = verdict.passed
    return orjson.dumps(_in_case(answer) if asked.lower else answer)


def error_answer(text: str) -> bytes:
    """Return the answer to a body that is no question: the scheduler shows the text."""
    return orjson.dumps({"Nodes": None, "NodeNames": None, "FailedNodes": {}, "Error": text})


def _reasons(failed: Mapping[str, Sequence[str]]) -> bytes:
    """Return a FailedNodesMap: the reason of each of these nodes, which came by their reason."""
    members = []
    for why, names in failed.items():
        end = '":' + orjson.dumps(why).decode()
        if names:
            members.append('"' + f'{end},"'.join(_quotable(names)) + end)
    return f"{{{','.join(members)}}}".encode()


def priorities(asked: Asked, scores: Sequence[int]) -> bytes:
    """Return a HostPriorityList: the score of each of the named nodes, 0 to `BEST`."""
    host, score = ("host", "score") if asked.lower else ("Host", "Score")
    begin = f'{{"{host}":"'
    ends = [f'","{score}":{each}}},{begin}' for each in range(BEST + 1)]
    parts: list[str] = [""] * (2 * len(scores))
    parts[::2], parts[1::2] = _quotable(asked.names), map(ends.__getitem__, scores)
    # What follows the last end is the beginning of a node that does not come.
    return f"[{(begin + ''.join(parts))[: -len(begin) - 1]}]".encode()


def _quotable(names: Sequence[str]) -> Sequence[str]:
    """Return how the names stand between quotes in JSON: nearly always as they are."""
    text = "".join(names)
    if len(orjson.dumps(text)) == len(text) + len('""'):  # nothing was escaped
        return names
    return [orjson.dumps(name)[1:-1].decode() for name in names]


def _in_case(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keys as v1.16 tags them: `nodes`, `nodenames`, `failedNodes`, `error`."""
    tags = {"NodeNames": "nodenames"}
    return {tags.get(key, key[0].lower() + key[1:]): value for key, value in answer.items()}

"""The questions of kube-scheduler to an extender, and the answers, as its versions write them.

Keys are written `Pod`, `NodeNames`, … since Kubernetes 1.19; before, under `apiVersion: v1beta1` of
a Policy, `pod`, `nodenames`, …. Go reads either, so an answer has the case of its question.
Source: k8s.io/kube-scheduler extender/v1, types.go; k8s.io/kubernetes v1.18
pkg/scheduler/apis/extender/v1, the same without tags, and v1.16 pkg/scheduler/api/v1 with tags.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from master.extender.cards import Amounts, asked_card, card_refusal
from topo.gangs.extender.verdicts import BEST, NodeVerdict
from topo.gangs.job_kinds.templates import MAX_CONTAINERS
from topo.gangs.json_patch import mapping, mappings, sequence, text
from topo.model.errors import BadInputError, Refusal
from topo.shared_cards.quota import Place
from topo.shared_cards.requests import CardRequest

_FIX = "send the ExtenderArgs of kube-scheduler: Pod, and NodeNames (nodeCacheCapable) or Nodes"
MAX_NAMES = 200_000
MAX_ID_CHARS = 253
"""Of a namespace, a name or a uid. Source: k8s.io/apimachinery, validation `DNS1123Subdomain`."""


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """What decides about the pod of a question, and the nodes that it names; nothing of the body.

    `key` is its namespace and name. `wants_cards`: a container names a resource of cards, so that
    bookings or quotas concern the pod. `card` is what its only container with shared cards asks
    for, `card_refusal` says why no card can ever give a container its amounts. `nodes` are whole
    nodes by name, each as JSON, and `places` what their labels say; empty where only names came.
    `lower`: the keys came in small letters.
    """

    key: tuple[str, str]
    uid: str
    names: Sequence[str]
    lower: bool
    wants_cards: bool = False
    card: CardRequest | None = None
    card_refusal: Refusal | None = None
    nodes: Mapping[str, bytes] = field(default_factory=dict)
    places: Mapping[str, Place] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QuestionReader:
    """Reads questions: which resources are cards, the domain of the vendor's, and the labels of a
    node that say its model of card and its pool.
    """

    cards: frozenset[str]
    domain: str
    labels: tuple[str, str]

    def read(self, content: bytes) -> NodeQuestion:
        """Return the question; raises `BadInputError` for a body that is none. O(its values)."""
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
        nodes, names = _nodes(found.get("nodes")), found.get("nodenames")
        if names is None:
            names = list(nodes)
        if not isinstance(names, list) or len(names) > MAX_NAMES or not _are_texts(names):
            what = f"the names of the nodes are no list of at most {MAX_NAMES} names"
            raise BadInputError(Refusal(what, "NodeNames", _FIX))
        metadata, containers = mapping(pod.get("metadata")), _containers(pod)
        limits = [_amounts(each, "limits") for each in containers]
        ordinary = limits[: len(sequence(mapping(pod.get("spec")).get("containers")))]
        return NodeQuestion(
            key=(_id(metadata.get("namespace")) or "default", _id(metadata.get("name"))),
            uid=_id(metadata.get("uid")),
            names=tuple(names),
            lower="pod" in document,
            wants_cards=self._wants_cards(containers, limits),
            card=asked_card(ordinary, self.domain),
            card_refusal=card_refusal(ordinary, self.domain),
            nodes=_written(nodes),
            places={name: self._place(node) for name, node in nodes.items()},
        )

    def _wants_cards(self, containers: Sequence[object], limits: Sequence[Amounts]) -> bool:
        requests = (_amounts(each, "requests") for each in containers)
        stated = (*limits, *requests)
        return any(name in each for each in stated for name in self.cards)

    def _place(self, node: Mapping[str, Any]) -> Place:
        """Return what the labels of a node say; O(1), however many there are."""
        labels = mapping(mapping(node.get("metadata")).get("labels"))
        model, pool = self.labels
        return text(labels.get(model)), text(labels.get(pool))


def _containers(pod: Mapping[str, Any]) -> Sequence[object]:
    """Return the containers of a pod, init containers last; raises `BadInputError` for too many."""
    spec = mapping(pod.get("spec"))
    found = [sequence(spec.get(name)) for name in ("containers", "initContainers")]
    if (count := sum(map(len, found))) > MAX_CONTAINERS:
        fix = f"give a pod at most {MAX_CONTAINERS}"
        what = f"the pod has {count} containers"
        raise BadInputError(Refusal(what, "Pod.spec.containers", fix))
    return [*found[0], *found[1]]


def _amounts(container: object, name: str) -> Amounts:
    """Return the `limits` or `requests` of a container."""
    (stated,) = mappings(mapping(mapping(container).get("resources")), name)
    return stated


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
    if not isinstance(items, list) or len(items) > MAX_NAMES:
        what = f"Nodes has no list of at most {MAX_NAMES} items"
        raise BadInputError(Refusal(what, "Nodes", _FIX))
    named = ((text(mapping(mapping(each).get("metadata")).get("name")), each) for each in items)
    return {name: each for name, each in named if name}


def _written(nodes: Mapping[str, Mapping[str, Any]]) -> dict[str, bytes]:
    """Return each node as JSON; raises `BadInputError` for one that is nested without end."""
    try:
        return {name: orjson.dumps(node) for name, node in nodes.items()}
    except orjson.JSONEncodeError:
        what = "a node has objects or lists within each other, more than 250 deep"
        raise BadInputError(Refusal(what, "Nodes", _FIX)) from None


def _id(found: object) -> str:
    """Return a text by which an object is known; empty for what can be none."""
    stated = text(found)
    return stated if len(stated) <= MAX_ID_CHARS else ""


def filter_answer(asked: NodeQuestion, verdict: NodeVerdict) -> bytes:
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
            found = map(asked.nodes.get, verdict.passed)
            items = [orjson.Fragment(each) for each in found if each is not None]
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


def priorities(asked: NodeQuestion, scores: Sequence[int]) -> bytes:
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

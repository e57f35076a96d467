"""Node objects as values for discovery and placement."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic import TypeAdapter

from master.kube.objects import NodeObject
from master.sources.kubernetes.device_config import NATIVE, SharingModes
from topo.discovery.label_families import UNLABELLED, LabelSource
from topo.gangs.annotation_keys import AnnotationKeys
from topo.model.cluster import HYBRID, USAGES, ClusterNode, Taint
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.observation import ListedNode
from topo.model.quantity import thousandths, whole
from topo.placement.job.policy import Policy
from topo.shared_cards.families import GPU_MANAGER, Family, by_name, families, renamed_family
from topo.shared_cards.formats import Cards, manager_cards, node_cards

POOLS = (*USAGES, HYBRID)
_ADDRESSES = {"Hostname": "hostname", "InternalIP": "internal_ip"}
"""Types of addresses that are join keys; a node may have several of one."""
_SHOWN_CHARS = 64
_NODE = TypeAdapter(NodeObject)
CONTRADICTED = "contradicted"
"""The pool of a node that names two: no job with a usage fits it."""


def listed_node(
    found: NodeObject,
    labels: LabelSource = UNLABELLED,
    policy: Policy = Policy(),  # noqa: B008  # frozen, safe to share
) -> ListedNode:
    """Return the node for discovery: whether it is Ready, its names, group labels and GPUs."""
    return ListedNode(
        NodeName(found.metadata.name),
        _not_ready(found),
        tuple(_names(found)),
        labels.relevant(found.metadata.labels, found.metadata.annotations),
        whole_gpus(found, policy),
    )


def _not_ready(found: NodeObject) -> str:
    """Return why the node is not Ready; a node without that condition is not Ready either.

    The node controller treats a missing condition as Unknown, and taints the node.
    """
    ready = next((each for each in found.status.conditions if each.type == "Ready"), None)
    if ready is None:
        return "Kubernetes has heard nothing of its kubelet yet"
    if ready.status == "True":
        return ""
    why = f": {ready.reason[:_SHOWN_CHARS]}" if ready.reason.isprintable() and ready.reason else ""
    if ready.status == "False":
        return f"Kubernetes says that it is not Ready{why}"
    return f"Kubernetes hears nothing of its kubelet any more{why}"


def _names(found: NodeObject) -> Iterator[tuple[str, str]]:
    for address in found.status.addresses:
        if address.type in _ADDRESSES and address.address:
            yield _ADDRESSES[address.type], address.address
    if found.spec.provider_id:
        yield "provider_id", found.spec.provider_id
    if uuid := found.status.node_info.system_uuid:
        yield "system_uuid", uuid


def cluster_node(found: NodeObject, policy: Policy, modes: SharingModes) -> ClusterNode:
    """Return the node for placement; a value that cannot be read counts as nothing (`doubts`)."""
    name = NodeName(found.metadata.name)
    allocatable, renamed = found.status.allocatable, _renamed(found, policy)
    taints = tuple(Taint(each.key, each.value, each.effect) for each in found.spec.taints)
    return ClusterNode(
        name=name,
        labels=_labels(found, policy),
        taints=taints,
        unschedulable=found.spec.unschedulable,
        ready=not _not_ready(found),
        allocatable=_whole(found, policy, renamed) if allocatable else None,
        pool=_pool(found, policy),
        shared=_shared(found, policy, modes, renamed),
    )


def shared_cards(found: NodeObject, domain: str) -> Cards | Refusal:
    """Return the shared cards of the node as its device plugin publishes them."""
    stated = node_cards(found.metadata.annotations, domain)
    if isinstance(stated, Refusal) or stated[0]:
        return stated
    manager = by_name(domain)[GPU_MANAGER]
    allocatable = found.status.allocatable
    cores = whole(allocatable.get(manager.cores, "0")) or 0
    cards = manager_cards(cores, whole(allocatable.get(manager.memory, "0")) or 0)
    return (GPU_MANAGER, cards) if cards else stated


def with_allocatable(found: NodeObject, more: Mapping[str, str]) -> NodeObject:
    """Return the node with more allocatable resources."""
    status = found.status
    return _NODE.validate_python(
        {
            "metadata": found.metadata,
            "spec": found.spec,
            "status": {
                "allocatable": {**status.allocatable, **more},
                "conditions": status.conditions,
                "addresses": status.addresses,
                "node_info": status.node_info,
            },
        }
    )


def other_amounts(found: NodeObject, policy: Policy) -> dict[str, int]:
    """Return what a node has beside cards, in thousandths of each resource's unit."""
    cards = {*policy.gpu_resources, *policy.shared_resources}
    stated = found.status.allocatable.items()
    read = {name: thousandths(text) for name, text in stated if name not in cards}
    return {name: amount for name, amount in read.items() if amount is not None}


def whole_gpus(found: NodeObject, policy: Policy) -> int:
    """Return the GPUs of the first resource that the node has, 0 without any."""
    return next(
        (number for _, number in _whole(found, policy, _renamed(found, policy)) if number), 0
    )


def _labels(found: NodeObject, policy: Policy) -> tuple[tuple[str, str], ...]:
    """Return the labels by which jobs choose nodes, without those that this master writes for
    gangs.
    """
    gangs = AnnotationKeys(policy.domain).node_label_prefix
    stated = found.metadata.labels.items()
    return tuple(sorted(pair for pair in stated if not pair[0].startswith(gangs)))


def doubts(found: NodeObject, policy: Policy) -> Iterator[str]:
    """Yield a sentence for each statement of the node that cannot be used."""
    name = found.metadata.name
    for resource in (*policy.gpu_resources, *policy.shared_resources):
        quantity = found.status.allocatable.get(resource, "0")
        if whole(quantity) is None:
            shown = quantity[:_SHOWN_CHARS]
            yield f"node {name}: {shown!r} is not a quantity of {resource}, so it counts as none"
    cards = shared_cards(found, policy.domain)
    if isinstance(cards, Refusal):
        yield f"node {name}: its shared cards are not counted: {cards}"
    keys = _pool_words(found, policy)
    if len(keys) > 1:
        said = " and ".join(keys)
        yield f"node {name}: its label and its taint {policy.usage_key} say {said}"
    elif keys and keys[0] not in POOLS:
        shown = keys[0][:_SHOWN_CHARS]
        yield f"node {name}: {policy.usage_key} is {shown!r}, which is none of {', '.join(POOLS)}"


def _amounts(stated: dict[str, str], resources: Sequence[str]) -> tuple[tuple[str, int], ...]:
    return tuple((name, whole(stated[name]) or 0) for name in resources if name in stated)


def _whole(
    found: NodeObject, policy: Policy, renamed: Family | None
) -> tuple[tuple[str, int], ...]:
    """Return the whole GPUs of the node by their resources, each in the order of the policy."""
    stated = _amounts(found.status.allocatable, policy.gpu_resources)
    return tuple((name, 0) for name, _ in stated) if renamed is not None else stated


def _renamed(found: NodeObject, policy: Policy) -> Family | None:
    of_cards = (name for family in families(policy.domain) for name in family.resources)
    amounts = dict(_amounts(found.status.allocatable, (*policy.gpu_resources, *of_cards)))
    return renamed_family(amounts, policy.gpu_resources, policy.domain)


def _shared(
    found: NodeObject, policy: Policy, modes: SharingModes, renamed: Family | None
) -> tuple[tuple[str, int], ...]:
    """Return the shared resources of the node: those it states, and the one of its sharing mode.

    A node that was just put into the mode states none yet, and no whole GPU for long either.
    """
    stated = dict(_amounts(found.status.allocatable, policy.shared_resources))
    there = {name: number for name, number in stated.items() if number}
    if renamed is not None:
        whole_ones = _amounts(found.status.allocatable, policy.gpu_resources)
        there[renamed.number] = next(number for _, number in whole_ones if number)
    if modes.mode_of(found.metadata.name) != NATIVE:
        resource = policy.shared_resources[0]
        there.setdefault(resource, stated.get(resource, 0))
    return tuple(there.items())


def _pool(found: NodeObject, policy: Policy) -> str:
    keys = _pool_words(found, policy)
    return CONTRADICTED if len(keys) > 1 else keys[0] if keys else ""


def _pool_words(found: NodeObject, policy: Policy) -> tuple[str, ...]:
    """Return the usages in the node's label and taints, each once."""
    key = policy.usage_key
    label = found.metadata.labels.get(key, "")
    taints = (taint.value for taint in found.spec.taints if taint.key == key)
    return tuple(dict.fromkeys(word for word in (label, *taints) if word))

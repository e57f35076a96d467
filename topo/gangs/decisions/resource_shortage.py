"""Which resources beside GPUs keep a gang from nodes that have GPUs for it, in words."""

from collections import Counter
from collections.abc import Mapping

from topo.gangs.machine.instructions import Place
from topo.model.ids import NodeName
from topo.model.pod_requests import APART, DEVICE_CLASS, HOST_PORT, PODS
from topo.model.words import counted, listed
from topo.placement.capacity.capacity_view import CapacityView
from topo.placement.capacity.node_room import Tight

_BYTES = frozenset({"memory", "ephemeral-storage"})
_UNITS = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_STEP = 1024


def shortage_in_words(capacity: CapacityView, asked: Place, tight: Mapping[NodeName, Tight]) -> str:
    """Return how many nodes have free GPUs for a pod and lack what else it takes; O(hosts).

    `12 of 16 nodes with free GPUs for a pod lack cpu (it takes 8)`.
    """
    gpus = asked.request.gpus_per_pod
    able = [host for host in capacity.hosts() if capacity.free(host.name) >= gpus]
    short = [tight[host.name] for host in able if host.name in tight]
    counts = Counter(each.resource for each in short if not each.pods)
    few = Counter(each.resource for each in short if each.pods)
    takes = dict(asked.takes)
    parts = [
        f"{number} lack {name_of(resource)} ({_taken(resource, takes[resource])})"
        for resource, number in sorted(counts.items())
    ]
    parts += [
        f"{number} have {name_of(resource)} for fewer pods than GPUs "
        f"({_taken(resource, takes[resource])})"
        for resource, number in sorted(few.items())
    ]
    return f"of {counted(len(able), 'node')} with free GPUs for a pod {listed(parts)}"


def name_of(resource: str) -> str:
    """Return a resource in words."""
    if resource.startswith(DEVICE_CLASS):
        return f"devices of class {resource.removeprefix(DEVICE_CLASS)}"
    return "a place apart" if resource.startswith(APART) else resource


def _taken(resource: str, thousandths: int) -> str:
    if resource == PODS:
        return "a node takes no more"
    if resource.startswith(APART):
        return "its podAntiAffinity keeps it off pods like itself"
    if resource.startswith(HOST_PORT):
        return "another pod has it"
    return f"a pod takes {amount_in_words(resource, thousandths)}"


def amount_in_words(resource: str, thousandths: int) -> str:
    """Return an amount as Kubernetes writes it: `8`, `500m`, `1.5Ti`."""
    if thousandths % 1000:
        return f"{thousandths}m"
    amount = thousandths // 1000
    if resource not in _BYTES and not resource.startswith("hugepages-"):
        return str(amount)
    power = min(len(_UNITS) - 1, (max(1, amount).bit_length() - 1) // 10)
    return f"{amount / _STEP**power:.4g}{_UNITS[power]}"

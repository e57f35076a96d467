"""`superPodDevice` of Ascend's cluster: the nodes of a super pod, and the SDIDs of their NPUs.

    {"SuperPodID": "0", "NodeDeviceMap": {"node-1": {"NodeName": "node-1",
     "DeviceMap": {"0": "62914560", "1": "62980097"}}}}

It is a value in a ConfigMap that is labelled `app=pingmesh` (mind-cluster, its documentation). An
SDID begins with the index of its server (see `spod_info`), so the map proves itself: the SDIDs of a
node are of one server, and those of two nodes of two. O(len(text)).
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from topo.facts.reading.text import WHOLE_TEXT, shorten
from topo.model.errors import Refusal
from topo.model.ids import SUPER_POD, GroupName, NodeName, natural_key
from topo.model.observation import DeclaredForest, DeclaredGroup, DeclaredNode, ParsedProbe

FORMAT = "super-pod-device"
_MARK = re.compile(r'"NodeDeviceMap"\s{0,64}:')
_NUMBER = re.compile(r"[0-9]{1,10}", re.ASCII)
_FIX = "give the whole value of its key superPodDevice (`kubectl get cm … -o jsonpath=…`)"


def recognises(text: str) -> bool:
    """Return whether `text` has the map of nodes. O(len(text))."""
    return _MARK.search(text) is not None


def read(text: str) -> ParsedProbe | Refusal:
    """Return the super pod as a declared group, its nodes in natural order.

    Refused: what is no whole JSON, a node or an NPU twice, SDIDs of other servers.
    """
    try:
        document = json.loads(text, object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        where = f"line {error.lineno}" if isinstance(error, json.JSONDecodeError) else WHOLE_TEXT
        return Refusal(f"this is no whole JSON: {shorten(str(error), 80)}", where, _FIX)
    try:
        pod = _number(document["SuperPodID"])
        servers = dict(_servers(document["NodeDeviceMap"]))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        what = f"this is no superPodDevice: {shorten(str(error), 80)}"
        return Refusal(what, WHOLE_TEXT, _FIX)
    nodes_of = Counter(servers.values())
    twice = [node for node, server in servers.items() if nodes_of[server] > 1]
    if twice or not servers:
        what = f"{' and '.join(twice[:2])} have SDIDs of one server" if twice else "it has no node"
        return Refusal(what, "NodeDeviceMap", _FIX)
    nodes = tuple(DeclaredNode(NodeName(node)) for node in sorted(servers, key=natural_key))
    group = DeclaredGroup(GroupName(f"{SUPER_POD}-{pod}"), SUPER_POD, nodes)
    return ParsedProbe(FORMAT, (DeclaredForest((group,)),))


def _servers(nodes: Mapping[str, Mapping[str, Mapping[str, object]]]) -> Iterator[tuple[str, int]]:
    """Yield each node with the index of its server."""
    seen: set[int] = set()
    for node, entry in nodes.items():
        sdids = [_number(sdid) for sdid in entry["DeviceMap"].values()]
        servers = {sdid >> 22 for sdid in sdids}
        if len(servers) != 1:
            raise ValueError(f"the SDIDs of {node} are of {len(servers)} servers")
        if len(set(sdids)) < len(sdids) or seen & set(sdids):
            raise ValueError(f"an SDID of {node} stands there twice")
        seen.update(sdids)
        yield node, servers.pop()


def _number(value: object) -> int:
    if not isinstance(value, str) or not _NUMBER.fullmatch(value):
        raise ValueError(f"{value!r} is not a number")
    return int(value)


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs of an object; a key that stands there twice is no JSON that we can read."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found

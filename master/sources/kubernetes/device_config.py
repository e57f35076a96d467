"""The vendor's ConfigMap `metax-device-config`: which nodes give whole cards, and which share them.

`cluster-config` is YAML with `mode` for all nodes, `nodes-config` a list of `{nodeName, mode}` for
those that differ; a mode is `native` (whole cards) or `sgpu`. Source: the ConfigMap `device-config`
of the public chart metax-gpu-extensions 0.15.2 (templates/gpudevice_configmap.yaml).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from master.kube.objects import ConfigMapObject
from master.kube.reflector import Reflector, Scope
from topo.facts.declared import documents
from topo.model.errors import BadInputError, Refusal

NATIVE, SGPU = "native", "sgpu"
_CLUSTER, _NODES = "cluster-config", "nodes-config"


@dataclass(frozen=True, slots=True)
class SharingModes:
    """The default mode, and those of nodes that differ."""

    default: str = NATIVE
    nodes: Mapping[str, str] = field(default_factory=dict)

    def mode_of(self, node: str) -> str:
        """Return the mode of a node."""
        return self.nodes.get(node, self.default)


class ModesTaker(Protocol):
    """Receives the modes."""

    def share(self, modes: SharingModes, doubt: str = "") -> None:
        """Set the modes; `doubt` is what is wrong with the ConfigMap."""
        ...


class DeviceConfig:
    """Follows the ConfigMap. A broken one changes nothing and is reported; a missing
    one is empty.
    """

    def __init__(self, config_map: Reflector[ConfigMapObject], taker: ModesTaker) -> None:
        self._config_map, self._taker, self._good = config_map, taker, SharingModes()
        config_map.subscribe(self._told)

    def _told(self, _told: object) -> None:
        found = next(iter(self._config_map.objects.values()), None)
        modes = SharingModes() if found is None else sharing_modes(found)
        if isinstance(modes, Refusal):
            self._taker.share(self._good, f"the ConfigMap of devices is not used: {modes}")
        else:
            self._good = modes
            self._taker.share(modes)


def config_map_scope(namespace: str, name: str) -> Scope[ConfigMapObject]:
    """Return the scope of one ConfigMap: a right to its name suffices to list and watch it."""
    return Scope(namespace=namespace, query={"fieldSelector": f"metadata.name={name}"})


def sharing_modes(found: ConfigMapObject) -> SharingModes | Refusal:
    """Return the modes in the ConfigMap; a key that is absent or empty sets none."""
    try:
        cluster = _read(found, _CLUSTER)
        nodes = _read(found, _NODES)
        default = NATIVE if cluster is None else _mode(_mapping(cluster, _CLUSTER), _CLUSTER)
        modes = dict(_of_nodes(nodes))
    except BadInputError as error:
        return error.refusal
    return SharingModes(default, modes)


def _read(found: ConfigMapObject, key: str) -> Any:
    text = found.data.get(key, "")
    document = documents.load(text) if text.strip() else None
    if isinstance(document, Refusal):
        raise BadInputError(Refusal(document.what, f"{key} {document.where}", document.fix))
    return document


def _of_nodes(document: Any) -> list[tuple[str, str]]:
    if document is None:
        return []
    if not isinstance(document, list):
        raise _bad("it is no list", _NODES)
    return [_of_node(entry, f"{_NODES}[{at}]") for at, entry in enumerate(document)]


def _of_node(entry: Any, where: str) -> tuple[str, str]:
    stated = _mapping(entry, where)
    name = stated.get("nodeName")
    if isinstance(name, documents.NoText):  # a name of digits
        name = name.text
    if not isinstance(name, str) or not name:
        raise _bad("there is no nodeName", where)
    return name, _mode(stated, where)


def _mapping(document: Any, where: str) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise _bad("it is no mapping", where)
    return document


def _mode(stated: Mapping[str, Any], where: str) -> str:
    mode = stated.get("mode", NATIVE)
    if mode not in (NATIVE, SGPU):
        raise _bad(f"{documents.describe(mode)} is not a mode", f"{where}.mode")
    return str(mode)


def _bad(what: str, where: str) -> BadInputError:
    fix = f"write mode: {NATIVE} or mode: {SGPU}, and nodes as a list of nodeName and mode"
    return BadInputError(Refusal(what, where, fix))

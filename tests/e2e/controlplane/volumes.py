"""A pod's volumes as folders: ConfigMaps, Secrets, its token, what it knows of itself."""

import base64
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.controlplane.cluster import token

_Files = Mapping[str, bytes]


async def materialise(api: Api, pod: Any, folder: Path, host: Path) -> None:
    """Writes each volume into `folder/NAME`; folders of the host are found below `host`."""
    for volume in pod["spec"].get("volumes", ()):
        place = folder / volume["name"]
        if "hostPath" in volume:
            on_host = host / volume["hostPath"]["path"].strip("/")
            on_host.mkdir(parents=True, exist_ok=True)
            place.symlink_to(on_host)
            continue
        place.mkdir()
        for path, content in (await _files(api, pod, volume)).items():
            (place / path).parent.mkdir(parents=True, exist_ok=True)
            (place / path).write_bytes(content)


async def _files(api: Api, pod: Any, volume: Any) -> _Files:
    if "projected" in volume:
        files: dict[str, bytes] = {}
        for source in volume["projected"]["sources"]:
            files |= await _files(api, pod, source)
        return files
    for kind, read in _READERS.items():
        if kind in volume:
            found: _Files = await read(api, pod, volume[kind])
            return found
    assert "emptyDir" in volume, f"the kubelet of the tests knows no such volume: {volume}"
    return {}


async def _config_map(api: Api, pod: Any, source: Any) -> _Files:
    found = await api.get(f"{_namespace(pod)}/configmaps/{source['name']}")
    return _chosen({key: text.encode() for key, text in found.get("data", {}).items()}, source)


async def _secret(api: Api, pod: Any, source: Any) -> _Files:
    name = source.get("secretName") or source["name"]
    found = await api.get(f"{_namespace(pod)}/secrets/{name}")
    data = {key: base64.b64decode(text) for key, text in found.get("data", {}).items()}
    return _chosen(data, source)


async def _token(api: Api, pod: Any, source: Any) -> _Files:
    metadata = pod["metadata"]
    bound = {"kind": "Pod", "apiVersion": "v1", "name": metadata["name"], "uid": metadata["uid"]}
    account = pod["spec"]["serviceAccountName"]
    audience = source.get("audience", "")
    issued = await token(api, metadata["namespace"], account, audience=audience, bound_to=bound)
    return {source["path"]: issued.encode()}


async def _downward(_: Api, pod: Any, source: Any) -> _Files:
    return {
        item["path"]: field(pod, item["fieldRef"]["fieldPath"]).encode() for item in source["items"]
    }


_READERS: Mapping[str, Callable[[Api, Any, Any], Any]] = {
    "configMap": _config_map,
    "secret": _secret,
    "serviceAccountToken": _token,
    "downwardAPI": _downward,
}


def field(pod: Any, path: str) -> str:
    """A field of the pod by its path, such as `metadata.name` or `metadata.labels['a']`."""
    if path.endswith("']"):
        path, _, key = path.removesuffix("']").partition("['")
        return str(_at(pod, path).get(key, ""))
    return str(_at(pod, path))


def _at(pod: Any, path: str) -> Any:
    found = pod
    for part in path.split("."):
        found = found[part]
    return found


def _chosen(data: _Files, source: Any) -> _Files:
    items = source.get("items")
    return data if items is None else {item["path"]: data[item["key"]] for item in items}


def _namespace(pod: Any) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}"

"""What the programs of a rendering read of their flags and variables."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from master.settings import MasterSettings
from tests.helm.chart import pod_specs
from topo.kit.settings import ServiceSettings, read
from topo.model.errors import Refusal
from worker.settings import WorkerSettings

SETTINGS: Mapping[str, type[ServiceSettings]] = {
    "topo-master": MasterSettings,
    "topo-worker": WorkerSettings,
}
OUTSIDE = ("--kubeconfig=here",)
"""The tests are no pod, and a master that must work with Kubernetes asks how."""
Read = ServiceSettings | tuple[Refusal, ...]


def settings_of(
    found: list[dict[str, Any]], name: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Read]:
    """As each container of the program itself reads them, with what Kubernetes puts for `$(…)`."""
    for _, spec in pod_specs(found):
        for container in spec["containers"]:
            if container["command"] != [name]:
                continue
            for variable in container.get("env", ()):
                monkeypatch.setenv(variable["name"], variable.get("value", "node-1"))
            argv = [text.replace("$(NODE_IP)", "10.0.0.7") for text in container["args"]]
            argv = argv[1:] if argv[0] == "cleanup" else argv
            yield read(SETTINGS[name], (*argv, *(OUTSIDE if name == "topo-master" else ())))

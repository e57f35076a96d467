"""The commands of docs/install.md that are for Kubernetes, typed in their order."""

import asyncio
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest
import yaml

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster
from tests.e2e.controlplane.kwok import COMPLETE
from tests.helm.chart import NAMESPACE, ROOT, VENDOR, built_helm
from tests.helm.pages import commands
from tests.support.waiting import CEILING_S

PAGE = ROOT / "docs" / "install.md"
HOOKS = {"topo-master-cleanup", "topo-master-answers"}
BACK = "### From the vendor's chart, and back"
NEEDS_A_CONTAINER = " exec "
ARCHIVE = "./k8s/metax-operator-0.13.0.tgz"
_LOOK_S = 0.05


@pytest.fixture
async def completing(api: Api, namespace: str) -> AsyncIterator[None]:
    """Kwok runs no container: the pods of helm's hooks end well, as if theirs had done so."""

    async def end_them() -> None:
        path = f"/api/v1/namespaces/{namespace}/pods"
        while True:
            for pod in await api.items(path):
                if pod["metadata"].get("labels", {}).get("app.kubernetes.io/name") in HOOKS:
                    asked = {"metadata": {"annotations": {COMPLETE: "true"}}}
                    with suppress(ApiError):  # helm may have deleted it meanwhile
                        await api.merge(f"{path}/{pod['metadata']['name']}", asked)
            await asyncio.sleep(_LOOK_S)

    task = asyncio.create_task(end_them())
    yield
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.fixture
def shell(cluster: Cluster, namespace: str, tmp_path: Path) -> "Shell":
    """A terminal in a checkout, with the rights of an administrator of the cluster."""
    for program in ("kubectl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not on this machine")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "helm").symlink_to(built_helm())
    (tmp_path / "helm").symlink_to(ROOT / "helm")
    (tmp_path / "nodegroup.yaml").write_text("group:\n")
    return Shell(cluster.files.kubeconfig, namespace, tmp_path)


class Shell:
    """Runs commands of the page; where it says `metax-operator`, the namespace of this test."""

    def __init__(self, kubeconfig: Path, namespace: str, folder: Path) -> None:
        self._namespace, self._folder = namespace, folder
        kept = {name: text for name, text in os.environ.items() if not name.startswith("HELM_")}
        self._environment = {
            **kept,
            "KUBECONFIG": str(kubeconfig),
            "HOME": str(folder),
            "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        }

    async def type(self, command: str) -> str:
        """What the command printed; it must succeed."""
        placed = re.sub(rf"(-n|--namespace) {NAMESPACE}\b", rf"\1 {self._namespace}", command)
        process = await asyncio.create_subprocess_exec(
            *("bash", "-euo", "pipefail", "-c", placed),
            cwd=self._folder,
            env=self._environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        try:
            out, _ = await asyncio.wait_for(process.communicate(), CEILING_S)
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0, f"{placed}\n{out.decode()}"
        return out.decode()


@pytest.mark.usefixtures("completing")
async def test_installed_changed_and_removed_as_the_page_says(shell: Shell, api: Api) -> None:
    """But for what runs inside a container, which kwok has none of."""
    page = PAGE.read_text().partition("## Without Kubernetes")[0].partition(BACK)[0]
    typed = [each for each in commands(page) if NEEDS_A_CONTAINER not in each]
    ends = [each for each in typed if each.startswith("helm uninstall")]
    assert len(ends) == 1
    for command in [each for each in typed if each not in ends] + ends:
        await shell.type(command)
    assert await api.items("/apis/rbac.authorization.k8s.io/v1/clusterroles", **_OURS) == []


@pytest.mark.usefixtures("completing")
async def test_the_vendors_chart_goes_and_comes_back_as_the_page_says(
    shell: Shell, tmp_path: Path, namespace: str
) -> None:
    """Its stand-in has the vendor's values and the names of its objects, and no program."""
    await shell.type(_stand_in(tmp_path / "metax-operator"))
    vendors = " ".join(f"'{each}'" for each in VENDOR)
    await shell.type(f"helm install metax {ARCHIVE} -n {namespace} {vendors}")
    owner = (
        f"kubectl -n {namespace} get deployment topo-master "
        "-o 'jsonpath={.metadata.annotations.meta\\.helm\\.sh/release-name}'"
    )
    owners = [await shell.type(owner)]
    for command in commands(PAGE.read_text().partition(BACK)[2].partition("\n## ")[0]):
        await shell.type(command)
        if command.startswith(("helm install", "helm upgrade")):
            owners.append(await shell.type(f"{owner} --ignore-not-found"))
    assert owners == ["metax", "", "topo", "metax"]


_OURS = {"labelSelector": "app.kubernetes.io/part-of=supernode-topology"}


def _stand_in(folder: Path) -> str:
    """Writes a chart with the vendor's names; the command that makes the vendor's archive of it."""
    (folder / "templates").mkdir(parents=True)
    chart = {"apiVersion": "v2", "name": "metax-operator", "version": "0.13.0"}
    (folder / "Chart.yaml").write_text(yaml.safe_dump(chart))
    (folder / "values.yaml").write_text(yaml.safe_dump({"topoDiscovery": {"deploy": False}}))
    labels = {"app": "topo-master"}
    container = {"name": "topo-master", "image": "topo-master:0.13.0"}
    pods = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    named = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "topo-master"}}
    made = [
        {**named, "spec": {"selector": {"matchLabels": labels}, "template": pods}},
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "topo-master-config"},
            "data": {"nodegroup": "group:\n"},
        },
    ]
    text = f"{{{{- if .Values.topoDiscovery.deploy }}}}\n{yaml.safe_dump_all(made)}{{{{- end }}}}\n"
    (folder / "templates" / "topo.yaml").write_text(text)
    return f"helm package {folder} --destination k8s"

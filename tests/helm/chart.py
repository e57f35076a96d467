"""The chart of helm/: rendered by the real helm, and the renderings kept in golden/.

`python -m tests.helm.chart` writes the renderings; `make docs` the table of values.
"""

import asyncio
import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any, NamedTuple

import yaml

from tests.e2e.controlplane.programs import HELM3, TOOLS, build, why_not
from topo.kit.process.child_process import die_with_parent_command

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm" / "supernode-topology"
GOLDEN = Path(__file__).parent / "golden"
CASES = Path(__file__).parent / "cases"
NAMESPACE = "metax-operator"
KUBERNETES = "1.37.2"
ON = ("--set", "topoDiscovery.deploy=true")
_HOMES = ("CACHE", "CONFIG", "DATA")


def encoded(value: str) -> str:
    """`echo VALUE | base64`, the end of line inside, as the vendor's manual has users do it."""
    return base64.b64encode(f"{value}\n".encode()).decode()


VENDOR = (
    *("--set", "registry=DOMAIN/PROJECT"),
    *("--set", "topoDiscovery.deploy=true"),
    *("--set", "topoDiscovery.mode=switchbox"),
    *("--set", "topoDiscovery.master.env[0].name=CLIENT_GO_QPS"),
    *("--set-string", "topoDiscovery.master.env[0].value=100"),
    *("--set", "topoDiscovery.master.env[1].name=CLIENT_GO_BRUST"),
    *("--set-string", "topoDiscovery.master.env[1].value=100"),
    *("--set", "topoDiscovery.switchbox.clusterManagerAddress=https://127.0.0.1"),
    *("--set", f"topoDiscovery.switchbox.clusterManagerUser={encoded('metax')}"),
    *("--set", f"topoDiscovery.switchbox.clusterManagerPassword={encoded('test')}"),
)
"""What the vendor's manual sets on its install command for a supernode cluster."""


def cases() -> Mapping[str, tuple[str, ...]]:
    """The renderings that are kept: what each gives to helm, by name."""
    files = {path.stem: ("--values", str(path)) for path in sorted(CASES.glob("*.yaml"))}
    return {**files, "vendor": VENDOR, "off": ()}


def built_helm() -> Path:
    """The helm to render with, built where it is missing; there must be a Go."""
    build(TOOLS)
    return TOOLS.program("helm")


def built_helm3() -> Path:
    """The helm of the major version before."""
    build(HELM3)
    return HELM3.program("helm")


def run(helm: Path, *arguments: str, home: Path | None = None) -> "CompletedProcess[str]":
    """One call of helm, with nothing of the user's own settings; in `home` it may keep its own."""
    return subprocess.run(
        die_with_parent_command(str(helm), *arguments),
        env=_environment(home),
        capture_output=True,
        text=True,
        check=False,
    )


async def running(helm: Path, *arguments: str, home: Path) -> "CompletedProcess[str]":
    """As `run`; whoever cancels it ends helm."""
    process = await asyncio.create_subprocess_exec(
        *die_with_parent_command(str(helm), *arguments),
        env=_environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        printed, told = await process.communicate()
    except asyncio.CancelledError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        raise
    code = process.returncode or 0
    return CompletedProcess(arguments, code, printed.decode(), told.decode())


def _environment(home: Path | None) -> dict[str, str]:
    kept = {name: text for name, text in os.environ.items() if not name.startswith("HELM_")}
    own = {} if home is None else {f"HELM_{each}_HOME": str(home) for each in _HOMES}
    return kept | own


def template(helm: Path, *arguments: str) -> "CompletedProcess[str]":
    """`helm template` of the chart, as for a cluster of the tested version."""
    place = ("--namespace", NAMESPACE, "--kube-version", KUBERNETES)
    return run(helm, "template", "topo", str(CHART), *place, *arguments)


def objects(text: str) -> list[dict[str, Any]]:
    """The objects of a rendering."""
    return [each for each in yaml.load_all(text, yaml.CSafeLoader) if each is not None]


def golden(case: str) -> list[dict[str, Any]]:
    """The objects of a kept rendering, for the caller alone to change."""
    found: list[dict[str, Any]] = json.loads(_golden_json(case))
    return found


@cache
def _golden_json(case: str) -> str:
    """The same as JSON, which is read forty times as fast as YAML."""
    return json.dumps(objects((GOLDEN / f"{case}.yaml").read_text()))


def one(found: list[dict[str, Any]], kind: str, name: str) -> dict[str, Any]:
    """The one object of this kind and name."""
    (only,) = (each for each in found if (each["kind"], each["metadata"]["name"]) == (kind, name))
    return only


def pod_specs(found: list[dict[str, Any]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every pod that the objects make, as (name of its object, spec)."""
    for each in found:
        name = each["metadata"]["name"]
        if each["kind"] == "Pod":
            yield name, each["spec"]
        elif "template" in each.get("spec", {}):
            yield name, each["spec"]["template"]["spec"]


class Allowed(NamedTuple):
    """One verb on one kind of object: in a namespace, else in all; of one object, else of all."""

    namespace: str
    group: str
    resource: str
    verb: str
    name: str


def rules(found: list[dict[str, Any]], account: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """The rules that bind an account, each with the namespace that it is good in."""
    for each in found:
        if each["kind"] not in {"ClusterRoleBinding", "RoleBinding"}:
            continue
        if account not in {subject["name"] for subject in each["subjects"]}:
            continue
        kind, name = each["roleRef"]["kind"], each["roleRef"]["name"]
        namespace = each["metadata"].get("namespace", "")
        (role,) = (
            role
            for role in found
            if (role["kind"], role["metadata"]["name"]) == (kind, name)
            and role["metadata"].get("namespace", "") == namespace
        )
        for rule in role["rules"]:
            yield namespace, rule


def allowed(case: str, account: str) -> set[Allowed]:
    """What the account may do."""
    return {
        Allowed(namespace, group, resource, verb, name)
        for namespace, rule in rules(golden(case), account)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }


def schema() -> Any:
    """values.schema.json."""
    return json.loads((CHART / "values.schema.json").read_text())


def values() -> Any:
    """values.yaml."""
    return yaml.load((CHART / "values.yaml").read_text(), yaml.CSafeLoader)


def value_at(path: str) -> Any:
    """The default of a value; raises KeyError where values.yaml has none."""
    found = values()
    for name in path.split("."):
        found = found[name]
    return found


def main() -> int:
    """Writes the renderings; the exit code is 1 where no helm is or it refuses."""
    if (reason := why_not()) is not None:
        sys.stderr.write(f"{reason}\n")
        return 1
    helm = built_helm()
    for case, arguments in cases().items():
        done = template(helm, *arguments)
        if done.returncode != 0:
            sys.stderr.write(f"{case}: {done.stderr}")
            return 1
        (GOLDEN / f"{case}.yaml").write_text(done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())

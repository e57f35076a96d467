"""The chart in the hands of the real helm."""

import json
from pathlib import Path
from typing import Any

import pytest

from docs.tables.chart import leaves
from master.controllers.names import HYPERNODE_ANNOTATIONS, NAMES, NOMINATION, OF_GANGS
from master.settings.booking import BookingSettings
from master.settings.cluster import ClusterSettings
from tests.helm.chart import (
    CHART,
    GOLDEN,
    KUBERNETES,
    ON,
    ROOT,
    cases,
    encoded,
    golden,
    objects,
    pod_specs,
    run,
    schema,
    template,
    value_at,
)

pytestmark = pytest.mark.e2e
EXAMPLES = {path.stem: path for path in (ROOT / "examples/values").glob("*.yaml")}
SWITCHBOX = (
    *ON,
    *("--set", "topoDiscovery.mode=switchbox"),
    *("--set", "topoDiscovery.switchbox.clusterManagerAddress=https://10.0.0.1"),
)
USER = ("--set", f"topoDiscovery.switchbox.clusterManagerUser={encoded('metax')}")


@pytest.mark.parametrize("case", sorted(cases()))
def test_every_kept_rendering_is_what_helm_makes(helm: Path, case: str) -> None:
    """`python -m tests.helm.chart` writes them anew; look at the difference before you keep it."""
    done = template(helm, *cases()[case])
    assert done.returncode == 0, done.stderr
    assert done.stdout == (GOLDEN / f"{case}.yaml").read_text()


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_helm_takes_the_values_of_every_example(helm: Path, name: str) -> None:
    """That for production beside each of the others."""
    given = ("--values", str(EXAMPLES[name]), *ON)
    beside = ("--values", str(EXAMPLES["production"]))
    for values in (given, (*given, *beside)):
        done = run(helm, "lint", str(CHART), "--strict", "--kube-version", KUBERNETES, *values)
        assert done.returncode == 0, done.stdout + done.stderr
        assert template(helm, *values).returncode == 0


def test_an_image_is_named_by_its_digest_where_the_version_has_one(helm: Path) -> None:
    """docs/releasing.md says so; a tag beside it tells people which release it is."""
    version = f"1.0.0@sha256:{'0' * 64}"
    done = template(helm, *ON, "--set-string", f"topoDiscovery.master.image.version={version}")
    (spec,) = (spec for name, spec in pod_specs(objects(done.stdout)) if name == "topo-master")
    assert spec["containers"][0]["image"] == f"topo-master:{version}"


@pytest.mark.parametrize("case", sorted(cases()))
def test_helm_3_makes_the_same_objects(helm3: Path, case: str) -> None:
    """Many clusters still have it; it writes other blank lines and another order."""
    done = template(helm3, *cases()[case])
    assert done.returncode == 0, done.stderr
    made = sorted(objects(done.stdout), key=str)
    assert made == sorted(golden(case), key=str)


@pytest.mark.parametrize("case", sorted(cases()))
def test_helm_finds_no_fault_with_the_chart(helm: Path, case: str) -> None:
    done = run(helm, "lint", str(CHART), "--strict", "--kube-version", KUBERNETES, *cases()[case])
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--set", "topoDiscovery.master.replica=3"), "'replica' not allowed"),
        (("--set", "gpuDevice.deploy=true"), "'gpuDevice' not allowed"),
        (("--set", "topoDiscovery.mode=switch"), "one of 'config', 'dragonfly', 'switchbox'"),
        (("--set", "topoDiscovery.master.serverPort=0"), "/topoDiscovery/master/serverPort"),
        (("--set", "topoDiscovery.master.resources.limit.cpu=1"), "'limit' not allowed"),
        (("--set", "log.level=verbose"), "/log/level"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_its_name(
    helm: Path, given: tuple[str, ...], told: str
) -> None:
    done = template(helm, *ON, *given)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--set", "topoDiscovery.mode=switchbox"), "clusterManager"),
        (SWITCHBOX, "clusterManagerUser is empty"),
        ((*SWITCHBOX, *USER), "clusterManagerPassword is empty"),
    ],
)
def test_what_mode_switchbox_needs_is_asked_for(
    helm: Path, given: tuple[str, ...], told: str
) -> None:
    done = template(helm, *ON, *given)
    assert done.returncode != 0
    assert told in done.stderr


ASKED = (*ON, "--set", "extender.enabled=true")
SCHEDULERS = ("--set", "topoDiscovery.networkPolicy.controlPlane={10.0.0.0/28}")
OF_REPORTS = ("--set", "topoDiscovery.tls.secret=a", "--set", "topoDiscovery.tls.scope=reports")
CLIENTS = ("--set", "extender.tls.clientCaConfigMap=kube-root-ca.crt")


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "topoDiscovery.networkPolicy.controlPlane"),
        ((*SCHEDULERS, *CLIENTS), "extender.tls.secret"),
        ((*SCHEDULERS, *CLIENTS, *OF_REPORTS), "extender.tls.secret"),
        (("--set", "topoDiscovery.networkPolicy.controlPlane={10.0.0.7}"), "/controlPlane/0"),
    ],
)
def test_an_extender_that_nobody_could_ask_or_that_lacks_its_tls_is_refused(
    helm: Path, given: tuple[str, ...], told: str
) -> None:
    """Without a cluster, as here, Helm sees no host whose kube-scheduler may ask."""
    done = template(helm, *ASKED, *given)
    assert done.returncode != 0
    assert told in done.stderr


@pytest.mark.parametrize(
    "given",
    [
        SCHEDULERS,
        ("--set", "topoDiscovery.networkPolicy.enabled=false"),
        (*SCHEDULERS, *CLIENTS, "--set", "topoDiscovery.tls.secret=a"),
    ],
)
def test_an_extender_with_callers_is_installed(helm: Path, given: tuple[str, ...]) -> None:
    done = template(helm, *ASKED, *given)
    assert done.returncode == 0, done.stderr


def test_one_value_switches_from_the_webhook_to_the_extender(helm: Path) -> None:
    """What it was before may be said, too: placement.enabled=false."""
    done = template(helm, *ASKED, *SCHEDULERS)
    found = {(each["kind"], each["metadata"]["name"]) for each in objects(done.stdout)}
    assert ("Service", "topo-master-extender") in found
    assert not {("MutatingWebhookConfiguration", "topo-master-admission")} & found
    assert "- --controllers=labels,hypernodes,annotations,events\n" in done.stdout
    said = ("--set", "placement.enabled=false")
    assert template(helm, *ASKED, *SCHEDULERS, *said).stdout == done.stdout


def of_controllers(*names: str) -> tuple[str, str]:
    return "--set-json", f"topoDiscovery.master.controllers={json.dumps(names)}"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("extender.enabled=true", "placement.enabled=true"), "/placement/enabled"),
        (("placement.holdBeforeQuota=true",), "/master/controllers"),
        (("extender.tls.clientNames={a}",), "/extender/tls/clientCaConfigMap"),
        (
            (
                "topoDiscovery.wiringNetBox.address=https://a",
                "topoDiscovery.wiringPlanVolume.configMap.name=b",
            ),
            "/topoDiscovery/wiringPlanVolume",
        ),
    ],
)
def test_values_that_no_master_starts_with_are_refused_by_the_schema(
    helm: Path, given: tuple[str, ...], told: str
) -> None:
    done = template(helm, *ON, *SCHEDULERS, *(w for each in given for w in ("--set", each)))
    assert "the specifications of the schema" in done.stderr
    assert told in done.stderr


@pytest.mark.parametrize("name", [*OF_GANGS, HYPERNODE_ANNOTATIONS])
def test_controllers_that_need_others_are_refused_without_them(helm: Path, name: str) -> None:
    """Beside the extender no controller of gangs works."""
    beside = ("--set", f"extender.enabled={str(name in OF_GANGS).lower()}")
    off = ("--set", "placement.enabled=false")
    done = template(helm, *ON, *SCHEDULERS, *off, *beside, *of_controllers("labels", name))
    assert "the specifications of the schema" in done.stderr
    assert "/topoDiscovery/master/controllers" in done.stderr


@pytest.mark.parametrize("name", sorted({*OF_GANGS} - {NOMINATION}))
def test_a_controller_of_gangs_is_refused_without_that_which_places_them(
    helm: Path, name: str
) -> None:
    off = ("--set", "placement.enabled=false")
    done = template(helm, *ON, *off, *of_controllers("labels", name))
    assert "/topoDiscovery/master/controllers" in done.stderr
    assert template(helm, *ON, *off, *of_controllers(NOMINATION, name)).returncode == 0


@pytest.mark.parametrize("name", sorted({*NAMES} - {*OF_GANGS, HYPERNODE_ANNOTATIONS}))
def test_any_other_controller_may_run_beside_the_extender(helm: Path, name: str) -> None:
    done = template(helm, *ASKED, *SCHEDULERS, *of_controllers(name))
    assert done.returncode == 0, done.stderr


def test_a_manager_of_the_fabric_is_asked_for_it_where_its_mapping_is_given(helm: Path) -> None:
    """As UFM is; with neither it nor another source of dumps mode fabric is refused."""
    fabric = (*ON, "--set", "topoDiscovery.mode=fabric")
    given = ("clusterManagerAddress=https://ufm", "clusterManagerMappingConfigMap=ufm")
    sets = [("--set", f"topoDiscovery.switchbox.{each}") for each in given]
    for each in ((), sets[0], sets[1]):
        assert "clusterManagerMappingConfigMap" in template(helm, *fabric, *each).stderr
    secret = ("--set", "topoDiscovery.switchbox.clusterManagerSecret=ufm")
    shown = template(helm, *fabric, *sets[0], *sets[1], *secret).stdout
    for part in (
        "- --cluster-manager-address=https://ufm\n",
        "- --cluster-manager-mapping-file=/manager/mapping/mapping.yaml\n",
        "mountPath: /secret\n",
        "mountPath: /manager/mapping\n",
    ):
        assert part in shown


def test_a_password_that_is_no_base64_is_refused_and_not_repeated(helm: Path) -> None:
    given = ("--set", "topoDiscovery.switchbox.clusterManagerPassword=hunter2!")
    done = template(helm, *SWITCHBOX, *USER, *given)
    assert done.returncode != 0
    assert "clusterManagerPassword is no base64" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr


@pytest.mark.parametrize("switch", ["deploy", "enabled"])
def test_either_spelling_of_the_switch_installs(helm: Path, switch: str) -> None:
    done = template(helm, "--set", f"topoDiscovery.{switch}=true")
    assert "kind: Deployment" in done.stdout


def test_a_number_too_long_for_a_float_stays_a_number(helm: Path) -> None:
    """Helm reads values as floats and would write 1e+06."""
    given = ("--set", "topoDiscovery.master.canonicalGroupSize=1000000")
    assert "--canonical-group-size=1000000\n" in template(helm, *ON, *given).stdout


CHANGED = {
    "string": "other",
    "integer": 7,
    "boolean": None,
    "registry": "r.example.com",
    "domain": "example.org",
    "imagePullSecrets": [{"name": "other"}],
    "log.dir": "/logs",
    "log.rotationTime": "2h",
    "log.maxAge": "3w",
    "env": [{"name": "TZ", "value": "UTC"}],
    "extraArgs": ["--log-level=error"],
    "resources": {"limits": {"memory": "1Gi"}},
    "tolerations": [{"key": "other", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "labels": {"other": "label"},
    "log": {"level": "error"},
    "peers": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
    "topoDiscovery.switchbox.clusterManagerUser": encoded("other"),
    "topoDiscovery.switchbox.clusterManagerPassword": encoded("other"),
    "topoDiscovery.switchbox.clusterManagerPollTopoPeriod": 7,
    "topoDiscovery.switchbox.clusterManagerPollEventPeriod": "7s",
    "topoDiscovery.wiringPlanVolume": {"configMap": {"name": "cables"}},
    "topoDiscovery.fabricVolume": {"hostPath": {"path": "/shared/fabric"}},
    "topoDiscovery.fabricSweep.nodes": ["gpu-09"],
    "topoDiscovery.fabricSweep.interval": "7m",
    "topoDiscovery.alerts.page": "https://other.example.com/operations",
    "topoDiscovery.groupLabels": ["gke"],
    "topoDiscovery.precedence": ["labels", "config"],
    "topoDiscovery.tls.proxies": ["10.9.0.0/16"],
    "topoDiscovery.master.controllers": ["labels"],
    "topoDiscovery.master.gpuResources": ["example.com/gpu"],
    "topoDiscovery.master.reserveGroups": ["a=1"],
    "topoDiscovery.master.gpuTypeOrder": ["A"],
    "topoDiscovery.master.aheadShare": 0.5,
    "topoDiscovery.master.historyBytes": 1 << 20,
    "topoDiscovery.master.historyAge": "7d",
    "topoDiscovery.worker.driverPaths": ["/opt/other"],
    "topoDiscovery.worker.privileged": False,
    "topoDiscovery.master.formerKeys": ["example.com/pair"],
    "topoDiscovery.worker.maxUnavailable": 7,
    "topoDiscovery.worker.tokenLifeSeconds": 7200,
    "topoDiscovery.serviceMonitor.interval": "7s",
    "number": 7.5,
    "placement.enabled": False,
    "placement.holdBeforeQuota": False,
    "placement.gateTimeout": "7s",
    "placement.preemptAfter": "7m",
    "placement.volcanoConfigMap": "other/volcano",
    "extender.quota.configMap": "other/quota",
    "extender.tls.clientNames": ["other"],
    "topoDiscovery.networkPolicy.controlPlane": ["10.9.0.0/28"],
}
"""Another value for each, by its path, its definition or its type."""


def other_value(path: str, said: dict[str, Any]) -> object:
    """A value that the schema allows and that is not the default."""
    if path in CHANGED:
        return CHANGED[path]
    if "allOf" in said:
        return CHANGED[said["allOf"][0]["$ref"].rpartition("/")[2]]
    if said["type"] == "array" and path.rpartition(".")[2] in CHANGED:
        return CHANGED[path.rpartition(".")[2]]
    choice = said.get("enum") or said.get("items", {}).get("enum")
    if choice:
        others = [each for each in choice if each != value_at(path)]
        return [others[0]] if said["type"] == "array" else others[0]
    return not value_at(path) if said["type"] == "boolean" else CHANGED[said["type"]]


_OF_MOST_VALUES = ("vendor", "auto", "extender", "fabric-sweep", "monitoring")
"""The renderings in which 125 of 131 values change something, tried first."""


@pytest.mark.parametrize("path", [path for path, _ in leaves(schema()) if path != "global"])
def test_every_value_changes_something(helm: Path, path: str) -> None:
    """In one of the kept renderings at least: a value that changes none is dead."""
    value = other_value(path, dict(leaves(schema()))[path])
    way = "--set-string" if isinstance(value, str) else "--set-json"  # of two ways, that of VENDOR
    change = (way, f"{path}={value if isinstance(value, str) else json.dumps(value)}")
    told = ""
    for case in (*_OF_MOST_VALUES, *sorted(set(cases()) - set(_OF_MOST_VALUES))):
        done = template(helm, *cases()[case], *change)
        if done.returncode == 0 and done.stdout != (GOLDEN / f"{case}.yaml").read_text():
            return
        told += done.stderr
    pytest.fail(f"{path} changes no rendering: {told or change}")


NO_VALUE = {"booking_log"}
"""Set by `extraArgs`, to look for a fault."""


def test_what_operators_decide_about_placement_are_values(helm: Path) -> None:
    """Each has its flag in the rendering, once those that are empty by default are given."""
    given = [("gpuResources", ["example.com/gpu"]), ("nodeUsageKey", "example.com/usage")]
    sets = [f"topoDiscovery.master.{name}={json.dumps(value)}" for name, value in given]
    ways = [word for each in sets for word in ("--set-json", each)]
    shown = template(helm, *cases()["auto"], *ways).stdout
    own = BookingSettings.model_fields.keys() - ClusterSettings.model_fields.keys()
    flags = {name: f"- --{name.replace('_', '-')}=" for name in own}
    assert {name for name, flag in flags.items() if flag not in shown} == NO_VALUE


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ("maxHold=7h", "'maxHold' not allowed"),
        ("maxHolds=0", "minimum: got 0, want 1"),
        ("maxHolds=1000001", "maximum: got 1.000001"),
    ],
)
def test_a_limit_of_holds_that_the_master_refuses_is_refused_before_it_starts(
    helm: Path, given: str, says: str
) -> None:
    done = template(helm, *ON, "--set", f"topoDiscovery.master.{given}")
    assert done.returncode != 0
    assert given.partition("=")[0] in done.stderr
    assert says in done.stderr


def test_a_webhook_without_the_controller_that_opens_its_gates_is_refused(helm: Path) -> None:
    done = template(helm, *ON, "--set-json", 'topoDiscovery.master.controllers=["labels"]')
    assert done.returncode != 0
    assert "controllers lacks nomination" in done.stderr
    assert "placement.enabled=false" in done.stderr


@pytest.mark.parametrize(
    ("given", "is_privileged"),
    [
        ((), True),
        (("runtimeClassName=nvidia",), False),
        (("resources.limits.metax-tech\\.com/gpu=1",), False),
        (("resources.limits.memory=1Gi",), True),
        (("runtimeClassName=nvidia", "privileged=true"), True),
        (("privileged=false",), False),
    ],
)
def test_a_worker_is_privileged_only_where_nothing_else_lends_it_the_devices(
    helm: Path, given: tuple[str, ...], *, is_privileged: bool
) -> None:
    values = [word for each in given for word in ("--set", f"topoDiscovery.worker.{each}")]
    done = template(helm, *ON, *values)
    assert done.returncode == 0, done.stderr
    assert ("privileged: true" in done.stdout) is is_privileged

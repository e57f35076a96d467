"""What the chart makes, read off the renderings of golden/, which `test_rendering.py` holds."""

from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from master.admission.server import BY_LINKS_PATH, PATH
from master.settings import MasterSettings
from tests.helm.chart import NAMESPACE, cases, golden, one, pod_specs
from tests.helm.programs import OUTSIDE, SETTINGS, settings_of
from topo.facts import parse
from topo.gangs.annotation_keys import BY_LINKS, OPTED_OUT, AnnotationKeys
from topo.gangs.job_kinds.kinds import JOB_KINDS
from topo.kit.settings import read
from topo.model.observation import ParsedProbe
from worker.probes import metax_library
from worker.probes.vendors import metax

INSTALLED = sorted(set(cases()) - {"off"})
PLACING = sorted(set(INSTALLED) - {"nvlink", "extender"})
"""On by default, and switched off in two."""
LISTED = {"volcano-jobs", "jobsets", "rayclusters"}
"""The webhooks of jobs whose templates are in lists, which a merge replaces as a whole."""
CHANGED = "-changed"
"""Ends the names of the webhooks of native jobs that start or change their size."""
WITH_WORKERS = sorted(set(INSTALLED) - {"labels"})
"""Labels name groups without any."""


def containers(case: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every container with its pod."""
    for _, spec in pod_specs(golden(case)):
        for container in spec["containers"]:
            yield spec, container


def flags(container: Mapping[str, Any]) -> dict[str, str]:
    return dict(argument.split("=", 1) for argument in container["args"] if "=" in argument)


def container(case: str, kind: str, name: str) -> dict[str, Any]:
    (only,) = one(golden(case), kind, name)["spec"]["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def master(case: str) -> dict[str, Any]:
    return container(case, "Deployment", "topo-master")


def worker(case: str) -> dict[str, Any]:
    return container(case, "DaemonSet", "topo-worker")


def test_switched_off_nothing_is_made() -> None:
    assert golden("off") == []


@pytest.mark.parametrize(
    ("case", "name"),
    [*((case, "topo-master") for case in INSTALLED), *((c, "topo-worker") for c in WITH_WORKERS)],
)
def test_every_flag_and_variable_is_a_setting_of_the_program(
    case: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = [*settings_of(golden(case), name, monkeypatch)]
    assert found
    for each in found:
        assert isinstance(each, SETTINGS[name]), each


@pytest.mark.parametrize("case", WITH_WORKERS)
def test_objects_ports_and_probes_have_the_names_of_the_vendor(case: str) -> None:
    found = golden(case)
    for kind, name in (
        ("Deployment", "topo-master"),
        ("DaemonSet", "topo-worker"),
        ("Service", "topo-master-service"),
        ("Service", "topo-worker-service"),
        ("ConfigMap", "topo-master-config"),
    ):
        assert one(found, kind, name)
    probes = {name: master(case)[f"{name}Probe"]["httpGet"] for name in ("liveness", "readiness")}
    assert (probes["liveness"]["path"], probes["readiness"]["path"]) == ("/health", "/ready")
    variables = {each["name"] for each in master(case)["env"]}
    assert variables >= {"POD_NAME", "POD_NAMESPACE", "POD_IP"}
    assert "NODE_NAME" in {each["name"] for each in worker(case)["env"]}


def test_in_mode_labels_no_worker_is_installed_and_nothing_waits_for_one() -> None:
    found = golden("labels")
    assert "DaemonSet" not in {each["kind"] for each in found}
    assert "topo-worker" not in {each["metadata"]["name"] for each in found}
    assert flags(master("labels"))["--group-labels"] == "example.com/row,rack=example.com/cabinet"
    monitored = {each["metadata"]["name"] for each in found if each["kind"] == "ServiceMonitor"}
    assert monitored == {"topo-master"}
    (policy,) = [each for each in found if each["kind"] == "NetworkPolicy"]
    (reports,) = [
        rule for rule in policy["spec"]["ingress"] if rule["ports"] == [{"port": "reports"}]
    ]
    (caller,) = reports["from"]
    assert "topo-master" in caller["podSelector"]["matchLabels"].values()


def let_in(case: str, port: str) -> list[dict[str, Any]] | None:
    """Who may come in at a port of the masters; None where everybody may."""
    (rule,) = (
        rule
        for rule in one(golden(case), "NetworkPolicy", "topo-master")["spec"]["ingress"]
        if rule["ports"] == [{"port": port}]
    )
    found: list[dict[str, Any]] | None = rule.get("from")
    return found


def networks(case: str, port: str) -> set[str]:
    return {each["ipBlock"]["cidr"] for each in let_in(case, port) or () if "ipBlock" in each}


def test_the_webhook_is_open_until_the_control_planes_addresses_are_given() -> None:
    """One that API servers cannot reach lets jobs run without groups, and nobody is told."""
    assert let_in("vendor", "admission") is None
    assert networks("auto", "admission") == {"10.0.0.0/28"}
    assert "konnectivity-agent" in str(let_in("auto", "admission"))


@pytest.mark.parametrize("case", INSTALLED)
def test_the_ports_of_extender_and_reports_are_open_to_nobody_unnamed(case: str) -> None:
    """The masters themselves are among those who may: they forward to the leader."""
    named = {
        each["port"]
        for rule in one(golden(case), "NetworkPolicy", "topo-master")["spec"]["ingress"]
        for each in rule["ports"]
    }
    for port in named & {"extender", "reports"}:
        peers = let_in(case, port)
        assert peers
        labels = [each.get("podSelector", {}).get("matchLabels", {}) for each in peers]
        assert "topo-master" in {each.get("app.kubernetes.io/name") for each in labels}


def test_schedulers_are_let_in_at_the_extender_by_address_or_pod() -> None:
    assert networks("extender", "extender") == {"10.0.0.0/28", "fd00:10::/124"}
    assert {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "schedulers"}}
    } in (let_in("extender", "extender") or ())


def test_the_extender_gets_its_certificate_and_the_authority_of_its_clients() -> None:
    given = flags(master("extender"))
    spec = one(golden("extender"), "Deployment", "topo-master")["spec"]["template"]["spec"]
    mounts = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert given["--extender-tls-cert"] == f"{mounts['extender-tls']}/tls.crt"
    assert given["--extender-tls-key"] == f"{mounts['extender-tls']}/tls.key"
    assert given["--extender-client-ca"] == f"{mounts['extender-clients']}/ca.crt"
    assert given["--extender-client-names"] == "system:kube-scheduler"
    assert volumes["extender-tls"]["secret"]["secretName"] == "extender-certificate"
    assert volumes["extender-clients"]["configMap"]["name"] == "kube-root-ca.crt"


def test_the_vendors_command_gives_the_vendors_flags_and_files() -> None:
    given = flags(master("vendor"))
    assert (
        given.items()
        >= {
            "--server-port": "9001",
            "--rpc-server-port": "10001",
            "--mode": "switchbox",
            "--node-number": "2",
            "--cluster-manager-address": "https://127.0.0.1",
            "--cluster-manager-poll-topo-period": "30",
            "--cluster-manager-poll-event-period": "10",
        }.items()
    )
    assert (
        flags(worker("vendor")).items()
        >= {
            "--metrics-address": "9002",
            "--detect-mode": "dragonfly",
            "--node-number": "2",
            "--enable-training": "false",
        }.items()
    )
    spec = one(golden("vendor"), "Deployment", "topo-master")["spec"]["template"]["spec"]
    paths = {each["name"]: each["mountPath"] for each in spec["containers"][0]["volumeMounts"]}
    volumes = {each["name"]: each for each in spec["volumes"]}
    assert (paths["config"], paths["credentials"]) == ("/config", "/secret")
    assert volumes["config"]["configMap"]["items"] == [
        {"key": "nodegroup", "path": "nodegroup.yaml"}
    ]
    assert volumes["credentials"]["secret"]["secretName"] == "topo-master-secret"
    daemon = one(golden("vendor"), "DaemonSet", "topo-worker")["spec"]["template"]["spec"]
    assert daemon["nodeSelector"] == {"metax-tech.com/gpu.installed": "true"}


def test_the_chart_sets_all_that_decides_how_gangs_are_placed() -> None:
    """So each has a value: what a value sets is no default of the program."""
    of_gangs = ("gang_", "gate_", "preempt_", "queue_plugin", "placement", "volcano_", "admission_")
    names = {
        f"--{name.replace('_', '-')}"
        for name in MasterSettings.model_fields
        if name.startswith(of_gangs)
    }
    assert names <= flags(master("vendor")).keys()


@pytest.mark.parametrize("name", ["CLIENT_GO_QPS", "CLIENT_GO_BRUST"])
def test_the_vendors_variables_reach_the_settings(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {each["name"]: each.get("value", "pod") for each in master("vendor")["env"]}
    for variable, value in given.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setenv(name, str(int(given[name]) + 7))
    settings = read(MasterSettings, [*master("vendor")["args"], *OUTSIDE])
    assert isinstance(settings, MasterSettings)
    assert 107 in (settings.kube_qps, settings.kube_burst)


def test_the_end_of_line_inside_base64_is_no_part_of_a_credential() -> None:
    data = one(golden("vendor"), "Secret", "topo-master-secret")["data"]
    assert data == {"username": "bWV0YXg=", "password": "dGVzdA=="}


@pytest.mark.parametrize("case", INSTALLED)
def test_the_file_of_groups_is_one_that_the_master_reads(case: str) -> None:
    text = one(golden(case), "ConfigMap", "topo-master-config")["data"]["nodegroup"]
    assert isinstance(parse(text, "nodegroup"), ParsedProbe), text


@pytest.mark.parametrize("case", INSTALLED)
def test_all_but_the_worker_fit_the_restricted_standard_of_kubernetes(case: str) -> None:
    """https://kubernetes.io/docs/concepts/security/pod-security-standards, and no root to write."""
    for spec, each in containers(case):
        context = each["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
        if each["command"] == ["topo-worker"]:
            continue
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        kinds = {kind for volume in spec.get("volumes", ()) for kind in volume.keys() - {"name"}}
        assert kinds <= {"configMap", "secret", "emptyDir", "projected", "persistentVolumeClaim"}


@pytest.mark.parametrize("case", WITH_WORKERS)
def test_a_worker_shares_no_more_of_its_host_than_it_reads(case: str) -> None:
    spec = one(golden(case), "DaemonSet", "topo-worker")["spec"]["template"]["spec"]
    host = {each["name"] for each in spec["volumes"] if "hostPath" in each} - {"log"}
    mounts = [each for each in worker(case)["volumeMounts"] if each["name"] in host]
    assert mounts
    assert all(each["readOnly"] for each in mounts)
    assert spec["automountServiceAccountToken"] is False


def test_only_named_nodes_sweep_and_only_their_containers_have_the_device_files() -> None:
    """One term for each node, for Kubernetes takes one name in each; masters believe the same."""
    found = golden("fabric-sweep")
    spec = one(found, "DaemonSet", "topo-sweeper")["spec"]["template"]["spec"]
    affinity = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    terms = [term["matchFields"][0] for term in affinity["nodeSelectorTerms"]]
    assert [(each["key"], each["values"]) for each in terms] == [
        ("metadata.name", ["gpu-01"]),
        ("metadata.name", ["gpu-02"]),
    ]
    assert flags(master("fabric-sweep"))["--fabric-sweep-nodes"] == "gpu-01,gpu-02"
    (sweeper,) = spec["containers"]
    assert sweeper["securityContext"]["privileged"] is False
    assert sweeper["resources"]["limits"]["rdma/hca_shared_devices_a"] == 1
    assert spec["serviceAccountName"] == "topo-worker"
    assert "rdma" not in str(worker("fabric-sweep"))


def test_metrics_of_sweepers_are_read_through_a_service_of_their_own() -> None:
    found = golden("fabric-sweep")
    worn = one(found, "DaemonSet", "topo-sweeper")["spec"]["template"]["metadata"]["labels"]
    service = one(found, "Service", "topo-sweeper-service")
    monitor = one(found, "ServiceMonitor", "topo-sweeper")["spec"]
    policy = one(found, "NetworkPolicy", "topo-sweeper")["spec"]
    assert service["spec"]["selector"].items() <= worn.items()
    assert policy["podSelector"]["matchLabels"].items() <= worn.items()
    sought = monitor["selector"]["matchLabels"]
    assert sought.items() <= service["metadata"]["labels"].items()
    assert [each["port"] for each in monitor["endpoints"]] == [service["spec"]["ports"][0]["name"]]


def test_without_privilege_a_worker_has_no_capability_either() -> None:
    context = worker("nvlink")["securityContext"]
    assert context["privileged"] is False
    assert context["allowPrivilegeEscalation"] is False
    assert context["capabilities"] == {"drop": ["ALL"]}


def test_every_folder_that_a_probe_searches_is_mounted() -> None:
    mounted = [each["mountPath"] for each in worker("vendor")["volumeMounts"]]
    for searched in (*metax_library.SEARCHED, *metax.FOLDERS):
        assert any(searched.startswith(f"{path}/") for path in mounted), searched


@pytest.mark.parametrize("case", WITH_WORKERS)
def test_what_selects_pods_finds_those_of_its_program_and_no_others(case: str) -> None:
    found = golden(case)
    labels = {
        name: one(found, kind, name)["spec"]["template"]["metadata"]["labels"]
        for kind, name in (("Deployment", "topo-master"), ("DaemonSet", "topo-worker"))
    }
    for kind, name, program in (
        ("Service", "topo-master-service", "topo-master"),
        ("Service", "topo-master-reports", "topo-master"),
        ("Service", "topo-worker-service", "topo-worker"),
        ("PodDisruptionBudget", "topo-master", "topo-master"),
        ("NetworkPolicy", "topo-master", "topo-master"),
        ("NetworkPolicy", "topo-worker", "topo-worker"),
    ):
        spec = one(found, kind, name)["spec"]
        selector = spec.get("selector") or spec["podSelector"]
        selector = selector.get("matchLabels", selector)
        chosen = {each for each, worn in labels.items() if selector.items() <= worn.items()}
        assert chosen == {program}


@pytest.mark.parametrize("case", WITH_WORKERS)
def test_workers_reach_masters_that_are_not_ready_yet(case: str) -> None:
    """After a cold start none is ready: through a Service of ready ones nobody would report."""
    host, port = flags(worker(case))["--server-address"].split(":")
    service = one(golden(case), "Service", host)["spec"]
    assert service["publishNotReadyAddresses"] is True
    assert [str(each["port"]) for each in service["ports"]] == [port]


def _webhooks(case: str) -> list[dict[str, Any]]:
    name = "topo-master-admission"
    return list(one(golden(case), "MutatingWebhookConfiguration", name)["webhooks"])


def test_without_placement_nothing_is_gated_and_no_webhook_is_there() -> None:
    for case in ("nvlink", "off"):
        assert "MutatingWebhookConfiguration" not in {each["kind"] for each in golden(case)}
    assert "--placement" not in flags(master("nvlink"))


@pytest.mark.parametrize("case", PLACING)
def test_the_webhook_is_where_the_service_and_the_masters_say(case: str) -> None:
    service = one(golden(case), "Service", "topo-master-admission")
    (port,) = service["spec"]["ports"]
    ports = {each["name"]: each["containerPort"] for each in master(case)["ports"]}
    assert str(ports[port["targetPort"]]) == flags(master(case))["--admission-port"]
    for each in _webhooks(case):
        where = each["clientConfig"]["service"]
        assert (where["name"], where["port"]) == (service["metadata"]["name"], port["port"])
        is_by_links = each["name"].startswith("gpu-aware.")
        assert where["path"] == (BY_LINKS_PATH if is_by_links else PATH)


@pytest.mark.parametrize("case", PLACING)
def test_api_servers_send_new_objects_that_ask_and_nothing_of_who_opted_out(case: str) -> None:
    keys = AnnotationKeys(flags(master(case))["--domain"])
    for each in _webhooks(case):
        assert each["matchConditions"]
        name = each["name"].partition(".")[0]
        created = [] if name.endswith(CHANGED) else ["CREATE"]
        changes = ["UPDATE"] if name in LISTED or name.endswith(CHANGED) else []
        assert all(rule["operations"] == [*created, *changes] for rule in each["rules"])
        opted, *asked = each["namespaceSelector"]["matchExpressions"]
        assert opted == {"key": keys.placement, "operator": "NotIn", "values": [OPTED_OUT]}
        by_links = {"key": keys.by_links, "operator": "In", "values": [BY_LINKS]}
        assert asked == ([by_links] if each["name"].startswith("gpu-aware.") else [])


@pytest.mark.parametrize("case", PLACING)
def test_api_servers_send_each_start_and_new_size_of_a_kind_that_kueue_starts_again(
    case: str,
) -> None:
    """A size also from `kubectl scale` and autoscalers, and each pod that it admits itself."""
    sent = {
        (rule["apiGroups"][0], rule["apiVersions"][0], *rule["resources"])
        for each in _webhooks(case)
        for rule in each["rules"]
        if each["name"].partition(".")[0].endswith(CHANGED)
    }
    started = [each for each in JOB_KINDS if each.suspended_at]
    assert sent == {("", "v1", "pods")} | {
        (each.group, each.version, each.resource, *scales)
        for each in started
        for scales in [[f"{each.resource}/scale"] if each.size_key else []]
    }


def test_the_vendors_command_alone_switches_placement_on_and_fails_open_for_jobs() -> None:
    """The vendor's values know nothing of it. A webhook that is away stops no job; pods of jobs
    with groups wait for it, since their schedulers would split them.
    """
    given = flags(master("vendor"))
    assert given["--placement"] == "nomination"
    assert "nomination" in given["--controllers"].split(",")
    policies = {each["name"].split(".")[0]: each["failurePolicy"] for each in _webhooks("vendor")}
    assert policies.pop("pods") == "Fail"
    assert {*policies.values()} == {"Ignore"}


@pytest.mark.parametrize("case", PLACING)
def test_one_master_stays_to_answer_the_webhook_while_nodes_are_drained(case: str) -> None:
    budget = one(golden(case), "PodDisruptionBudget", "topo-master")["spec"]
    replicas = one(golden(case), "Deployment", "topo-master")["spec"]["replicas"]
    assert replicas - budget["maxUnavailable"] >= 1


def test_with_cert_manager_the_chart_makes_no_secret_and_asks_for_the_bundle() -> None:
    found = golden("placement-cert-manager")
    assert "topo-master-admission" not in {
        each["metadata"]["name"] for each in found if each["kind"] == "Secret"
    }
    made = one(found, "Certificate", "topo-master-admission")["spec"]
    assert made["dnsNames"] == [f"topo-master-admission.{NAMESPACE}.svc"]
    configuration = one(found, "MutatingWebhookConfiguration", "topo-master-admission")
    annotations = configuration["metadata"]["annotations"]
    assert annotations["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{made['secretName']}"

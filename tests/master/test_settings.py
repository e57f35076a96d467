"""The vendor's flags and environment, and what does not go together."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from master.kube.leader_election.election import JITTER, WORK_ENDS_S, LeaseTimes
from master.kube.writing import writes
from master.settings import MasterSettings
from tests.master.world import settings
from topo.discovery.modes import JOIN_KEYS, Mode
from topo.kit.settings import read
from topo.placement.job.policy import Policy

PLACING = ("--kubeconfig=here", "--pod-namespace=topo")
ASKED = (*PLACING, "--placement=off", "--extender=on", "--controllers=none")
PAIR = ("--tls-cert=a", "--tls-key=b")
VOLCANO = "--volcano-config-map"
VENDOR = (
    "--log-file=/var/log/metax/topo-master.log",
    "--log-level=info",
    "--log-format=json",
    "--server-port=9001",
    "--rpc-server-port=10001",
    "--mode=switchbox",
    "--node-number=2",
    "--cluster-manager-address=https://127.0.0.1",
    "--cluster-manager-poll-topo-period=30",
    "--cluster-manager-poll-event-period=10",
)


def test_the_vendors_command_line_is_ours() -> None:
    result = settings(*VENDOR)
    assert (result.server_port, result.rpc_server_port) == (9001, 10001)
    assert result.mode is Mode.SWITCHBOX
    assert result.cluster_manager_poll_topo_period == 30
    assert result.discovery.node_number == 2


def test_the_defaults_are_the_vendors() -> None:
    result = settings()
    assert (result.mode, result.node_number) == (Mode.CONFIG, 2)
    assert (result.server_port, result.rpc_server_port) == (9001, 10001)
    assert result.cluster_manager_poll_event_period == 10
    assert (result.log_format, result.log_level) == ("json", "info")
    assert result.config_file == Path("/config/nodegroup.yaml")


@pytest.mark.parametrize("burst", ["CLIENT_GO_BURST", "CLIENT_GO_BRUST"])
def test_the_vendors_environment_is_heard(monkeypatch: pytest.MonkeyPatch, burst: str) -> None:
    for name, value in (("POD_NAME", "p"), ("POD_NAMESPACE", "n"), ("CLIENT_GO_QPS", "100")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv(burst, "77")
    result = settings()
    assert (result.pod_name, result.pod_namespace) == ("p", "n")
    assert (result.kube_qps, result.kube_burst) == (100.0, 77)


@pytest.mark.parametrize(
    ("flags", "where", "part"),
    [
        (["--mode=switchbox"], "--cluster-manager-address", "URL"),
        (["--placement=nomination", "--kubernetes=off"], "--placement", "--kubernetes=on"),
        (
            ["--placement=nomination", "--kubeconfig=here", "--pod-namespace=topo"],
            "--controllers",
            "name nomination among them",
        ),
        (
            [*PLACING, "--placement=native", "--controllers=nomination"],
            "--controllers",
            "name hypernodes among them, or give --placement=nomination",
        ),
        (
            [*PLACING, "--placement=native", "--controllers=hypernodes"],
            "--controllers",
            "name nomination among them",
        ),
        (
            [*PLACING, "--placement=nomination", "--controllers=nomination", f"{VOLCANO}=conf"],
            VOLCANO,
            "<namespace>/<name>",
        ),
        (
            ["--mode=switchbox", "--cluster-manager-address=10.0.0.1"],
            "--cluster-manager-address",
            "https://HOST",
        ),
        (
            ["--mode=switchbox", "--cluster-manager-address=http://10.0.0.1"],
            "--cluster-manager-address",
            "--cluster-manager-insecure",
        ),
        (
            ["--mode=switchbox", "--cluster-manager-address=https://u:p@h"],
            "--cluster-manager-address",
            "--credentials-dir",
        ),
        (["--join-keys=hostnme"], "--join-keys", "did you mean hostname?"),
        (["--join-keys=zzz"], "--join-keys", "choose among"),
        (["--join-keys=hostname,hostname"], "--join-keys", "once"),
        (["--join-keys=,"], "--join-keys", "at least one"),
        (["--tls-cert=a"], "--tls-key", "--tls-key"),
        (["--tls-key=a"], "--tls-cert", "--tls-cert"),
        (["--replica-addresses=10.0.0.8,other"], "--replica-addresses", "10.1.0.0/16"),
        ([*ASKED, "--extender-tls-cert=a"], "--extender-tls-key", "--extender-tls-key"),
        ([*ASKED, "--extender-tls-key=a"], "--extender-tls-cert", "--extender-tls-cert"),
        ([*ASKED, "--extender-client-ca=a"], "--extender-client-ca", "--extender-tls-cert"),
        (
            [*ASKED, *PAIR, "--tls-scope=reports", "--extender-client-ca=a"],
            "--extender-client-ca",
            "--tls-scope=all",
        ),
        (
            [*ASKED, *PAIR, "--extender-client-names=a"],
            "--extender-client-names",
            "--extender-client-ca",
        ),
        (["--server-port=70000"], "--server-port", "Port of the HTTP API"),
        (["--node-number=0"], "--node-number", "complete dragonfly"),
        (["--device-config-map=a/b/c"], "--device-config-map", "<namespace>/<name>"),
        (["--device-config-map=Metax"], "--device-config-map", "<namespace>/<name>"),
        (["--reserve-groups=s1"], "--reserve-groups", "switchbox-1=2"),
        (["--reserve-groups=s1=two"], "--reserve-groups", "<path>=<groups>"),
        (["--reserve-groups=s1=1,/d=1"], "--reserve-groups", "<path>=<groups>"),
        (["--reserve-groups==1"], "--reserve-groups", "<path>=<groups>"),
        (["--canonical-group-size=0"], "--canonical-group-size", "keeps free"),
        (["--max-holds=0"], "--max-holds", "at once"),
        (["--beat-interval=0"], "--beat-interval", "alive"),
        (["--kubernetes=on"], "--kubernetes", "--kubeconfig=FILE"),
        (["--kubernetes=maybe"], "--kubernetes", "Whether"),
        (["--domain=Metax"], "--domain", "metax-tech.com"),
        (["--domain=a..b"], "--domain", "metax-tech.com"),
        ([f"--domain={'a.' * 127}a"], "--domain", "metax-tech.com"),
        ([f"--domain={'a' * 249}"], "--domain", "of 248 characters at most"),
        (["--controllers=label"], "--controllers", "did you mean labels?"),
        (["--controllers=none,labels"], "--controllers", "write none, or the names"),
        (["--controllers=node-features"], "--controllers", "--pod-namespace"),
        (["--label-names=dragonfly"], "--label-names", "<kind>=<label>"),
        (["--label-names==a/b"], "--label-names", "<kind>=<label>"),
        (["--label-names=node=a/b"], "--label-names", "<kind>=<label>"),
        (["--label-names=dragonfly=A/b"], "--label-names", "<kind>=<label>"),
        (["--label-names=dragonfly=kubernetes.io/hostname"], "--label-names", "<kind>=<label>"),
        (["--label-names=dragonfly=a/b,dragonfly=a/c"], "--label-names", "each kind once"),
        (["--label-names=dragonfly=a/b,switchbox=a/b"], "--label-names", "of its own"),
    ],
)
def test_what_does_not_go_together_is_refused(flags: list[str], where: str, part: str) -> None:
    refused = read(MasterSettings, flags)
    assert isinstance(refused, tuple)
    assert refused[0].where == where
    assert part in refused[0].fix


def test_the_extender_has_the_certificate_of_the_api_unless_it_has_one_of_its_own() -> None:
    own = ("--extender-tls-cert=c", "--extender-tls-key=d")
    assert settings(*ASKED).extender_pair is None
    assert settings(*ASKED, *PAIR).extender_pair == (Path("a"), Path("b"))
    assert settings(*ASKED, *PAIR, "--tls-scope=reports").extender_pair is None
    assert settings(*ASKED, *own).extender_pair == (Path("c"), Path("d"))
    assert settings(*ASKED, *PAIR, *own).extender_pair == (Path("c"), Path("d"))


def test_labels_are_called_by_the_domain_and_the_kind_unless_they_are_renamed() -> None:
    result = settings("--domain=example.com", "--label-names=dragonfly=rack/pair,leaf-row=a.b/row")
    assert result.label_keys["switchbox"] == "example.com/switchbox"  # type: ignore[index]
    assert result.label_keys["dragonfly"] == "rack/pair"  # type: ignore[index]
    assert result.label_keys["leaf-row"] == "a.b/row"  # type: ignore[index]


def test_a_refused_address_is_not_shown_since_it_may_hold_a_password() -> None:
    flags = ("--mode=switchbox", "--cluster-manager-address=htps://user:s3cret@10.0.0.1")
    refused = read(MasterSettings, flags)
    assert isinstance(refused, tuple)
    assert "is no URL" in refused[0].what
    assert "s3cret" not in str(refused)


@pytest.mark.parametrize("text", ["10.0.0.0/33", "proxy", "10.1.0.1/16", "10.0.0.7,proxy"])
def test_a_proxy_is_an_address_or_a_network(text: str) -> None:
    refused = read(MasterSettings, (f"--tls-proxies={text}",))
    assert isinstance(refused, tuple)
    assert refused[0].where == "--tls-proxies"
    assert "10.1.0.0/16" in refused[0].fix
    assert settings("--tls-proxies=10.0.0.7, fd00::/8").tls_proxies == ("10.0.0.7", "fd00::/8")


def test_what_fits_is_not_refused() -> None:
    trial = ("--cluster-manager-address=http://h", "--cluster-manager-insecure")
    assert settings("--mode=switchbox", *trial).cluster_manager_insecure
    assert settings("--join-keys=server_uuid,hostname").discovery.join_keys[0] == "server_uuid"
    assert settings("--cluster-manager-address=nonsense").mode is Mode.CONFIG, "not asked there"
    assert settings("--tls-cert=a", "--tls-key=b").tls_key == Path("b")
    assert settings().join_keys == JOIN_KEYS


def test_the_operators_words_about_placement_are_a_policy() -> None:
    result = settings(
        "--canonical-group-size=128",
        "--reserve-groups=s1=2, s2/d=odd=0",
        "--gpu-type-order=B,A",
        "--extra-domains=1",
    )
    assert result.policy.canonical_gpus == 128
    assert result.policy.reserves == ((("s1",), 2), (("s2", "d=odd"), 0))
    assert result.policy.gpu_types == ("B", "A")
    assert result.policy.extra_domains == 1
    assert settings().policy == Policy()


@pytest.mark.parametrize("flag", ["--queue-limit", "--history-limit", "--admission-secret"])
def test_a_flag_of_an_earlier_version_is_refused_by_name_and_without_false_advice(
    flag: str,
) -> None:
    found = read(MasterSettings, [f"{flag}=1"])
    assert isinstance(found, tuple)
    assert (found[0].what, found[0].where) == ("there is no such flag", flag)
    assert found[0].fix == "see --help"


def test_kubernetes_is_used_in_a_pod_or_with_a_kubeconfig_unless_it_is_off() -> None:
    assert settings().kube_config is None, "this is no pod"
    given = settings("--kubeconfig=/k").kube_config
    assert given is not None
    assert given.kubeconfig == Path("/k")
    assert settings("--kubeconfig=/k", "--kubernetes=off").kube_config is None
    assert settings("--kubeconfig=/k", "--kubernetes=on").kube_config is not None


def refused(*flags: str) -> str:
    """What is said of settings that cannot be used."""
    found = read(MasterSettings, flags)
    assert not isinstance(found, MasterSettings)
    return str(found)


POD = ("--kubeconfig=/k", "--pod-name=a", "--pod-namespace=topo", "--pod-ip=10.0.0.7")


def test_a_master_of_several_has_to_say_who_it_is_and_where() -> None:
    assert settings(*POD, "--leader-elect=true").elects_leader
    assert not settings(*POD).elects_leader, "there is no token by which masters know each other"
    assert not settings("--kubeconfig=/k").elects_leader
    assert "--leader-elect" in refused("--leader-elect=true", "--kubernetes=off")
    assert "POD_IP" in refused(*POD[:-1], "--leader-elect=true")
    assert "--server-port" in refused(*POD, "--leader-elect=true", "--server-port=0")


@given(st.floats(5, 3600))
def test_the_times_of_a_lease_let_a_leader_and_its_writes_end_before_another_begins(
    duration_s: float,
) -> None:
    times = settings(f"--lease-duration={duration_s}s").lease_times
    assert times.renew_deadline_s + WORK_ENDS_S < times.duration_s
    assert times.renew_deadline_s > (1 + JITTER) * times.retry_s, "it may try twice"
    assert settings().lease_times == LeaseTimes(), "12 s, 8 s and 2 s"
    assert "--lease-duration" in refused("--lease-duration=4.9s")


def test_a_write_of_a_leader_ends_before_the_others_may_lead() -> None:
    times = settings().lease_times
    assert times.renew_deadline_s + writes.TIMEOUT_S < times.duration_s


def test_the_state_is_kept_in_one_place_that_there_is() -> None:
    assert settings(*POD, "--state-config-maps").state_config_maps
    alone = settings("--state-file=/s")
    assert (alone.kept_file, alone.copy_file) == (Path("/s"), None)
    assert "two places" in refused(*POD, "--state-config-maps", "--state-file=/s")
    both = settings(*POD, "--state-config-maps", "--state-file=/s", "--leader-elect=true")
    assert (both.kept_file, both.copy_file) == (None, Path("/s"))
    assert "--state-config-maps" in refused("--state-config-maps", "--kubernetes=off")

"""The vendor's command line works as it stands, and nonsense is refused with a way out."""

import pytest
from structlog.testing import capture_logs

from topo.kit.settings import read
from worker import __main__ as worker_main
from worker.probes.catalogue import probes
from worker.settings import WorkerSettings


def load(*argv: str) -> WorkerSettings:
    """The settings of a command line that is good."""
    settings = read(WorkerSettings, argv)
    assert isinstance(settings, WorkerSettings), settings
    return settings


def test_the_vendors_command_line_is_accepted() -> None:
    """All flags of the vendor's worker, as its chart writes them."""
    settings = load(
        "--log-file=/var/log/metax/topo-worker.log",
        "--log-level=info",
        "--log-format=json",
        "--server-address=topo-master-service:10001",
        "--metrics-address=9002",
        "--detect-mode=dragonfly",
        "--node-number=2",
        "--enable-training=false",
    )
    assert settings.server_url == "http://topo-master-service:10001"
    assert (settings.metrics_host, settings.metrics_port) == (None, 9002)
    assert not settings.enable_training


@pytest.mark.parametrize("word", ["Dragonfly", "SWITCHBOX", "auto"])
def test_the_mode_may_be_written_in_any_case(word: str) -> None:
    """People write names with a capital, and charts pass them on."""
    assert load(f"--detect-mode={word}").detect_mode == word.lower()


def test_the_node_name_comes_from_the_vendors_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """NODE_NAME, as the DaemonSet sets it; our own variable and the flag beat it."""
    monkeypatch.setenv("NODE_NAME", "node-1")
    assert load().node_name == "node-1"
    monkeypatch.setenv("TOPO_NODE_NAME", "node-2")
    assert load().node_name == "node-2"
    assert load("--node-name=node-3").node_name == "node-3"


def test_metrics_may_listen_on_one_interface() -> None:
    """host:port, IPv6 in brackets."""
    settings = load("--metrics-address=127.0.0.1:0")
    assert (settings.metrics_host, settings.metrics_port) == ("127.0.0.1", 0)
    assert load("--metrics-address=[::1]:9002").metrics_host == "::1"


@pytest.mark.parametrize(
    "address",
    ["m:1", "topo-master.ns.svc:10001", "10.0.0.1:65535", "[::1]:1", "[fe80::1%eth0]:1", "a_b:7"],
)
def test_hosts_and_addresses_of_both_families_are_taken(address: str) -> None:
    assert load(f"--server-address={address}").server_url == f"http://{address}"


def test_tls_makes_the_address_https() -> None:
    """The address itself never names a scheme."""
    assert load("--server-tls").server_url.startswith("https://")


@pytest.mark.parametrize(
    ("argv", "fix"),
    [
        (("--server-address=https://master:10001",), "--server-tls"),
        (("--server-address=master",), "host:port"),
        (("--server-address=master:0",), "1 to 65535"),
        (("--server-address=::1:10001",), "in brackets"),
        (("--server-address=user:word@master:1",), "host:port"),
        (("--server-address=master/path:1",), "host:port"),
        (("--exporter-address=a b:1",), "host:port"),
        (("--metrics-address=many",), "0 to 65535"),
        (("--detect-mode=magic",), "dragonfly"),
        (("--node-number=0",), "vendor"),
        (("--probe-interval=0",), "Seconds"),
        (("--tls-ca=/ca.pem",), "add --server-tls"),
        (("--record=/a", "--replay=/b"), "one of the two"),
        (("--server-adress=x:1",), "did you mean --server-address?"),
    ],
)
def test_nonsense_is_refused_with_a_way_out(argv: tuple[str, ...], fix: str) -> None:
    """Every refusal names what to write instead."""
    refusals = read(WorkerSettings, argv)
    assert isinstance(refusals, tuple)
    assert fix in f"{refusals[0].what} {refusals[0].fix}"


def test_probes_stand_in_the_order_of_precedence() -> None:
    """What stands for itself, stand-ins with whom they stand in for, sysfs, LLDP."""
    listed = probes(load("--mxsml-library=/x/libmxsml.so"))
    assert [probe.name for probe in listed] == [
        "npu-smi-spod-info",
        "mxsml",
        "nvml",
        "mx-smi-list",
        "mx-smi-topo",
        "mx-smi-table",
        "mx-exporter",
        "nvidia-smi-xml",
        "nvidia-smi-topo",
        "nvlink-errors",
        "sysfs-infiniband",
        "sysfs-pci",
        "sysfs-infiniband-counters",
        "lldpcli",
    ]
    assert {p.instead_of for p in listed if p.gives} == {("mxsml",), ("nvml",)}


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (("--token-file=/t",), True),
        (("--token-file=/t", "--server-tls"), False),
        (("--token-file=/t", "--server-address=127.0.0.1:1"), False),
        (("--token-file=/t", "--server-address=[::1]:1"), False),
        (("--token-file=/t", "--server-address=localhost:1"), False),
        (("--token-file=/t", "--server-address=[::ffff:127.0.0.1]:1"), False),
        (("--token-file=/t", "--server-address=[::ffff:10.0.0.1]:1"), True),
        (("--server-address=master:1",), False),
    ],
)
def test_a_token_in_the_clear_is_told(argv: tuple[str, ...], told: bool) -> None:  # noqa: FBT001
    """Unless it never leaves the host."""
    with capture_logs() as lines:
        worker_main.warn(load(*argv))
    assert [line["event"] for line in lines] == [
        "the token crosses the network in clear text"
    ] * told

"""What the demo runs: its processes' command lines, the ports and the files that they use."""

import random
import secrets
import socket
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import repeat
from pathlib import Path

from topo.cli.demo.processes import LOOPBACK, Program
from topo.kit.files import write_private
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import World

BEAT_S = 2.0
"""A node is stale after three of them: a killed worker is back sooner, also on a busy machine."""
_PROBE_S = 0.25
MOST_WORKERS = 64
"""Processes of topo-worker in a demo: some 4 GiB of memory."""
FLEET_BEAT_S = 10.0
"""The master's own default: 10,000 workers that beat each 2 s would fill two cores."""
USUAL_PORTS = (9001, 10001, 9443)
"""The vendor's two, and one for the cluster manager."""
_FIRST_FREE_PORT = 24_000
_CONNECTION_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""The ports that Linux gives to connections and to servers without a port: proc_sys_net(5)."""


@dataclass(frozen=True, slots=True)
class DemoPorts:
    """Where the demo listens, on the loopback address only.

    `workers`: where each has its metrics, in the order of the nodes; any free port without them.
    """

    api: int
    reports: int
    manager: int
    kubernetes: int = field(default=0, kw_only=True)
    """The API server; 0 where no jobs are played."""
    admission: int = field(default=0, kw_only=True)
    """The master's webhook for jobs."""
    prometheus: int = field(default=0, kw_only=True)
    workers: tuple[int, ...] = field(default=(), kw_only=True)

    @property
    def master(self) -> str:
        """The URL of the HTTP API."""
        return self.url(self.api)

    def url(self, port: int) -> str:
        """Return the URL of one of them."""
        return f"http://{LOOPBACK}:{port}"


@contextmanager
def claimed_ports(usual: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """For each usual port itself, or a free one where somebody holds it or another demo claims it.

    Nothing keeps a port free until its process listens, a second or two later: until the block
    ends each is claimed for this demo by the name of an abstract socket, which is gone with its
    process and seen as far as the port is. Others who find theirs taken say so and end.
    """
    with ExitStack() as claims:
        with ExitStack() as held:
            ports = tuple(_claimed(port, held, claims) for port in usual)
        yield ports


def _claimed(port: int, held: ExitStack, claims: ExitStack) -> int:
    """Return a port bound until `held` closes, so that one call never names a port twice."""
    for wanted in _candidates(port):
        with suppress(OSError):
            holder = held.enter_context(socket.create_server((LOOPBACK, wanted)))
            found: int = holder.getsockname()[1]
            if _is_claimed(found, claims):
                return found
    raise OSError("no port of the loopback address is free")


def _candidates(usual: int) -> Iterator[int]:
    """Yield the usual port unless it is 0, then ports that the kernel gives to nobody.

    A port from the kernel's own range may become that of another program's connection between
    the claim and the moment when the process listens. It is the last choice: 0 asks the kernel.
    """
    if usual:
        yield usual
    first_of_kernel = int(_CONNECTION_PORTS.read_text().split()[0])
    own = range(_FIRST_FREE_PORT, max(first_of_kernel, _FIRST_FREE_PORT))
    yield from random.sample(own, len(own))
    yield from repeat(0, len(USUAL_PORTS))


def _is_claimed(port: int, claims: ExitStack) -> bool:
    """Return whether the port is this demo's until `claims` closes, and not another's."""
    claim = claims.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    try:
        claim.bind(f"\0topo-demo-port-{port}")
    except OSError:
        return False
    return True


class DemoFiles:
    """The paths below a demo's directory."""

    def __init__(self, home: Path) -> None:
        self.recordings = home / "recordings"
        """One directory per node, which its worker replays."""
        self.logs = home / "logs"
        self.state = home / "state"
        self.prometheus = home / "prometheus"
        """Its configuration and its data, where there is one."""
        self.secrets = home / "secrets"
        self.manager = self.secrets / "manager"
        """The cluster manager's authority and accounts."""
        self.kubernetes = self.secrets / "kubernetes"
        """The API server's authority, kubeconfigs and objects."""
        self.worker_tokens = self.secrets / "worker-tokens"
        """The master's file: one token bound to each node."""
        self.api_token = self.secrets / "api-token"
        """The one token for calls that write: the master's file, and the command line's."""

    def worker_token(self, node: str) -> Path:
        """Return the token file of one worker."""
        return self.secrets / f"{node}.token"


def prepare(files: DemoFiles, world: World, ports: DemoPorts) -> None:
    """Write recordings and fresh secrets; the directory above them is private already."""
    from topo.sim.certificates import Authority  # noqa: PLC0415 - 0.1 s
    from topo.sim.kubernetes.access import prepare_access  # noqa: PLC0415

    for folder in (files.recordings, files.manager / "secret", files.logs, files.state):
        folder.mkdir(parents=True)
    lines = ""
    for node in world.nodes:
        token = secrets.token_urlsafe(24)
        if is_fleet(world):
            (files.recordings / node.name).mkdir()
        else:
            write_bundle(files.recordings / node.name, node)
            write_private(files.worker_token(node.name), token.encode())
        lines += f"{node.name} {token}\n"
    write_private(files.worker_tokens, lines.encode())
    write_private(files.api_token, secrets.token_urlsafe(24).encode())
    # The master looks at these when it starts, and it starts together with their owner.
    Authority.at(files.manager)
    if ports.kubernetes:
        files.kubernetes.mkdir()
        prepare_access(files.kubernetes, LOOPBACK, ports.kubernetes)
    write_private(files.manager / "secret" / "username", b"metax\n")
    write_private(files.manager / "secret" / "password", f"{secrets.token_urlsafe(18)}\n".encode())


def is_managed(world: World) -> bool:
    """Return whether the world needs a cluster manager: switchboxes are what only it knows."""
    return any(node.switchbox is not None for node in world.nodes)


def is_fleet(world: World) -> bool:
    """Return whether one process plays all workers: a machine bears only so many."""
    return len(world.nodes) > MOST_WORKERS


def programs(
    files: DemoFiles, world: World, world_name: str, ports: DemoPorts
) -> tuple[Program, ...]:
    """Return the processes: a master, a worker per node, and what this demo has besides.

    That is a cluster manager where the world has switchboxes, and Kubernetes where jobs are played.
    """
    managed = is_managed(world)
    if is_fleet(world):
        workers = [_fleet(files, world_name, ports)]
    else:
        at = ports.workers or (0,) * len(world.nodes)
        workers = [
            _worker(files, str(node.name), ports, metrics)
            for node, metrics in zip(world.nodes, at, strict=True)
        ]
    manager = [_manager(files, world_name, ports)] if managed else []
    kubernetes = [_kubernetes(files, world_name, ports)] if ports.kubernetes else []
    return (_master(files, world, ports, managed=managed), *manager, *kubernetes, *workers)


def _master(files: DemoFiles, world: World, ports: DemoPorts, *, managed: bool) -> Program:
    largest_dragonfly = max(Counter(node.dragonfly for node in world.nodes).values())
    manager_flags = (
        f"--cluster-manager-address=https://{LOOPBACK}:{ports.manager}",
        f"--cluster-manager-ca-file={files.manager / 'ca.pem'}",
        f"--credentials-dir={files.manager / 'secret'}",
        "--cluster-manager-poll-topo-period=5",
        "--cluster-manager-poll-event-period=1",
    )
    argv = (
        _script("topo-master"),
        f"--mode={'switchbox' if managed else 'auto'}",
        *_kubernetes_flags(files, world, ports),
        f"--bind-address={LOOPBACK}",
        f"--server-port={ports.api}",
        f"--rpc-server-port={ports.reports}",
        f"--node-number={largest_dragonfly}",
        f"--gpus-per-node={world.nodes[0].hardware.gpus}",
        f"--worker-token-file={files.worker_tokens}",
        f"--api-token-file={files.api_token}",
        f"--state-file={files.state / 'state.json'}",
        f"--beat-interval={FLEET_BEAT_S if is_fleet(world) else BEAT_S}",
        "--state-save-interval=1",
        "--log-format=console",
        *(manager_flags if managed else ()),
    )
    return Program("topo-master", argv, files.logs / "topo-master.log")


def _manager(files: DemoFiles, world_name: str, ports: DemoPorts) -> Program:
    command = (_script("topo"), "sim", "clustermanager", str(files.manager), world_name)
    argv = (*command, f"--port={ports.manager}")
    return Program("cluster manager", argv, files.logs / "cluster-manager.log")


def _kubernetes_flags(files: DemoFiles, world: World, ports: DemoPorts) -> tuple[str, ...]:
    """Return the flags of a master that places jobs; without jobs it has no Kubernetes at all."""
    if not ports.kubernetes:
        return ("--kubernetes=off",)  # also where the demo runs in a pod
    from topo.sim.kubernetes.access import MASTER, NAMESPACE, kubeconfig_file  # noqa: PLC0415
    from topo.sim.kubernetes.install import gpu_resource  # noqa: PLC0415

    hardware = world.nodes[0].hardware
    return (
        f"--gpu-resources={gpu_resource(hardware)}",
        *(("--group-labels=ascend",) if hardware.maker == "ascend" else ()),
        "--kubernetes=on",
        f"--kubeconfig={kubeconfig_file(files.kubernetes, MASTER)}",
        f"--pod-namespace={NAMESPACE}",
        "--pod-name=topo-master-0",
        "--leader-elect=false",
        "--placement=nomination",
        "--controllers=nomination",
        f"--admission-port={ports.admission}",
    )


def _kubernetes(files: DemoFiles, world_name: str, ports: DemoPorts) -> Program:
    command = (_script("topo"), "sim", "kubernetes", str(files.kubernetes), world_name)
    argv = (*command, f"--port={ports.kubernetes}", f"--admission-port={ports.admission}")
    return Program("kubernetes", argv, files.logs / "kubernetes.log")


def _fleet(files: DemoFiles, world_name: str, ports: DemoPorts) -> Program:
    argv = (
        *(_script("topo"), "sim", "workers", world_name),
        f"--server-address={LOOPBACK}:{ports.reports}",
        f"--worker-token-file={files.worker_tokens}",
        f"--faults={files.recordings}",
    )
    return Program("workers", argv, files.logs / "workers.log", needs_port=ports.reports)


def _worker(files: DemoFiles, node: str, ports: DemoPorts, metrics_port: int) -> Program:
    argv = (
        _script("topo-worker"),
        f"--node-name={node}",
        f"--server-address={LOOPBACK}:{ports.reports}",
        f"--metrics-address={LOOPBACK}:{metrics_port}",
        f"--token-file={files.worker_token(node)}",
        f"--replay={files.recordings / node}",
        f"--probe-interval={_PROBE_S}",
        "--log-format=console",
    )
    log = files.logs / f"topo-worker-{node}.log"
    return Program(f"topo-worker {node}", argv, log, needs_port=ports.reports)


def _script(name: str) -> str:
    """Return a console script of the environment that this process runs in."""
    return str(Path(sysconfig.get_path("scripts")) / name)

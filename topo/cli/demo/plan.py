"""What the demo runs: the command lines of its processes, and the files that they read."""

import secrets
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from topo.cli.demo.ports import LOOPBACK
from topo.cli.demo.processes import Program
from topo.kit.files import write_private
from topo.sim.bundles import write_bundle
from topo.sim.worlds.presets import World

BEAT_S = 1.0
_PROBE_S = 0.25
USUAL_PORTS = (9001, 10001, 9443)
"""The vendor's two, and one for the cluster manager."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the demo listens, on the loopback address only."""

    api: int
    reports: int
    manager: int

    @property
    def master(self) -> str:
        """The URL of the HTTP API."""
        return f"http://{LOOPBACK}:{self.api}"


@dataclass(frozen=True, slots=True)
class Stage:
    """A demo's directory, with its parts."""

    home: Path

    @property
    def recordings(self) -> Path:
        """One directory per node, which its worker replays."""
        return self.home / "recordings"

    @property
    def manager(self) -> Path:
        """The cluster manager's authority and accounts."""
        return self.home / "secrets" / "manager"

    @property
    def tokens(self) -> Path:
        """The master's file of worker tokens, one bound to each node."""
        return self.home / "secrets" / "worker-tokens"

    def token(self, node: str) -> Path:
        """The token file of one worker."""
        return self.home / "secrets" / f"{node}.token"

    @property
    def api_token(self) -> Path:
        """The one token for calls that write: the master's file, and the command line's."""
        return self.home / "secrets" / "api-token"

    def log(self, name: str) -> Path:
        """The log of one process."""
        return self.home / "logs" / f"{name}.log"


def prepare(stage: Stage, world: World) -> None:
    """Writes recordings and fresh secrets; the directory above them is private already."""
    from topo.sim.clustermanager.certificates import Authority  # noqa: PLC0415 - 0.1 s

    for folder in (stage.recordings, stage.manager / "secret", stage.home / "logs"):
        folder.mkdir(parents=True)
    (stage.home / "state").mkdir()
    tokens = {str(node.name): secrets.token_urlsafe(24) for node in world.nodes}
    for node in world.nodes:
        write_bundle(stage.recordings / node.name, node)
        write_private(stage.token(node.name), tokens[node.name].encode())
    lines = "".join(f"{node} {token}\n" for node, token in tokens.items())
    write_private(stage.tokens, lines.encode())
    write_private(stage.api_token, secrets.token_urlsafe(24).encode())
    # The master looks at these when it starts, and it starts together with their owner.
    Authority.at(stage.manager)
    credentials = {"username": "metax", "password": secrets.token_urlsafe(18)}
    for name, value in credentials.items():
        write_private(stage.manager / "secret" / name, f"{value}\n".encode())


def programs(stage: Stage, world: World, world_name: str, ports: Ports) -> tuple[Program, ...]:
    """The master, the cluster manager where the world has switchboxes, a worker per node."""
    managed = any(node.switchbox is not None for node in world.nodes)
    workers = [_worker(stage, str(node.name), ports) for node in world.nodes]
    manager = [_manager(stage, world_name, ports)] if managed else []
    return (_master(stage, world, ports, managed=managed), *manager, *workers)


def _master(stage: Stage, world: World, ports: Ports, *, managed: bool) -> Program:
    manager_flags = (
        f"--cluster-manager-address=https://{LOOPBACK}:{ports.manager}",
        f"--cluster-manager-ca-file={stage.manager / 'ca.pem'}",
        f"--credentials-dir={stage.manager / 'secret'}",
        "--cluster-manager-poll-topo-period=5",
        "--cluster-manager-poll-event-period=1",
    )
    mode = "switchbox" if managed else "auto"
    argv = (
        _script("topo-master"),
        f"--mode={mode}",
        f"--bind-address={LOOPBACK}",
        f"--server-port={ports.api}",
        f"--rpc-server-port={ports.reports}",
        f"--node-number={_largest_dragonfly(world)}",
        f"--gpus-per-node={world.nodes[0].hardware.gpus}",
        f"--worker-token-file={stage.tokens}",
        f"--api-token-file={stage.api_token}",
        f"--state-file={stage.home / 'state' / 'state.json'}",
        f"--beat-interval={BEAT_S}",
        "--state-save-interval=1",
        "--log-format=console",
        *(manager_flags if managed else ()),
    )
    return Program("topo-master", argv, stage.log("topo-master"))


def _manager(stage: Stage, world_name: str, ports: Ports) -> Program:
    command = (_script("topo"), "sim", "clustermanager", str(stage.manager), world_name)
    argv = (*command, f"--port={ports.manager}")
    return Program("cluster manager", argv, stage.log("cluster-manager"))


def _worker(stage: Stage, node: str, ports: Ports) -> Program:
    argv = (
        _script("topo-worker"),
        f"--node-name={node}",
        f"--server-address={LOOPBACK}:{ports.reports}",
        f"--metrics-address={LOOPBACK}:0",
        f"--token-file={stage.token(node)}",
        f"--replay={stage.recordings / node}",
        f"--probe-interval={_PROBE_S}",
        "--log-format=console",
    )
    return Program(f"topo-worker {node}", argv, stage.log(f"topo-worker-{node}"))


def _largest_dragonfly(world: World) -> int:
    sizes: dict[str | None, int] = {}
    for node in world.nodes:
        sizes[node.dragonfly] = sizes.get(node.dragonfly, 0) + 1
    return max(sizes.values())


def _script(name: str) -> str:
    """A console script of the environment that this process runs in."""
    return str(Path(sysconfig.get_path("scripts")) / name)

# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo sim`: simulated clusters, on disk, as a cluster manager, and under jobs."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from topo.cli.commands import sim_placement, sim_replay, sim_stream

app = typer.Typer(no_args_is_help=True, help="Simulated clusters, a manager and jobs for them.")
app.command()(sim_placement.place)
app.command()(sim_stream.stream)
app.command()(sim_replay.replay)

WorldName = Annotated[
    str,
    typer.Argument(
        metavar="WORLD",
        help="A preset (demo, metax-8x8, nvl72-18x4, …) or a size: "
        "SWITCHBOXESxDRAGONFLIESxNODES[xGPUS], such as 2x2x2.",
    ),
]


@app.command()
def generate(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Made where absent.")],
    world: WorldName = "demo",
) -> None:
    """Write recordings for `topo-worker --replay` and a nodegroup.yaml into a directory."""
    import yaml

    from topo.cli import worlds
    from topo.cli.exit_codes import usage
    from topo.sim.bundles import write_bundle

    simulated = worlds.chosen(world)
    recordings, config = directory / "recordings", directory / "nodegroup.yaml"
    try:
        for node in simulated.nodes:
            write_bundle(recordings / node.name, node)
        text = yaml.safe_dump(worlds.nodegroup(simulated), sort_keys=False)
        config.write_text(text, encoding="utf-8")
    except OSError as error:
        fix = "name a directory that you may write to"
        raise usage(error.strerror or str(error), str(directory), fix) from None
    count = len(simulated.nodes)
    replay = f"topo-worker --node-name=NODE --replay={recordings}/NODE"
    print(f"{recordings}/NODE  {count} recordings: {replay}")
    print(f"{config}  the same as a file: topo-master --mode=config --config-file={config}")


@app.command()
def clustermanager(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY",
            help="Holds its authority (ca.pem), credentials (secret/) and address (ready.json).",
        ),
    ],
    world: WorldName = "demo",
    *,
    port: Annotated[int, typer.Option(min=0, max=65535, help="HTTPS port; 0: a free one.")] = 0,
    control_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port for faults on demand; 0: a free one.")
    ] = 0,
    token_ttl: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How long a login lasts.")
    ] = 3600.0,
) -> None:
    """Run a simulated cluster manager: HTTPS, accounts, events, faults on demand."""
    import asyncio

    from topo.cli import worlds
    from topo.sim.clustermanager.server import SimulatorSettings, serve
    from topo.sim.worlds.presets import managed_topology

    settings = SimulatorSettings(
        directory=directory,
        topology=managed_topology(worlds.chosen(world)),
        port=port,
        control_port=control_port,
        token_ttl_s=token_ttl,
    )
    with _serving(directory, port):
        asyncio.run(serve(settings))


@app.command()
def kubernetes(
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIRECTORY",
            help="Holds its authority (ca.pem), kubeconfigs and objects.",
        ),
    ],
    world: WorldName = "demo",
    *,
    port: Annotated[int, typer.Option(min=1, max=65535, help="HTTPS port.")],
    admission_port: Annotated[
        int, typer.Option(min=1, max=65535, help="Where the master's webhook is on this machine.")
    ],
) -> None:
    """Run a simulated Kubernetes: an API server, Jobs, a scheduler and kubelets."""
    import asyncio

    from topo.cli import worlds
    from topo.sim.kubernetes.access import NAMESPACE, prepare_access
    from topo.sim.kubernetes.install import ADMISSION
    from topo.sim.kubernetes.server import LOOPBACK, KubernetesSettings, serve

    settings = KubernetesSettings(
        directory=directory,
        nodes=worlds.chosen(world).nodes,
        port=port,
        services={(NAMESPACE, ADMISSION): (LOOPBACK, admission_port)},
    )
    with _serving(directory, port):
        prepare_access(directory, LOOPBACK, port)
        asyncio.run(serve(settings))


@contextmanager
def _serving(directory: Path, port: int) -> Iterator[None]:
    """Make the directory of a simulated service; tell which part of the machine refuses it."""
    from topo.cli.exit_codes import CliError, Exit
    from topo.model.errors import Refusal

    try:
        directory.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        what = str(error.strerror or error)
        refusal = Refusal(what, f"{directory}, port {port}", "choose others")
        raise CliError(Exit.FINDING, refusal) from None


@app.command()
def workers(
    world: WorldName = "demo",
    *,
    server_address: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="The master's port for reports.")
    ] = "127.0.0.1:10001",
    worker_token_file: Annotated[
        Path,
        typer.Option(metavar="FILE", exists=True, dir_okay=False, help="The master's own."),
    ],
    faults: Annotated[
        Path,
        typer.Option(metavar="DIRECTORY", help="Has NODE/faults.txt where a node is to fail."),
    ] = Path("faults"),
) -> None:
    """Simulate the workers of a whole cluster in one process: 10,000 nodes on one machine."""
    import asyncio

    from topo.cli import worlds
    from topo.cli.demo.faults import FAULTS_FILE
    from topo.cli.exit_codes import usage
    from topo.sim.fleet.facts import facts_of_host
    from topo.sim.fleet.reporting import Fleet, FleetWorker, tokens_of

    hosts = worlds.chosen(world).nodes
    tokens = tokens_of(worker_token_file.read_text("utf-8").splitlines())
    if missing := [host.name for host in hosts if host.name not in tokens]:
        what = f"no token for {missing[0]} ({len(missing)} of {len(hosts)} nodes)"
        raise usage(
            what, f"--worker-token-file {worker_token_file}", "a line `NODE TOKEN` for each node"
        )
    fleet = Fleet(
        f"http://{server_address}",
        [
            FleetWorker(facts_of_host(host), tokens[host.name], faults / host.name / FAULTS_FILE)
            for host in hosts
        ],
    )
    asyncio.run(fleet.run())

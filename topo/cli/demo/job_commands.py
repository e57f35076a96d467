# ruff: noqa: PLC0415 - what is heavy is imported when a command runs; see main.py
"""`topo demo submit`, `jobs` and `finish`: jobs for the demo's simulated Kubernetes."""

import sys
from typing import Annotated, Literal

import typer

from topo.cli.options import Output, OutputFormat

MOST_PODS = 1024
"""Of one job: each costs the simulated cluster some ten writes."""


def submit(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="Else train-1, train-2, …", show_default=False),
    ] = None,
    *,
    pods: Annotated[int, typer.Option(min=1, max=MOST_PODS, help="Pods that start together.")] = 4,
    gpus: Annotated[
        int | None,
        typer.Option(min=0, max=128, help="GPUs of a pod; else all of a node.", show_default=False),
    ] = None,
    group_size: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="GPUs that must share a group; else those of two pods. 0: the job asks for none.",
            show_default=False,
        ),
    ] = None,
    mode: Annotated[
        Literal["required", "preferred"] | None,
        typer.Option(help="Whether groups may be split.", show_default=False),
    ] = None,
    within: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="All of it in one of these, as switchbox.", show_default=False
        ),
    ] = None,
    run: Annotated[
        int | None,
        typer.Option(min=1, metavar="SECONDS", help="It ends after so long.", show_default=False),
    ] = None,
) -> None:
    """Submit a Job, as `kubectl create` does; its pods wait for whole groups of nodes."""
    from topo.cli.demo import jobs

    asked = jobs.AskedJob(
        name=name,
        pods=pods,
        gpus=gpus,
        group_size=group_size,
        mode=mode,
        within=within,
        run_s=run,
    )
    created, warnings = jobs.submit(asked)
    for text in warnings:
        print(f"Warning: {text}", file=sys.stderr)
    print(f"{created} is submitted; `topo why {created}` says where it goes, or why it waits")


def jobs(*, output: OutputFormat = Output.TABLE) -> None:
    """List the jobs: how many of their pods run, and on which nodes."""
    from topo.cli.client import connection
    from topo.cli.demo import jobs

    connection.print_document(
        found := jobs.listed(), output, lambda glyphs: jobs.render(found, glyphs)
    )


def finish(
    name: Annotated[str, typer.Argument(metavar="JOB", help="Its name.", show_default=False)],
) -> None:
    """Let a job end, so that its nodes are free; one that waits is deleted."""
    from topo.cli.demo import jobs

    print(jobs.finish(name))

"""`python -m bench [NAME…]`: runs the benchmarks, prints the table, writes bench/results.json."""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from bench import report
from bench.discovery import core, documents, fabric_dump, loop_blocks, wiring
from bench.figure import Figure
from bench.kubernetes import node_list, writes
from bench.machine import environment
from bench.placement import figures, streams
from bench.placement import http as placement_http
from bench.report import Outcome
from bench.scale import FULL, QUICK, CannotRunError, Progress, Scale
from bench.scheduling import jobs, pod_groups
from bench.services import (
    admission,
    doors,
    extender,
    fleet,
    footprint,
    history,
    http,
    journeys,
    page,
    worker,
)

Benchmark = Callable[[Scale, Progress], Iterator[Figure]]

BENCHMARKS: Mapping[str, Benchmark] = {
    "core": core.measure,
    "documents": documents.measure,
    "fabric_dump": fabric_dump.measure,
    "http": http.measure,
    "node_list": node_list.measure,
    "loop_blocks": loop_blocks.measure,
    "history": history.measure,
    "fleet": fleet.measure,
    "footprint": footprint.measure,
    "worker": worker.measure,
    "placement": figures.measure,
    "placement_http": placement_http.measure,
    "streams": streams.measure,
    "admission": admission.measure,
    "extender": extender.measure,
    "doors": doors.measure,
    "journeys": journeys.measure,
    "wiring": wiring.measure,
}
"""In the order in which they run."""
ON_DEMAND: Mapping[str, Benchmark] = {
    "page": page.measure,
    "kube": writes.measure,
    **jobs.sizes(100, 1_000, 5_000, 10_000),
    **pod_groups.sizes(64, 1_000, 5_000),
}
"""They run where they are named: they need more than this package."""


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code: 0 when every benchmark ran, met or missed; 1 when one could not run."""
    options = _options(argv)
    about = environment()
    console = Console(stderr=True)
    scale = QUICK if options.quick else FULL
    outcomes = [_run(name, scale, console) for name in options.names or BENCHMARKS]
    report.shown(outcomes, about["load_average_before"])
    output = options.output or (None if options.quick else report.RESULTS)
    if output is not None:
        report.write(output, outcomes, about)
        print(f"written to {output}")
    return int(any(outcome.trouble for outcome in outcomes))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench", description="Figures beside their budgets. A miss fails nothing."
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        choices=[[], *BENCHMARKS, *ON_DEMAND],
        help=", ".join([*BENCHMARKS, *ON_DEMAND]),
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="tiny sizes: shows that everything runs; the figures mean nothing and are not kept",
    )
    parser.add_argument("--output", type=Path, help=f"instead of {report.RESULTS.name}")
    return parser.parse_args(argv)


def _run(name: str, scale: Scale, console: Console) -> Outcome:
    began_s = time.monotonic()
    figures: list[Figure] = []
    trouble = ""

    def progress(what: str) -> None:
        console.print(f"{time.monotonic() - began_s:6.1f} s  {name}: {what}", highlight=False)

    try:
        for figure in {**BENCHMARKS, **ON_DEMAND}[name](scale, progress):
            figures.append(figure)  # noqa: PERF402 - what was had before a failure is kept
    except Exception as error:  # noqa: BLE001 - whatever it is, the others run and this is said
        trouble = "; ".join(dict.fromkeys(_messages(error)))
        progress(f"could not run: {trouble}")
    return Outcome(name, tuple(figures), time.monotonic() - began_s, trouble)


def _messages(error: BaseException) -> Iterator[str]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _messages(inner)
    else:
        yield str(error) if isinstance(error, CannotRunError) else repr(error)


if __name__ == "__main__":
    sys.exit(main())

"""The benchmarks run, say what they found, and never call a miss anything else."""

import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest
from rich.console import Console

from bench import __main__ as command
from bench import cluster, figure, report
from bench.figure import Figure, at_least, at_most
from bench.processes import in_child, process
from bench.report import Outcome
from bench.scale import CannotRunError, Progress, Scale
from topo.sim.fleet.facts import facts_of_host

QUICK = Scale(nodes=8, builds=1)

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks.md"


def fine_and_late(_scale: Scale, progress: Progress) -> Iterator[Figure]:
    progress("measuring")
    yield Figure("quick enough", figure.exact(3.0), "ms", at_most(10))
    yield Figure("too slow", figure.median([40.0, 50.0, 60.0]), "ms", at_most(10), "why [so]")
    yield Figure("just a number", figure.exact(7.0), "kB")


def broken(_scale: Scale, _progress: Progress) -> Iterator[Figure]:
    yield Figure("had before", figure.exact(1.0), "ms")
    raise CannotRunError("there is no such machine")


def shown(*outcomes: Outcome) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(report.table(outcomes))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def line(text: str, words: str) -> str:
    return next(row for row in text.splitlines() if words in row)


def test_a_miss_is_shown_as_a_miss():
    text = shown(Outcome("some", tuple(fine_and_late(QUICK, print)), 1.0))
    assert "MISSED" in line(text, "too slow")
    assert "≤ 10 ms" in line(text, "too slow")
    assert "min-max: 40 - 60" in line(text, "too slow")
    assert "why [so]" in text
    assert "met" in line(text, "quick enough")
    assert "met" not in line(text, "just a number")


def test_a_budget_may_be_a_floor():
    assert Figure("rate", figure.exact(1999), "req/s", at_least(2000)).met is False
    assert Figure("rate", figure.exact(2000), "req/s", at_least(2000)).met is True


def test_a_miss_fails_nothing_and_is_written_down(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BENCHMARKS", {"some": fine_and_late})
    output = tmp_path / "results.json"
    assert command.main(["--output", str(output)]) == 0
    entry = orjson.loads(output.read_bytes())["benchmarks"]["some"]
    assert [f["verdict"] for f in entry["figures"]] == ["met", "missed", None]
    assert entry["figures"][1]["budget"] == "≤ 10"
    assert {"commit", "seed", "cpu", "cores", "python", "libraries", "at"} <= entry.keys()
    told = capsys.readouterr()
    assert "1 of 2 budgets met" in told.out
    assert "some: measuring" in told.err


def test_a_benchmark_that_cannot_run_is_named_and_the_others_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(command, "BENCHMARKS", {"bad": broken, "some": fine_and_late})
    output = tmp_path / "results.json"
    assert command.main(["--output", str(output)]) == 1
    written = orjson.loads(output.read_bytes())["benchmarks"]
    assert written["bad"]["trouble"] == "there is no such machine"
    assert len(written["bad"]["figures"]) == 1
    assert len(written["some"]["figures"]) == 3
    assert "could not run: there is no such machine" in capsys.readouterr().out


def test_benchmarks_that_did_not_run_keep_their_entry(tmp_path):
    path = tmp_path / "results.json"
    figures = tuple(fine_and_late(QUICK, print))
    report.write(path, [Outcome("one", figures, 1.0), Outcome("two", figures, 1.0)], {"seed": 1})
    report.write(path, [Outcome("two", figures[:1], 1.0)], {"seed": 2})
    written = orjson.loads(path.read_bytes())["benchmarks"]
    assert (written["one"]["seed"], len(written["one"]["figures"])) == (1, 3)
    assert (written["two"]["seed"], len(written["two"]["figures"])) == (2, 1)


def test_an_unknown_name_is_refused_with_the_known_ones(capsys):
    with pytest.raises(SystemExit) as refusal:
        command.main(["cores"])
    assert refusal.value.code == 2
    assert "'core'" in capsys.readouterr().err


def test_percentiles_are_nearest_ranks():
    samples = [float(n) for n in range(1, 101)]
    assert [figure.percentile(samples, rank) for rank in (1, 50, 99, 100)] == [1, 50, 99, 100]
    assert figure.percentile([5.0], 99) == 5.0


def test_the_growth_exponent_is_the_power():
    times = [(n, 3e-6 * n**1.5) for n in (1_000, 10_000, 100_000)]
    assert figure.growth_exponent(times) == pytest.approx(1.5)


def test_facts_survive_the_wire():
    world = cluster.cluster(4)
    assert list(cluster.as_master_holds(world)) == [facts_of_host(n) for n in world.nodes]


def test_a_process_that_dies_at_its_start_is_told_with_its_last_words(tmp_path):
    argv = (sys.executable, "-c", "print('no such flag'); raise SystemExit(2)")
    with (
        process("somebody", argv, tmp_path) as running,
        pytest.raises(CannotRunError, match=r"somebody: no port.*no such flag"),
    ):
        running.wait_for(lambda: None, "port")


def test_a_process_is_gone_after_its_block(tmp_path):
    argv = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(60)")
    with process("somebody", argv, tmp_path) as running:
        running.wait_for(lambda: running.log.read_bytes() or None, "word")
    assert running.child.returncode is not None


def test_a_measuring_process_that_dies_is_no_figure():
    with pytest.raises(CannotRunError, match="died"):
        in_child(die)


def die() -> None:
    """Ends its process as the kernel does when memory is short."""
    import os  # noqa: PLC0415 - runs in the child only
    import signal  # noqa: PLC0415

    os.kill(os.getpid(), signal.SIGKILL)


DEAREST = ("fleet", "history", "journeys", "loop_blocks", "placement", "streams")
"""Most of the processor time of all, at tiny sizes, too."""
OTHERS = tuple(name for name in command.BENCHMARKS if name not in DEAREST)


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(OTHERS, marks=pytest.mark.slow, id="most"),
        pytest.param(DEAREST, marks=pytest.mark.deep, id="dearest"),
    ],
)
def test_every_benchmark_runs_at_tiny_sizes(tmp_path, names):
    output = tmp_path / "results.json"
    argv = (sys.executable, "-m", "bench", "--quick", "--output", str(output), *names)
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    written = orjson.loads(output.read_bytes())["benchmarks"]
    assert written.keys() == {*names}
    assert all(entry["figures"] and not entry["trouble"] for entry in written.values())


def test_the_page_has_a_row_or_a_section_for_every_benchmark_and_for_no_other() -> None:
    """`schedule-1000` and its siblings are one section: they differ in their number of nodes."""
    named = re.findall(r"^(?:\| `|## )(\w+)(?:` \|.*)?$", PAGE.read_text(), re.MULTILINE)
    names = [name.partition("-")[0] for name in (*command.BENCHMARKS, *command.ON_DEMAND)]
    assert sorted(named) == sorted(set(names))

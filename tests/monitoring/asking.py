"""A real Prometheus, asked as Grafana asks it."""

import json
import math
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from monitoring.dashboards.board import Board, Section
from tests.e2e.controlplane.processes import Program
from tests.support.ports import free_ports
from tests.support.waiting import CEILING_S

INTERVAL = "1m"
"""What Grafana puts for `$__rate_interval`: four times how often Prometheus reads, at least."""
_VARIABLE = re.compile(r"\$(\w+)")


@dataclass(frozen=True)
class Prometheus:
    """One that listens at `url`, or does not yet."""

    url: str

    def ask(self, path: str, **given: str) -> Any:
        """The data of an answer; None while nobody answers."""
        query = f"?{urlencode(given)}" if given else ""
        try:
            with urlopen(f"{self.url}/api/v1/{path}{query}", timeout=CEILING_S) as answer:  # noqa: S310
                return json.loads(answer.read())["data"]
        except URLError as error:
            if isinstance(error.reason, ConnectionError):
                return None
            raise

    def query(self, expr: str) -> list[tuple[dict[str, str], float]]:
        """The series of an expression now, those without a number left out."""
        found = (self.ask("query", query=expr) or {"result": []})["result"]
        values = ((each["metric"], float(each["value"][1])) for each in found)
        return [(labels, value) for labels, value in values if not math.isnan(value)]

    def has_read(self, targets: int, times: int) -> bool:
        """Whether so many targets were read well so many times."""
        return len(self.query(f"sum_over_time(up[1h]) >= {times}")) >= targets


def silent(
    prometheus: Prometheus, boards: Iterable[tuple[Board, Section]], chosen: Mapping[str, str]
) -> Iterator[str]:
    """The queries of these sections to which Prometheus has no answer, with where they stand."""
    values = {"__rate_interval": INTERVAL, **chosen}
    for board, section in boards:
        for panel in section.panels:
            for query in panel.queries:
                expr = _VARIABLE.sub(lambda found: values[found[1]], query.expr)
                if not prometheus.query(expr):
                    yield f"{board.name} / {section.title} / {panel.title}: {expr}"


@contextmanager
def reading(masters: Iterable[str], home: Path) -> Iterator[Prometheus | None]:
    """A Prometheus that reads these masters, each a host with a port, once a second.

    None where the program is not there.
    """
    found = shutil.which("prometheus")
    if found is None:
        yield None
        return
    (port,) = free_ports((0,))
    job = {"job_name": "topo-master", "static_configs": [{"targets": [*masters]}]}
    every = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    config = home / "prometheus.yml"
    config.write_text(json.dumps({"global": every, "scrape_configs": [job]}))
    argv = (
        found,
        f"--config.file={config}",
        f"--storage.tsdb.path={home / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    )
    program = Program("prometheus", argv, home / "prometheus.log")
    program.start()
    try:
        yield Prometheus(f"http://127.0.0.1:{port}")
    finally:
        program.stop()

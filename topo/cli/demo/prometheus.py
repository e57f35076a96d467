"""A Prometheus beside the demo, which reads the metrics of its master and of each worker."""

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topo.cli.demo.plan import DemoFiles, DemoPorts
from topo.cli.demo.processes import LOOPBACK, Program
from topo.cli.exit_codes import usage

USUAL_PORT = 9090
_EACH = "1s"
"""How often it reads: what is broken in the demo is to be seen at once."""


@dataclass(frozen=True, slots=True)
class Prometheus:
    """The program, and a file of alert rules that it judges by, where there is one."""

    path: str
    rules: Path | None = None

    def program(self, files: DemoFiles, nodes: Sequence[str], ports: DemoPorts) -> Program:
        """Write its configuration; the process is given back, not started."""
        home = files.prometheus
        home.mkdir()
        config = home / "prometheus.yml"
        config.write_text(json.dumps(self._config(nodes, ports), indent=1))
        argv = (
            self.path,
            f"--config.file={config}",
            f"--storage.tsdb.path={home / 'data'}",
            f"--web.listen-address={LOOPBACK}:{ports.prometheus}",
            "--log.level=warn",
        )
        return Program("prometheus", argv, files.logs / "prometheus.log")

    def _config(self, nodes: Sequence[str], ports: DemoPorts) -> dict[str, Any]:
        """As JSON, which YAML reads; the series of a worker carry `node`, as in a cluster."""
        workers = [
            {"targets": [f"{LOOPBACK}:{port}"], "labels": {"node": node}}
            for node, port in zip(nodes, ports.workers, strict=True)
        ]
        master = [{"targets": [f"{LOOPBACK}:{ports.api}"]}]
        jobs = (("topo-master", master), ("topo-worker", workers))
        return {
            "global": {
                "scrape_interval": _EACH,
                "scrape_timeout": _EACH,
                "evaluation_interval": _EACH,
            },
            "rule_files": [] if self.rules is None else [str(self.rules.absolute())],
            "scrape_configs": [
                {"job_name": name, "static_configs": targets} for name, targets in jobs
            ],
        }


def found(rules: Path | None) -> Prometheus:
    """Return the Prometheus of this machine; raises `CliError` where there is none."""
    path = shutil.which("prometheus")
    if path is None:
        fix = "install it (Debian: apt install prometheus), or put the directory of it on PATH"
        raise usage("there is no program `prometheus` on this machine", "--prometheus", fix)
    return Prometheus(path, rules)

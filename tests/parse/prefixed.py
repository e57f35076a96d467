"""What log collectors, parallel shells and mails put around an output: one builder per kind."""

import json
from collections.abc import Callable
from functools import partial
from itertools import zip_longest

_TIMES = ("2026-05-06T07:08:09.{:09}Z", "2026-05-06T07:08:09.{:06}+02:00")


def _lines(text: str, prefix: Callable[[int], str]) -> str:
    """The text with a prefix on every line; the last line ends as it did."""
    body, end = (text[:-1], "\n") if text.endswith("\n") else (text, "")
    return "\n".join(f"{prefix(n)}{line}" for n, line in enumerate(body.split("\n"))) + end


def _docker_log(text: str) -> str:
    """As the driver json-file writes it: an object per line."""
    return "".join(
        json.dumps({"log": line, "stream": "stdout", "time": _TIMES[0].format(number)}) + "\n"
        for number, line in enumerate(text.splitlines(keepends=True))
    )


BY_LINE: dict[str, Callable[[int], str]] = {
    "CRI log": lambda n: f"{_TIMES[1].format(n)} {'stderr' if n % 7 == 3 else 'stdout'} F ",
    "syslog, RFC 5424": lambda n: f"<14>1 {_TIMES[0].format(n)} node-1 probe 4711 - - ",
    "syslog with ISO times": lambda n: f"{_TIMES[1].format(n)} node-1 probe[4711]: ",
    "timestamps of `kubectl logs`, `docker logs`": lambda n: f"{_TIMES[0].format(n)} ",
    "timestamps in brackets": lambda n: f"[{n:5}.{n:06}] ",
    "syslog, journalctl": lambda n: f"May  6 07:08:{n % 60:02} node-1 probe[4711]: ",
    "timestamps of `ts`": lambda n: f"May 06 07:08:{n % 60:02} ",
    "`kubectl logs --prefix`": lambda _: "[pod/probe-x7k2p/smi] ",
    "`docker compose`": lambda _: "topo-worker-1  | ",
    "`pdsh`, `clush`": lambda _: "node-1: ",
    "`srun -l`": lambda _: " 0: ",
    "`cat -n`": lambda n: f"{n + 1:6}\t",
    "quotation": lambda _: "> ",
}
"""By the name of the kind."""
NESTED: dict[str, Callable[[int], str]] = {
    "kubectl --prefix --timestamps": lambda n: f"[pod/probe/smi] {_TIMES[0].format(n)} ",
    "compose -t": lambda n: f"topo-worker-1  | {_TIMES[0].format(n)} ",
    "a mail that quotes a mail": lambda _: "> > ",
    "pdsh of kubectl logs": lambda n: f"node-1: {_TIMES[0].format(n)} ",
    "Jenkins": lambda n: f"[2026-05-06T07:08:09.{n:03}Z] ",
    "Python's logging": lambda n: f"2026-05-06 07:08:09,{n:03} ",
}
AROUND: dict[str, Callable[[str], str]] = {
    **{name: partial(_lines, prefix=prefix) for name, prefix in (BY_LINE | NESTED).items()},
    "JSON string": json.dumps,
    "JSON string of ASCII": lambda text: json.dumps(text, ensure_ascii=True),
    "escapes alone": lambda text: json.dumps(text)[1:-1],
    "Ansible": lambda text: json.dumps({"changed": True, "stdout": text, "stderr": "", "rc": 0}),
    "an object on lines of its own": lambda text: json.dumps({"rc": 0, "output": text}, indent=2),
    "Docker's json-file": _docker_log,
}
"""Everything that may be around an output."""


def mixed(text: str, other: str, kind: str) -> tuple[str, str]:
    """Two sources under one kind of prefix: line by line, and one after the other."""
    prefix = (BY_LINE | NESTED)[kind]
    here = _lines(text, prefix).splitlines()
    there = _lines(other, lambda n: _of_another(prefix(n))).splitlines()
    pairs = zip_longest(here, there)
    by_line = [line for pair in pairs for line in pair if line is not None]
    return "\n".join([*by_line, ""]), "\n".join([*here, *there, ""])


def _of_another(prefix: str) -> str:
    """The same prefix of another host, pod, service or task."""
    return (
        prefix.replace("node-1", "node-2")
        .replace("worker-1", "worker-2")
        .replace("pod/probe", "pod/other")
        .replace(" 0: ", " 1: ")
    )

"""Examples at the end of `--help`, by command; a test parses every one of them."""

from collections.abc import Iterator, Mapping
from typing import Any

import typer

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "": ("topo doctor", "topo tree --watch", "topo demo"),
    "tree": (
        "topo tree --problems",
        "topo tree --watch --group switchbox-sample1",
        "topo tree -o json --master https://topo.example.com:9001 --ca-file ca.pem",
    ),
    "nodes": (
        "topo nodes --status notready",
        "topo nodes 'rack4-*' --free 8 -o name",
        "topo nodes -o csv",
    ),
    "nodes list": ("topo nodes list --free 8",),
    "nodes quarantine": ("topo nodes quarantine node-7 --reason 'cable ordered'",),
    "nodes confirm": (
        "topo nodes confirm node-7 --link 'mlx5_3 port 1' --reason 'seen at the switch'",
    ),
    "nodes clear": ("topo nodes clear node-7",),
    "node": ("topo node node-sample3",),
    "gpus": ("topo gpus node-sample3 -n 4", "topo gpus node-sample3 -n 2 --free 0,1,2,5"),
    "diff": ("topo diff", "topo diff 30m", "topo diff 17 21"),
    "history": ("topo history --from 2h",),
    "doctor": ("topo doctor", "topo doctor --kubeconfig ~/.kube/config"),
    "place": (
        "topo place --pods 4 --gpus 8 --group-size 16",
        "topo place --pods 4 --gpus 8 --group-size 16 -o nodes",
        "topo place --pods 2 --gpus 8 --hold 10m",
    ),
    "fragmentation": ("topo fragmentation",),
    "export": (
        "topo export -o fabric.json",
        "topo export --format dot -o - | dot -Tsvg > it.svg",
        "topo export --format slurm-tree -o /etc/slurm/topology.conf --exit-code",
        "topo export --format excluded-hostlist",
    ),
    "wiring": ("topo wiring check plan.csv",),
    "wiring check": (
        "topo wiring check plan.csv",
        "topo wiring check plan.csv --seen subnet-1.txt -o csv",
    ),
    "gangs": ("topo gangs --namespace train",),
    "why": ("topo why pytorch-demo", "topo why train/pytorch-demo --history"),
    "parse": ("mx-smi topo -m | topo parse -", "topo parse nvidia-smi.txt -o json"),
    "version": ("topo version",),
    "holds": ("topo holds",),
    "holds show": ("topo holds show ID",),
    "holds commit": ("topo holds commit ID --token-file token",),
    "holds release": ("topo holds release ID --token-file token",),
    "gates open": ("topo gates open train/pytorch-demo --token-file token",),
    "demo": ("topo demo", "topo demo --world nvl72-18x4"),
    "demo cut": ("topo demo cut node-sample3",),
    "demo fault": ("topo demo fault 'gpu 2 of node-sample1 fails'",),
    "demo heal": ("topo demo heal",),
    "demo submit": (
        "topo demo submit",
        "topo demo submit big --pods 6 --within switchbox",
        "topo demo submit short --run 30",
    ),
    "demo jobs": ("topo demo jobs",),
    "demo finish": ("topo demo finish train-1",),
    "demo status": ("topo demo status",),
    "sim place": ("topo sim place --pods 4 --gpus 8 --group-size 16",),
}
"""The command without its first word → lines for a shell. Long names of options but the usual."""


def complete_help(root: Any) -> None:
    """Give every command its examples, and leave `<bool>` and `<list[str]>` out of its help."""
    for path, command in _all(root, ()):
        if lines := EXAMPLES.get(" ".join(path)):
            command.epilog = "Examples:\n" + "\n".join(lines)
        # The command keeps the option, so it is made with the names of the root: -h, too.
        help_option = command.get_help_option(typer.Context(command, **root.context_settings))
        for parameter in (*command.params, help_option):
            if getattr(parameter, "is_flag", parameter.param_type_name == "argument"):
                parameter.display_type_rich = _no_type


def _no_type(**_: Any) -> None:
    """Return what typer shows of a type that says nothing to a person."""


def _all(command: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        yield from _all(child, (*path, name))

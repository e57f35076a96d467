"""What the demo says on the terminal while it starts, runs and ends, and of its state."""

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType
from rich.console import Group as Stack
from rich.text import Text

from topo.cli.demo import suggestions
from topo.cli.demo.plan import MOST_WORKERS, DemoPorts, is_managed
from topo.cli.demo.processes import Died
from topo.cli.demo_directory import Demo
from topo.cli.render import changes, terminal
from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Indented
from topo.cli.render.shapes.rows import table
from topo.cli.render.tree import render_topology
from topo.cli.render.words import plural
from topo.model.errors import Refusal
from topo.model.rest.changes import ChangeDocument
from topo.model.rest.topology import TopologyDocument
from topo.sim.worlds.presets import World

if TYPE_CHECKING:
    from rich.status import Status


_GROUPS_SHOWN = 64


def _nodes(document: TopologyDocument) -> int:
    return sum(group["capacity"]["nodes"] for group in document["groups"])


class Messages:
    """Prints to one console; a terminal also gets a progress line while the demo starts."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._marks = terminal.glyphs(console)
        self._status: Status | None = None

    def print_starting(self, world: World, ports: DemoPorts, usual: DemoPorts) -> None:
        """Print that the demo starts, and which usual ports are replaced because they are taken."""
        managed, nodes = is_managed(world), len(world.nodes)
        parts = ["a cluster manager"] if managed else []
        parts += ["a Kubernetes"] if ports.kubernetes else []
        parts.append(f"{nodes} worker{plural(nodes)}")
        self._print(f"starting {', '.join(parts)} and a master on this machine")
        needed = ("api", "reports", "manager") if managed else ("api", "reports")
        for wanted, port in ((getattr(usual, name), getattr(ports, name)) for name in needed):
            if wanted != port:
                self._print(f"port {wanted} is taken, using {port} instead", "yellow")
        if self._console.is_terminal:
            self._status = self._console.status("starting the processes")
            self._status.start()

    def update_progress(self, words: str) -> None:
        """Change the progress line; do nothing where there is none."""
        if self._status is not None:
            self._status.update(words)

    def print_ready(self, document: TopologyDocument, seconds: float) -> None:
        """Print the complete tree and the seconds until all of it was Ready."""
        self._end_progress()
        self._print(f"the tree is complete after {seconds:.1f} s", "green")
        self._console.print()
        if len(document["groups"]) <= _GROUPS_SHOWN and _nodes(document) <= MOST_WORKERS:
            self.print_tree(document)
        else:
            groups = len(document["groups"])
            self._print(f"{_nodes(document)} nodes in {groups} groups; `topo tree --depth 1`")

    def print_tree(self, document: TopologyDocument) -> None:
        """Print a tree in any state."""
        self._end_progress()
        self._console.print(render_topology(document, self._marks))

    def print_suggestions(self, world: World, demo: Demo) -> None:
        """Print the URL and commands to try."""
        self._console.print(f"\nThe API is at {demo.master}/node_group. Try in another terminal:")
        prepared = [(line, "") for line in suggestions.preparation()]
        rows = (
            (command, Text(what, style="dim"))
            for command, what in (*prepared, *suggestions.tries(world, demo))
        )
        self._console.print(Indented(table("", "", rows=rows)))
        if demo.prometheus:
            self._console.print(f"\nPrometheus is at {demo.prometheus}: a data source for Grafana.")
        self._console.print("\nChanges appear below; Ctrl-C ends everything.\n", style="bold")

    def print_changes(self, moved: Iterable[ChangeDocument]) -> None:
        """Print one line per change."""
        for change in moved:
            self._console.print(changes.render_change(change, self._marks, before=_now()))

    def print_lost(self, refusal: Refusal) -> None:
        """Print that the master does not answer, and why."""
        self._print_with_time(
            Text(f"{self._marks.attention} {plain(refusal.what)}", style="yellow")
        )

    def print_found(self, generation: int) -> None:
        """Print that the master answers again."""
        text = f"{self._marks.ready} the master answers again, generation {generation}"
        self._print_with_time(Text(text, style="green"))

    def print_death(self, death: Died) -> None:
        """Print which process died, how, the end of its log, and when it is restarted."""
        words = (
            f"{self._marks.attention} {death.program.name} (pid {death.pid}) {death.how}; "
            f"starting it again in {death.restart_in_s:g} s"
        )
        self._print_with_time(Text(words, style="yellow"))
        for line in death.last_lines:
            self._console.print(Hanging(Text("    "), Text(plain(line), style="dim")))

    def print_ended(self) -> None:
        """Print that everything is stopped and removed."""
        self._end_progress()
        self._print("everything is stopped and removed")

    def _end_progress(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def _print_with_time(self, text: Text) -> None:
        self._console.print(Hanging(_now(), text))

    def _print(self, words: str, style: str = "dim") -> None:
        self._console.print(words, style=style)


def _now() -> Text:
    return Text(f"{time.strftime('%H:%M:%S')}  ", style="dim")


def render_status(demo: Demo, faults: Sequence[str], glyphs: terminal.Glyphs) -> RenderableType:
    """Return the address, a line per process and a line per active fault."""
    width = max((len(name) for name in demo.pids), default=0)
    return Stack(
        Text(f"{plain(demo.master)}/node_group", style="bold"),
        *([Text(plain(demo.prometheus), style="bold")] if demo.prometheus else []),
        *(
            Text(f"{glyphs.ready} ", style="green").append(
                f"{plain(name):{width}}  pid {pid}", "default"
            )
            for name, pid in demo.pids.items()
        ),
        *(Text(f"{glyphs.not_ready} {plain(fault)}", style="red") for fault in faults),
        *([] if faults else [Text("nothing is broken", style="dim")]),
    )

"""The state of a running demo for people."""

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.demo.runtime import Demo
from topo.cli.render.safe import plain
from topo.cli.render.terminal import Glyphs


def status(demo: Demo, faults: Sequence[str], glyphs: Glyphs) -> RenderableType:
    """Its address, a line per process, a line per active fault."""
    width = max((len(name) for name in demo.pids), default=0)
    return Stack(
        Text(f"{plain(demo.master)}/node_group", style="bold"),
        *(
            Text(f"{glyphs.ready} ", style="green").append(
                f"{plain(name):{width}}  pid {pid}", "default"
            )
            for name, pid in demo.pids.items()
        ),
        *(Text(f"{glyphs.not_ready} {plain(fault)}", style="red") for fault in faults),
        *([] if faults else [Text("nothing is broken", style="dim")]),
    )

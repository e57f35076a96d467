"""The doctor's findings for people."""

from collections.abc import Sequence

from rich.console import Group as Stack
from rich.console import RenderableType
from rich.text import Text

from topo.cli.render.safe import plain
from topo.cli.render.shapes.layout import Hanging, Verbatim
from topo.cli.render.terminal import Glyphs
from topo.cli.render.words import plural
from topo.diagnosis.finding import Finding
from topo.model.conditions.condition import Severity
from topo.model.durations import age


def render_findings(
    findings: Sequence[Finding], healthy: Sequence[str], glyphs: Glyphs
) -> RenderableType:
    """Render what is healthy, then each finding with its next step."""
    sign = Text(f"{glyphs.ready} ", style="green")
    well = [Hanging(sign, Text(plain(line), style="green")) for line in healthy]
    wrong = sum(finding.severity is Severity.WRONG for finding in findings)
    notes = len(findings) - wrong
    verdict = f"{wrong} finding{plural(wrong)}" if wrong else "nothing is wrong"
    verdict += f", {notes} note{plural(notes)}" if notes else ""
    return Stack(
        *well,
        *(_finding(finding, glyphs) for finding in findings),
        Text(f"\n{verdict}", style="bold red" if wrong else "bold green"),
    )


def _finding(finding: Finding, glyphs: Glyphs) -> Stack:
    wrong = finding.severity is Severity.WRONG
    sign = glyphs.not_ready if wrong else glyphs.attention
    line = Text().append(plain(finding.subject), style="bold")
    since_s = finding.since_s
    line.append(f"  {plain(finding.what)}")
    line.append("" if since_s is None else f" {glyphs.dot} for {age(since_s)}")
    line.append("  ")
    line.append(plain(finding.code), style="dim")
    step, *commands = map(plain, finding.next_step.split("\n"))
    return Stack(
        Hanging(Text(f"{sign} ", style="red" if wrong else "yellow"), line),
        Hanging(Text(f"  {glyphs.arrow} ", style="dim"), Text(step, style="dim")),
        *(Verbatim(command) for command in commands),
    )

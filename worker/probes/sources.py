"""The kinds of probes that a vendor has. A probe has the name of the format that it reads."""

from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from types import MappingProxyType

from topo.facts.registry import READERS
from topo.kit.process.modules import module
from worker.probes.commands import Command
from worker.probes.helper_process import HelperProcess
from worker.probes.probe import READING_TIMEOUT_S, Probe, Reading
from worker.settings import WorkerSettings

COMMAND_INTERVAL_S = 15.0
"""Between runs of `mx-smi` or `nvidia-smi`, and between scrapes of the exporter: on a node of eight
cards one takes up to two seconds of a core."""
COMMAND_TIMEOUT_S = 10.0
"""After which a command is killed, and a scrape given up."""
_COUNT_INTERVAL_S = 60.0
"""Who reads counters looks at them over minutes, and a vendor's tool opens every card anew."""


def library(settings: WorkerSettings, name: str, binding: str, *arguments: str) -> Probe:
    """A vendor library in a helper process; `binding` is its module: `worker.probes.helper`."""
    helper = HelperProcess((module(binding), *arguments))
    return Probe(
        name=name,
        format=name,
        interval_s=settings.probe_interval,
        timeout_s=READING_TIMEOUT_S,
        read=helper.read,
        close=helper.close,
    )


def command(
    name: str,
    *,
    instead_of: str,
    folders: Sequence[str] = (),
    exits: Mapping[int, str] = MappingProxyType({}),
) -> Probe:
    """Return the command that prints this format, looked for on the PATH and in `folders`."""
    tool = Command(READERS[name].command.split(), folders=folders, exits=exits)
    return stand_in(name, tool.read, instead_of=instead_of)


def counters(
    name: str,
    *,
    exits: Mapping[int, str] = MappingProxyType({}),
    absent_exits: Container[int] = (),
) -> Probe:
    """The command that prints counters of this format: for the metrics, not for the report."""
    words = READERS[name].command.split()
    return Probe(
        name=name,
        format=name,
        interval_s=_COUNT_INTERVAL_S,
        timeout_s=COMMAND_TIMEOUT_S,
        read=Command(words, exits=exits, absent_exits=absent_exits).read,
        awaited=False,
    )


def stand_in(name: str, read: Callable[[], Awaitable[Reading]], *, instead_of: str) -> Probe:
    """A source that is read while the probe `instead_of` does not answer all that it gives."""
    return Probe(
        name=name,
        format=name,
        interval_s=COMMAND_INTERVAL_S,
        timeout_s=COMMAND_TIMEOUT_S,
        read=read,
        instead_of=(instead_of,),
        gives=frozenset(READERS[name].gives),
    )

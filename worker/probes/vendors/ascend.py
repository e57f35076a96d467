"""Ascend: npu-smi, asked for the super pod of each chip."""

from collections.abc import Iterator

from topo.facts.ascend import spod_info
from topo.model.machine import ProbeState
from worker.probes.commands import Command
from worker.probes.probe import Probe, Reading, absent, failed, ok
from worker.settings import WorkerSettings

FOLDERS = ("/usr/local/sbin", "/usr/local/bin")
"""Where the driver puts npu-smi, beside the PATH."""
_CARDS, _CHIPS = 16, 2
"""More cards than any host has, and the most chips of one."""
_INTERVAL_S = 300.0
"""An output is of one chip; sixteen of them are some seconds of a core, and none changes while the
host runs."""
_OF_ALL = 12
"""Each so many readings, an hour, all chips are asked: one may come back that was gone at first."""
_TIMEOUT_S = 30.0
"""For all chips; the first report waits for it."""


class SuperPodTool:
    """npu-smi, run for one chip after the other: for those that have ever answered (for the first
    card while none has), and at first and then once an hour for all that may be there.
    """

    def __init__(self) -> None:
        words = spod_info.COMMAND.split()[:-4]
        self._commands = tuple(
            Command([*words, "-i", str(card), "-c", str(chip)], folders=FOLDERS)
            for card in range(_CARDS)
            for chip in range(_CHIPS)
        )
        self._answering: dict[Command, None] = {}
        self._readings = 0

    async def read(self) -> Reading:
        """Return the outputs of all chips that have one.

        Absent on a host whose chips never had one: a server that is in no super pod.
        """
        texts: list[str] = []
        why = ""
        asked = tuple(self._answering) or self._commands[:_CHIPS]
        if self._readings % _OF_ALL == 0:
            asked = self._commands
        self._readings += 1
        for command in asked:
            found = await command.read()
            if found.state is ProbeState.ABSENT:
                return found
            if found.state is ProbeState.OK and spod_info.BEGINS.search(found.text):
                texts.append(found.text.rstrip("\n"))
                self._answering[command] = None
            else:
                why = why or found.detail or "npu-smi states no super pod"
        if not texts:
            return failed(why) if self._answering else absent(why)
        return ok("".join(f"{text}\n" for text in texts))


def probes(settings: WorkerSettings) -> Iterator[Probe]:
    """Yield the super pod of the host's chips."""
    yield Probe(
        name=spod_info.FORMAT,
        format=spod_info.FORMAT,
        interval_s=max(_INTERVAL_S, settings.probe_interval),
        timeout_s=_TIMEOUT_S,
        read=SuperPodTool().read,
    )

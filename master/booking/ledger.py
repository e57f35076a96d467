"""What changed about holds, and how much of it is on disk: a promise is given when it is there."""

import asyncio

KEEP_S = 5.0
"""A disk that takes longer is one that cannot be written to."""


class Ledger:
    """Counts changes, and knows up to which of them the state file is written. On the loop only.

    Where nobody writes (`kept_on_disk` is false) nothing is waited for.
    """

    def __init__(self) -> None:
        self.kept_on_disk = False
        self.changed = asyncio.Event()
        """Set when there is something to be written."""
        self._changes = self._written = 0
        self._trouble = ""
        self._waiting: dict[asyncio.Future[str], int] = {}

    def note(self) -> None:
        """Something changed."""
        self._changes += 1
        self.changed.set()

    def begin(self) -> int:
        """How many changes a copy has that is made now, to be told to `written`."""
        self.changed.clear()
        return self._changes

    def written(self, changes: int) -> None:
        """So many changes are on disk."""
        self._trouble = ""
        self._written = max(self._written, changes)
        self._tell("", self._written)

    def failed(self, reason: str) -> None:
        """The disk could not be written to, for this reason; it is to be tried again."""
        self._trouble = reason
        self.changed.set()
        self._tell(reason, self._changes)

    async def kept(self) -> str:
        """Empty once all that changed before is on disk; else why it is not, within `KEEP_S`."""
        if not self.kept_on_disk or self._written >= self._changes:
            return ""
        if self._trouble:
            return self._trouble
        told: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._waiting[told] = self._changes
        try:
            async with asyncio.timeout(KEEP_S):
                return await told
        except TimeoutError:
            return f"it took more than {KEEP_S:g} s"
        finally:
            self._waiting.pop(told, None)

    def _tell(self, what: str, changes: int) -> None:
        for told, number in list(self._waiting.items()):
            if number <= changes and not told.done():
                told.set_result(what)

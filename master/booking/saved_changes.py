"""Which changes of holds are saved: a hold is promised once it is on disk."""

import asyncio

WAIT_S = 5.0
"""A disk that takes longer is one that cannot be written to."""


class SavedChanges:
    """Counts changes, and knows up to which of them the state is saved. On the loop only.

    Where nobody saves (`required` is false) nothing is waited for.
    """

    def __init__(self) -> None:
        self.required = False
        self.changed = asyncio.Event()
        """Set when there is something to be saved."""
        self._changes = self._saved = 0
        self._failure = ""
        self._ended = asyncio.Event()
        """Set, and replaced by another one, when saving has ended well or badly."""

    @property
    def changes(self) -> int:
        """How many there were so far."""
        return self._changes

    def count(self) -> None:
        """Something changed."""
        self._changes += 1
        self.changed.set()

    def start_save(self) -> int:
        """How many changes a copy has that is made now; to be given to `save_succeeded`."""
        self.changed.clear()
        return self._changes

    def save_succeeded(self, changes: int) -> None:
        """So many changes are saved."""
        self._failure = ""
        self._saved = max(self._saved, changes)
        self._wake()

    def save_failed(self, reason: str) -> None:
        """Saving failed for this reason; it is to be tried again."""
        self._failure = reason
        self.changed.set()
        self._wake()

    async def wait(self) -> str:
        """Empty once all that changed before is saved; else why it is not, within `WAIT_S`."""
        changes = self._changes
        try:
            async with asyncio.timeout(WAIT_S):
                while self.required and self._saved < changes and not self._failure:
                    await self._ended.wait()
        except TimeoutError:
            return f"it took more than {WAIT_S:g} s"
        return self._failure if self.required and self._saved < changes else ""

    def _wake(self) -> None:
        self._ended.set()
        self._ended = asyncio.Event()

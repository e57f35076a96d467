"""Which changes of holds are saved: a hold is promised once it is on disk."""

import asyncio

WAIT_S = 5.0
"""A disk that takes longer is one that cannot be written to."""


class SavedChanges:
    """Counts changes of holds, and up to which of them the state is saved. On the loop only.

    If nobody saves (`required` is false), nothing is waited for.
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
        """How many changes there were so far."""
        return self._changes

    def count(self) -> None:
        """Count a change."""
        self._changes += 1
        self.changed.set()

    def start_save(self) -> int:
        """Return the number of changes that a copy made now has, for `save_succeeded`."""
        self.changed.clear()
        return self._changes

    def save_succeeded(self, changes: int) -> None:
        """Note that so many changes are saved."""
        self._failure = ""
        self._saved = max(self._saved, changes)
        self._wake()

    def save_failed(self, reason: str) -> None:
        """Note that saving failed; it is tried again."""
        self._failure = reason
        self.changed.set()
        self._wake()

    async def wait(self) -> str:
        """Wait until all changes so far are saved; after `WAIT_S` return why not, or ""."""
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

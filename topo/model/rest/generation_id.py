"""Generations as the API writes them: `7`, or with the run of the master that counted it."""

import re
from dataclasses import dataclass

PATTERN = r"^[0-9]{1,18}(\.[0-9a-f]{8})?$"
_COMPILED = re.compile(PATTERN, re.ASCII)


@dataclass(frozen=True, slots=True)
class GenerationId:
    """A generation, such as `7.5e0c21af`; without a `run` it is one of whoever is asked.

    Another run counts other changes under the same numbers.
    """

    number: int
    run: str = ""

    @classmethod
    def read(cls, text: str) -> "GenerationId | None":
        """Parse a generation; return None for a text that is none."""
        if _COMPILED.fullmatch(text) is None:
            return None
        number, _, run = text.partition(".")
        return cls(int(number), run)

    def __str__(self) -> str:
        """Return the text that names it."""
        return f"{self.number}.{self.run}" if self.run else str(self.number)

    def is_of(self, run: str) -> bool:
        """Return whether the number counts in this run."""
        return self.run in ("", run)

    @property
    def previous(self) -> "GenerationId":
        """The generation before in the same run, at least generation 0."""
        return GenerationId(max(self.number - 1, 0), self.run)

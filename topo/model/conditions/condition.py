"""A row of the catalogue of condition codes.

A row is a member of a subclass of `Condition`: `NAME = Row("the-code", "its cause", "next step")`.
A member is a `str` equal to its code, so that it stands in documents, metrics and logs as it is.
"""

from enum import StrEnum
from typing import NamedTuple, Self


class Severity(StrEnum):
    """`wrong` makes the doctor's exit code 1, `note` does not."""

    WRONG = "wrong"
    NOTE = "note"


class Row(NamedTuple):
    """What the catalogue states of a code.

    `cause` completes the sentence of the table in which the documentation shows the row. `step` has
    words in capitals, such as NODE, for names that are known only when the condition occurs. A row
    has no step where each occurrence has one of its own.
    """

    code: str
    cause: str
    step: str = ""
    severity: Severity = Severity.WRONG


class Condition(StrEnum):
    """A condition code with its row. Has no members of its own; each subclass is a table."""

    cause: str
    step: str
    severity: Severity

    def __new__(
        cls, code: str, cause: str, step: str = "", severity: Severity = Severity.WRONG
    ) -> Self:
        """Make the member of a row, whose fields `Enum` gives one by one."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.cause, member.step, member.severity = cause, step, severity
        return member

    def next_step(self, **names: str) -> str:
        """Return the step with these names in place of its words in capitals."""
        text = self.step
        for word, name in names.items():
            text = text.replace(word, name)
        return text

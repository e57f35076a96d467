"""JMESPath expressions of a mapping file, and the values they find, with errors that name both.

Language: https://jmespath.org/specification.html.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import jmespath
from jmespath import exceptions as jmespath_exceptions
from jmespath import visitor
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from topo.discovery.manager.contract import LOOSE, shown_key
from topo.model.errors import BadInputError, Refusal
from topo.model.nearest import nearest

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
A_TEXT = "a text"
_KEYS_SHOWN = 12


class Expression:
    """A compiled JMESPath expression.

    A plain key, which most are, is looked up directly, five times as fast as the interpreter does
    it: a large inventory asks millions of them.
    """

    __slots__ = ("_interpreter", "_plain", "_tree", "text")

    def __init__(self, text: str) -> None:
        """Raise `JMESPathError` or `RecursionError` when the text is no expression we can use."""
        tree = jmespath.compile(text).parsed
        self.text = text
        self._tree = tree
        self._plain: str | None = tree["value"] if tree["type"] == "field" else None
        self._interpreter = visitor.TreeInterpreter()

    @property
    def first_word(self) -> str:
        """The key that the expression most likely means to start from; "" where it has none."""
        word = _WORD.search(self.text)
        return "" if word is None else word[0]

    def of(self, value: object) -> object:
        """Return what the expression yields from the value; None where it finds nothing.

        Raises `JMESPathError` when a function gets a value of a wrong type, and whatever else the
        interpreter stumbles over: a slice of step 0, values nested deeper than its stack.
        """
        if self._plain is not None:
            return value.get(self._plain) if isinstance(value, dict) else None
        return self._interpreter.visit(self._tree, value)


def _compiled(text: object) -> object:
    if not isinstance(text, str) or len(text) > 1024:
        raise PydanticCustomError(
            "expression",
            "a JMESPath expression is a text of at most 1024 characters",
            {"fix": "write the expression in quotes"},
        )
    try:
        return Expression(text)
    except (jmespath_exceptions.JMESPathError, RecursionError) as error:
        raise PydanticCustomError(
            "expression",
            "`{text}` is not JMESPath: {reason}",
            {
                "text": shown_key(text),
                "reason": _reason(error),
                "fix": "see https://jmespath.org/tutorial.html",
            },
        ) from None


Compiled = Annotated[Expression, BeforeValidator(_compiled)]


@dataclass(frozen=True, slots=True)
class AnswerValue:
    """A value of the manager's answer that expressions are asked of.

    `rules` is the place in the mapping file whose expressions are asked, `element` the number of
    the object among those that this rule's `each` yielded; None is the answer as a whole. `tried`
    collects the places of expressions that found something. Every method raises `BadInputError`
    where an expression fails or yields what it may not.
    """

    value: object
    rules: str
    element: int | None = None
    tried: set[str] | None = None

    def inner(self, key: str, index: int) -> "AnswerValue":
        """Return the same value, asked by a rule nested in this one."""
        return AnswerValue(self.value, f"{self.rules}.{key}[{index}]", self.element, self.tried)

    def found(self, rule: Expression, key: str) -> object:
        """Return whatever the expression yields."""
        try:
            found = rule.of(self.value)
        except Exception as error:  # noqa: BLE001 - the interpreter meets a stranger's values
            what = f"`{rule.text}` failed: {_reason(error)}"
            fix = "correct the expression"
            raise BadInputError(Refusal(what, self._where(key), fix)) from None
        if self.tried is not None and found is not None:
            self.tried.add(f"{self.rules}.{key}")
        return found

    def each(self, rule: Expression) -> Iterator["AnswerValue"]:
        """Return the objects of the list that the expression yields.

        Inside an object the list may be absent (a rack without hosts); in the answer as a whole it
        may not, or a renamed key would read as an empty cluster.
        """
        found = self.found(rule, "each")
        if found is None and self.element is not None:
            return
        if not isinstance(found, list):
            raise self.wrong(rule, "each", "a list")
        for index, value in enumerate(found):
            yield AnswerValue(value, self.rules, index, self.tried)

    def text(self, rule: Expression, key: str) -> str:
        """Return the text that the expression must yield."""
        found = self.optional(rule, key)
        if found is None:
            raise self.wrong(rule, key, A_TEXT)
        return found

    def optional(self, rule: Expression | None, key: str) -> str | None:
        """Return a text or None; whole numbers, which many managers use as ids, become texts."""
        if rule is None:
            return None
        found = self.found(rule, key)
        if found is None or isinstance(found, str):
            return found
        if isinstance(found, int) and not isinstance(found, bool):
            return str(found)
        raise self.wrong(rule, key, A_TEXT)

    def wrong(self, rule: Expression, key: str, wanted: str) -> BadInputError:
        """Return the error that names the expression, what it yielded, and the keys that
        are there.
        """
        found = self.found(rule, key)
        fix = "correct the expression" + self.keys_near(rule)
        if found is None and wanted == A_TEXT and rule.text.isidentifier():
            fix += f"; a fixed text has quotes of its own: \"'{rule.text}'\""
        what = f"`{rule.text}` yielded {_shown(found)} where {wanted} is expected"
        return BadInputError(Refusal(what, self._where(key), fix))

    def keys_near(self, rule: Expression) -> str:
        """Return the keys that are there, the nearest to the expression's first word among them."""
        if not isinstance(self.value, dict):
            return f" (it is asked of {_shown(self.value)})"
        keys = [str(key) for key in self.value]
        near = nearest(rule.first_word, keys, LOOSE)
        hint = f"; the nearest is {near!r}" if near else ""
        return f" (the object has the keys {', '.join(map(shown_key, keys[:_KEYS_SHOWN]))}{hint})"

    def _where(self, key: str) -> str:
        element = "" if self.element is None else f" (element {self.element})"
        return f"{self.rules}.{key}{element}"


def _shown(value: object) -> str:
    """Return a value in a few words; of a list or an object only its size, for it may be of any
    depth.
    """
    match value:
        case None:
            return "nothing"
        case list():
            return f"a list of {len(value)}"
        case dict():
            return f"an object of {len(value)} keys"
        case str():
            return repr(shown_key(value))
        case _:
            return shown_key(repr(value))


def _reason(error: Exception) -> str:
    """Return why an expression failed, in a line that repeats no value at length."""
    if isinstance(error, jmespath_exceptions.JMESPathTypeError):
        return f"{error.function_name}() does not take {_shown(error.current_value)}"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    lines = str(error).splitlines()
    first = lines[0] if lines else type(error).__name__
    return first if first.isprintable() else repr(first)[1:-1]

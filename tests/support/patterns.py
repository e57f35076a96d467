r"""Every regular expression that the product compiles, and what of its shape may cost more than its
text.

Python's `re` tries one way after the other. It does work that grows faster than a text where one
part of the text can be matched in several ways:

    nested    (a+b?)+        a repetition inside another one, with nothing between its rounds
    adjacent  a*[ab]*        one after the other, of characters that both take
    leading   \s*x, searched a search begins anew at each character, and reads the same again
              ^\s*x, MULTILINE the same at each line, as \s takes the ends of lines, too

A repetition of at most `FEW` is a constant factor. Source: the parser of `re` (CPython 3.11,
Lib/re/_parser.py), whose trees these functions read.
"""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from re import _constants as ops  # type: ignore[attr-defined]
from re import _parser  # type: ignore[attr-defined]
from typing import Any

ROOT = Path(__file__).parents[2]
FEW = 32
_TRIED = frozenset({"match", "fullmatch", "pattern", "flags"})
_TAKING = frozenset(
    ("compile", "match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer")
)
_ALPHABET = [chr(each) for each in range(256)] + ["\u2028", "é", "中"]
_REST = set(_ALPHABET) - {"\n"}
"""What `.` takes: at the end of a pattern it takes what is left of a line, and nothing fails."""
_RECORD = """
import importlib, json, pkgutil, re, sys
root, real, found = sys.argv[1], re._compile, {}
def compile_(pattern, flags):
    made = real(pattern, flags)
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.endswith("/re/__init__.py"):
        frame = frame.f_back
    place = frame.f_code.co_filename
    if place.startswith(root) and "site-packages" not in place:
        text = made.pattern if isinstance(made.pattern, str) else made.pattern.decode("latin-1")
        found[f"{place[len(root) + 1:]}:{frame.f_lineno}:{text}"] = (text, made.flags)
    return made
re._compile = compile_
for top in ("topo", "master", "worker"):
    for each in pkgutil.walk_packages([f"{root}/{top}"], f"{top}."):
        if not each.name.endswith("__main__"):
            importlib.import_module(each.name)
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A pattern, and where it is compiled: `topo/facts/outputs.py:45`."""

    place: str
    text: str
    flags: int

    @property
    def named(self) -> str:
        """Its file and the name that it gets there."""
        return f"{self.place.rpartition(':')[0]} {name_at(self.place)}"


def compiled() -> list[Compiled]:
    """What the product compiles when all of its modules are imported."""
    argv = (sys.executable, "-c", _RECORD, str(ROOT))
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    told = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    found: dict[str, tuple[str, int]] = json.loads(told.splitlines()[-1])
    return [Compiled(":".join(key.split(":")[:2]), *each) for key, each in found.items()]


def searched() -> frozenset[str]:
    """The patterns that are not only tried at a place, but searched for or passed on.

    Each by the file that uses it and its name; a public one may be used by any file.
    """
    found: set[str] = set()
    for top in ("topo", "master", "worker"):
        for path in (ROOT / top).rglob("*.py"):
            used = _searched_in(ast.parse(path.read_text(encoding="utf-8")))
            file = path.relative_to(ROOT)
            found |= {f"{file} {name}" if name.startswith("_") else name for name in used}
    return frozenset(found)


def is_searched(each: Compiled, names: frozenset[str]) -> bool:
    """Whether a pattern is searched for, by the names of `searched`."""
    name = name_at(each.place)
    file = each.place.rpartition(":")[0]
    return not name or name in names or f"{file} {name}" in names


def _searched_in(tree: ast.Module) -> set[str]:
    tried: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in _TRIED:
            tried.add(id(node.value))
    found = set()
    for node in ast.walk(tree):
        is_used = isinstance(getattr(node, "ctx", None), ast.Load) and id(node) not in tried
        if is_used and isinstance(node, ast.Name):
            found.add(node.id)
        elif is_used and isinstance(node, ast.Attribute):
            found.add(node.attr)
    return found


def calls() -> set[str]:
    """Every place at which the product calls a function of `re` that takes a pattern."""
    found: set[str] = set()
    for top in ("topo", "master", "worker"):
        for path in (ROOT / top).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and _is_of_re(node.func):
                    found.add(f"{path.relative_to(ROOT)}:{node.lineno}")
    return found


def _is_of_re(function: ast.expr) -> bool:
    is_taking = isinstance(function, ast.Attribute) and function.attr in _TAKING
    of = getattr(function, "value", None)
    return is_taking and isinstance(of, ast.Name) and of.id == "re"


def name_at(place: str) -> str:
    """The name that a pattern gets where it is compiled; empty for one without."""
    path, _, line = place.rpartition(":")
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        is_there = node.lineno <= int(line) <= (node.end_lineno or 0)
        if is_there and isinstance(target, ast.Name):
            return target.id
    return ""


def faults(text: str, flags: int, *, is_searched: bool) -> list[str]:
    """What of a pattern's shape may cost more than its text; `is_searched`: not only from its
    beginning.
    """
    tree = _parser.parse(text, flags & ~ops.SRE_FLAG_DEBUG)
    found = [*_nested(tree, flags), *_adjacent(tree, flags)]
    return found + ([*_leading(tree, flags)] if is_searched else [])


_Node = tuple[Any, Any]


def _is_repeat(node: _Node, most: int = FEW) -> bool:
    op, argument = node
    return op in (ops.MAX_REPEAT, ops.MIN_REPEAT) and argument[1] > most


def _inner(node: _Node) -> list[Any]:
    """The sequences of nodes inside a node."""
    op, argument = node
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT, getattr(ops, "POSSESSIVE_REPEAT", None)):
        return [argument[2]]
    if op is ops.SUBPATTERN:
        return [argument[-1]]
    if op is ops.BRANCH:
        return list(argument[1])
    if op in (ops.ASSERT, ops.ASSERT_NOT):
        return [argument[1]]
    if op is getattr(ops, "ATOMIC_GROUP", None):
        return [argument]
    return []


def _walk(sequence: Any) -> Iterator[Any]:
    """Every sequence of a tree."""
    yield sequence
    for node in sequence:
        for each in _inner(node):
            yield from _walk(each)


def _width(sequence: Any) -> tuple[int, int]:
    """How few and how many characters a sequence takes."""
    low, high = sequence.getwidth()
    return int(low), int(high)


def _first(sequence: Any, flags: int) -> set[str]:
    """The characters with which a match of a sequence may begin; all of them where it is empty."""
    found: set[str] = set()
    for node in sequence:
        if node[0] in (ops.AT, ops.ASSERT, ops.ASSERT_NOT):
            continue
        found |= _begins(node, flags)
        if _least(node) > 0:
            break
    return found


def _least(node: _Node) -> int:
    op, argument = node
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return int(argument[0]) * _width(argument[2])[0]
    if op is ops.SUBPATTERN:
        return _width(argument[-1])[0]
    if op is ops.BRANCH:
        return min(_width(each)[0] for each in argument[1])
    return 0 if op in (ops.AT, ops.ASSERT, ops.ASSERT_NOT) else 1


def _begins(node: _Node, flags: int) -> set[str]:
    op, argument = node
    if op in (ops.MAX_REPEAT, ops.MIN_REPEAT):
        return _first(argument[2], flags)
    if op is ops.SUBPATTERN:
        return _first(argument[-1], flags)
    if op is ops.BRANCH:
        return set().union(*(_first(each, flags) for each in argument[1]))
    if op in (ops.LITERAL, ops.NOT_LITERAL, ops.IN, ops.ANY):
        return _of_alphabet(node, flags)
    return set(_ALPHABET)  # a reference to a group


def _of_alphabet(node: _Node, flags: int) -> set[str]:
    """The characters of the alphabet that one node of a character takes."""
    op, argument = node
    if op is ops.ANY:
        return {each for each in _ALPHABET if each != "\n" or flags & ops.SRE_FLAG_DOTALL}
    if op is ops.LITERAL:
        return _cased({chr(argument)}, flags)
    if op is ops.NOT_LITERAL:
        return set(_ALPHABET) - _cased({chr(argument)}, flags)
    taken: set[str] = set()
    is_negated = False
    for kind, value in argument:
        if kind is ops.NEGATE:
            is_negated = True
        elif kind is ops.LITERAL:
            taken.add(chr(value))
        elif kind is ops.RANGE:
            taken |= {each for each in _ALPHABET if value[0] <= ord(each) <= value[1]}
        elif kind is ops.CATEGORY:
            taken |= {each for each in _ALPHABET if _is_in(each, value, flags)}
    taken = _cased(taken, flags)
    return set(_ALPHABET) - taken if is_negated else taken


def _cased(taken: set[str], flags: int) -> set[str]:
    if not flags & ops.SRE_FLAG_IGNORECASE:
        return taken
    return {other for each in taken for other in (each.lower(), each.upper())}


def _is_in(char: str, category: Any, flags: int) -> bool:
    is_ascii = bool(flags & ops.SRE_FLAG_ASCII)
    known = {
        ops.CATEGORY_SPACE: char.isspace() and (char.isascii() or not is_ascii),
        ops.CATEGORY_DIGIT: char.isdecimal() and (char.isascii() or not is_ascii),
        ops.CATEGORY_WORD: (char.isalnum() or char == "_") and (char.isascii() or not is_ascii),
    }
    for positive, negative in (
        (ops.CATEGORY_SPACE, ops.CATEGORY_NOT_SPACE),
        (ops.CATEGORY_DIGIT, ops.CATEGORY_NOT_DIGIT),
        (ops.CATEGORY_WORD, ops.CATEGORY_NOT_WORD),
    ):
        if category is positive:
            return known[positive]
        if category is negative:
            return not known[positive]
    return True


def _nested(tree: Any, flags: int) -> Iterator[str]:
    """Repetitions inside a repetition, where a round may end at several places."""
    for sequence in _walk(tree):
        for node in sequence:
            if not _is_repeat(node):
                continue
            body = node[1][2]
            kept = [_begins(each, flags) for each in _flat(body) if _least(each) > 0]
            for inner in _walk(body):
                for each in inner:
                    # What every round has, and the inner one does not take, parts the rounds.
                    taken = _begins(each, flags)
                    if _is_repeat(each) and all(taken & others for others in kept):
                        yield "nested"


def _adjacent(tree: Any, flags: int) -> Iterator[str]:
    """Two repetitions of common characters, with nothing that has to be between them."""
    for sequence in _walk(tree):
        nodes = list(_flat(sequence))
        for at, node in enumerate(nodes):
            if not _is_repeat(node):
                continue
            for other in nodes[at + 1 :]:
                is_common = _is_repeat(other) and _begins(node, flags) & _begins(other, flags)
                takes_all = other is nodes[-1] and _begins(other, flags) >= _REST
                if is_common and not (takes_all and sequence is tree):
                    yield "adjacent"
                if _least(other) > 0:
                    break


def _flat(sequence: Any) -> Iterator[_Node]:
    """The nodes of a sequence, with groups of one way in their places."""
    for node in sequence:
        if node[0] is ops.SUBPATTERN:
            yield from _flat(node[1][-1])
        else:
            yield node


def _leading(tree: Any, flags: int, at_lines: bool = False) -> Iterator[str]:  # noqa: FBT001, FBT002
    """A repetition at the beginning of what is searched for; `at_lines`: after `^` of each line."""
    nodes, parted = list(_flat(tree)), set[str]()
    for at, node in enumerate(nodes):
        op, argument = node
        if op is ops.AT:
            if argument is ops.AT_BEGINNING_STRING or _is_once(argument, flags):
                return
            at_lines = at_lines or argument is ops.AT_BEGINNING
        elif op in (ops.ASSERT, ops.ASSERT_NOT):
            parted |= _never_before(node, flags)
        elif op is ops.BRANCH:
            for each in argument[1]:
                yield from _leading([*each, *nodes[at + 1 :]], flags, at_lines)
            return
        elif _is_repeat(node):
            taken = _begins(node, flags) - parted
            can_fail = any(_least(each) > 0 or each[0] is ops.AT for each in nodes[at + 1 :])
            if can_fail and (taken & {"\n"} if at_lines else taken):
                yield "leading"
        if _least(node) > 0:
            return


def _never_before(node: _Node, flags: int) -> set[str]:
    """The characters after which no match begins, by what has to be there or must not."""
    op, (direction, sequence) = node
    if direction > 0:
        return set()
    named = _first(sequence, flags)
    return named if op is ops.ASSERT_NOT else set(_ALPHABET) - named


def _is_once(place: Any, flags: int) -> bool:
    """Whether an anchor holds at the beginning of the text alone."""
    return place is ops.AT_BEGINNING and not flags & ops.SRE_FLAG_MULTILINE

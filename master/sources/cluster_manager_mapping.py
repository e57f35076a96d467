"""The mapping file on disk: read once at start, bounded, and proven before it is used."""

from pathlib import Path
from typing import Any

import yaml

from topo.discovery.manager_mapping import contract, read_mapping
from topo.discovery.manager_rules import ManagerMapping
from topo.kit.files import read_bounded
from topo.model.errors import BadInputError, Refusal

MAX_MAPPING_BYTES = 4 << 20
"""Room for a sample of real size."""


def load_mapping(path: Path | None) -> ManagerMapping:
    """The mapping of that file, or our own contract without one.

    Raises `BadInputError` that names the file, the place in it and the fix.
    """
    if path is None:
        return contract()
    content = read_bounded(path, MAX_MAPPING_BYTES)
    if isinstance(content, Refusal):
        raise BadInputError(content)
    document = parse_yaml(content)
    mapping = document if isinstance(document, Refusal) else read_mapping(document)
    if isinstance(mapping, Refusal):
        raise BadInputError(Refusal(mapping.what, f"{path}: {mapping.where}", mapping.fix))
    return mapping


def parse_yaml(content: bytes) -> object | Refusal:
    """The document of a YAML file without aliases, tags of its own, or doubled keys."""
    try:
        document: object = yaml.load(content, _PlainLoader)  # noqa: S506 - a SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = "line 1" if mark is None else f"line {mark.line + 1}"
        return Refusal(f"not YAML: {error.problem}", where, "correct the line")
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        return Refusal(f"not YAML: {str(error).splitlines()[0]}", "line 1", "write UTF-8 YAML")
    return document


class _PlainLoader(yaml.SafeLoader):
    """PyYAML's safe loader without what makes bombs (aliases) and surprises (doubled keys)."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        """One node; an alias is refused, it could stand for a million others."""
        if self.check_event(yaml.AliasEvent):
            mark = self.get_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(problem="aliases are not read here", problem_mark=mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:  # noqa: FBT001, FBT002
        """A mapping whose keys are all different."""
        seen = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value!r} is there twice", problem_mark=key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep=deep)

"""The mapping file on disk: read once at start, bounded, and proven before it is used."""

from pathlib import Path
from typing import Any

import yaml

from topo.discovery.manager.mapping import contract, read_mapping
from topo.discovery.manager.rules import ManagerMapping
from topo.facts.declared.documents import load_lined
from topo.kit.files import read_bounded
from topo.model.errors import BadInputError, Refusal

MAX_MAPPING_BYTES = 4 << 20
"""Room for a sample of thousands of machines."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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
    """The document of a YAML file without aliases, tags or doubled keys."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        where = f"byte {error.start}"
        return Refusal("the file is not UTF-8", where, "write it as UTF-8 text")
    strict = load_lined(text)
    if isinstance(strict, Refusal):
        return strict
    # Nothing that makes YAML dangerous is left; now with numbers as numbers, for the sample.
    document: object = yaml.load(text, _LOADER)  # noqa: S506 - a safe loader
    return document

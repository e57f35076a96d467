"""What tests of the kit share."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture
def logging_as_it_was() -> Iterator[None]:
    """The root logger without handlers; after the test it is as before."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    root.handlers = []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers
    root.setLevel(level)
    structlog.reset_defaults()

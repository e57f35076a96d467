"""What tests of the kit share."""

import logging
import subprocess
from collections.abc import Iterator
from pathlib import Path

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


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A certificate that it signed itself, and its key."""
    directory = tmp_path_factory.mktemp("tls")
    cert, key = directory / "cert.pem", directory / "key.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "ec", "-nodes"),
            *("-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", str(key), "-out", str(cert), "-subj", "/CN=localhost"),
        ],
        check=True,
        capture_output=True,
    )
    return cert, key

"""The files of the page, read once and kept with their compressed bytes.

They stand under a release, a hash of all of them: a browser keeps each for good, and never mixes
the modules of two releases of the master.
"""

import gzip
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from types import MappingProxyType

INDEX = "index.html"
_MEDIA = {
    "html": "text/html",
    "css": "text/css",
    "js": "text/javascript",
    "svg": "image/svg+xml",
}
MEDIA = tuple(_MEDIA.values())
_RELEASE = b"{release}"
"""Stands in the index where the release belongs."""
_MODULES = b"<!-- {modules} -->"
"""Stands in the index where all modules are named, so that they are fetched at once, and not each
when the one that imports it has come."""


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file as it is sent; `zipped` is its body as gzip."""

    media: str
    body: bytes
    zipped: bytes


@dataclass(frozen=True, slots=True)
class Page:
    """All files by name, and what tells them from those of another release."""

    release: str
    files: Mapping[str, PageFile]


@cache
def page() -> Page:
    """The page of this release. Reads some twenty files the first time, so not on the loop."""
    bodies = {
        each.name: each.read_bytes()
        for each in files(__package__).joinpath("page").iterdir()
        if each.name.rpartition(".")[2] in _MEDIA
    }
    digest = hashlib.blake2b(digest_size=8)
    for name, body in sorted(bodies.items()):
        digest.update(b"%b %d " % (name.encode(), len(body)) + body)
    release = digest.hexdigest()
    ahead = b"\n    ".join(
        b'<link rel="modulepreload" href="web/{release}/%b" />' % name.encode()
        for name in sorted(bodies)
        if name.endswith(".js")
    )
    index = bodies[INDEX].replace(_MODULES, ahead)
    bodies[INDEX] = index.replace(_RELEASE, release.encode())
    return Page(release, MappingProxyType({name: _file(name, bodies[name]) for name in bodies}))


def _file(name: str, body: bytes) -> PageFile:
    media = _MEDIA[name.rpartition(".")[2]]
    return PageFile(media, body, gzip.compress(body, mtime=0))

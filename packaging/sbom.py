"""Lists what a release consists of, in CycloneDX 1.6 (https://cyclonedx.org/docs/1.6/json/).

Of the distribution: what its lock pins. Of an image: what its root has, which is the distributions
of Python and Debian's packages. The same input gives the same bytes.
"""

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from email.parser import HeaderParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

PRODUCT = "supernode-topology"
_PIN = re.compile(r"^([\w.-]+)==([^\s;]+)", re.MULTILINE)
_NAME = re.compile(r"[\w.-]+")
_PARTS = "var/lib/dpkg/status.d/*"
_DEBIAN_NAME = re.compile(r"[\w.+-]+")
_PYTHON = re.compile(r'^#define PY_VERSION\s+"(.+)"', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Component:
    """A package: `kind` is that of its package URL, `needs` are names of the same kind."""

    kind: str
    name: str
    version: str
    licence: str = ""
    needs: frozenset[str] = frozenset()
    qualifiers: str = ""

    @property
    def purl(self) -> str:
        """Its package URL (https://github.com/package-url/purl-spec)."""
        return f"pkg:{self.kind}/{self.name}@{quote(self.version, safe='.-_~')}{self.qualifiers}"


def of_lock(lock: str) -> list[Component]:
    """Return what a lock of pip-compile pins."""
    pins = ((_canonical(name), version) for name, version in _PIN.findall(lock))
    return [Component("pypi", name, version) for name, version in pins]


def of_root(root: Path) -> list[Component]:
    """Return what the root of an image has. Each name and version once, as Debian and pip say."""
    found = [*_distributions(root), *_debian(root), *_python(root)]
    return list({each.purl: each for each in found}.values())


def _distributions(root: Path) -> Iterator[Component]:
    places = ("opt/topo/lib/python3*/site-packages", "usr/local/lib/python3*/site-packages")
    for place in places:
        for path in sorted(root.glob(f"{place}/*.dist-info/METADATA")):
            stated = HeaderParser().parsestr(path.read_text("utf-8", errors="replace"))
            required = stated.get_all("Requires-Dist") or []
            needs = (_NAME.match(each) for each in required)
            yield Component(
                "pypi",
                _canonical(stated["Name"]),
                stated["Version"],
                stated.get("License-Expression", ""),
                frozenset(_canonical(each[0]) for each in needs if each),
            )


def _debian(root: Path) -> Iterator[Component]:
    """Yield the installed packages of dpkg(1)'s status file, and those that the image has in part.

    What dpkg says of the latter lies in `status.d`, a file for each, where scanners look, too
    (https://github.com/GoogleContainerTools/distroless, PACKAGE_METADATA.md). An image of another
    system would be listed without any of its packages, and is refused.
    """
    status = root / "var/lib/dpkg/status"
    if not status.exists():
        raise SystemExit(f"{root} has no var/lib/dpkg/status: build the image on Debian (BASE=)")
    parts = [path for path in sorted(root.glob(_PARTS)) if path.suffix != ".md5sums"]
    texts = (path.read_text("utf-8") for path in (status, *parts))
    for block in (block for text in texts for block in text.split("\n\n")):
        stated = HeaderParser().parsestr(block.lstrip("\n"))
        if stated.get("Status", "").endswith(" installed"):
            required = f"{stated.get('Depends', '')},{stated.get('Pre-Depends', '')}"
            needs = (_DEBIAN_NAME.match(each.strip()) for each in re.split(r"[,|]", required))
            names = frozenset(each[0] for each in needs if each)
            arch = f"?arch={stated['Architecture']}"
            yield Component("deb/debian", stated["Package"], stated["Version"], "", names, arch)


def _python(root: Path) -> Iterator[Component]:
    """Yield the interpreter of an image of Python's own, which is no package of Debian."""
    for header in root.glob("usr/local/include/python3*/patchlevel.h"):
        if (version := _PYTHON.search(header.read_text())) is not None:
            yield Component("generic", "python", version[1])


def bom(name: str, version: str, components: Iterable[Component], time_s: int) -> dict[str, Any]:
    """Return the document of a distribution or image of this name."""
    listed = sorted(components, key=lambda each: each.purl)
    subject = {"type": "application", "bom-ref": name, "name": name, "version": version}
    purls = {(each.kind, each.name): each.purl for each in listed}
    graph = [
        {"ref": each.purl, "dependsOn": sorted(on)}
        for each in listed
        if (on := {purls[key] for need in each.needs if (key := (each.kind, need)) in purls})
    ]
    whole = {"ref": name, "dependsOn": [each.purl for each in listed]}
    text = "\n".join((name, version, *(each.purl for each in listed)))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, text)}",
        "version": 1,
        "metadata": {
            "timestamp": datetime.fromtimestamp(time_s, UTC).isoformat(),
            "component": subject,
        },
        "components": [_entry(each) for each in listed],
        "dependencies": [whole, *graph],
    }


def _entry(each: Component) -> dict[str, Any]:
    entry = {
        "type": "library",
        "bom-ref": each.purl,
        "name": each.name,
        "version": each.version,
        "purl": each.purl,
    }
    return {**entry, "licenses": [{"expression": each.licence}]} if each.licence else entry


def _canonical(name: str) -> str:
    """Return the name as PyPI writes it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()

"""The list of what an image has: every package of Debian with all that it needs."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.41-1

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 14.2.0-1
Depends: libc6 (>= 2.38), libgcc-s1 (>= 4.2) | g++

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1
"""

PART = """\
Package: libibumad3
Status: install ok installed
Architecture: amd64
Multi-Arch: same
Version: 44.0-2
Depends: libc6 (>= 2.34)
"""


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module of the packaging folder, which is no package."""
    folder = Path(__file__).parents[2] / "packaging"
    monkeypatch.syspath_prepend(folder)
    spec = importlib.util.spec_from_file_location("sbom", folder / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, "sbom", module)
    spec.loader.exec_module(module)
    return module


def test_each_installed_package_is_listed_with_the_names_that_it_needs(
    sbom: ModuleType, tmp_path: Path
) -> None:
    status = tmp_path / "var/lib/dpkg/status"
    status.parent.mkdir(parents=True)
    status.write_text(STATUS)
    found = {each.name: each.needs for each in sbom.of_root(tmp_path)}
    assert found == {"libc6": frozenset(), "libstdc++6": {"libc6", "libgcc-s1", "g++"}}


def test_a_package_of_which_an_image_has_a_part_is_listed_beside_the_installed_ones(
    sbom: ModuleType, tmp_path: Path
) -> None:
    """The image copies a program of it without the package's perl; sums of files are no package."""
    parts = tmp_path / "var/lib/dpkg/status.d"
    parts.mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    (parts / "libibumad3").write_text(PART)
    (parts / "libibumad3.md5sums").write_text("0" * 32 + "  usr/lib/libibumad.so.3\n")
    found = {each.name: each for each in sbom.of_root(tmp_path)}
    assert found.keys() == {"libc6", "libstdc++6", "libibumad3"}
    assert found["libibumad3"].purl == "pkg:deb/debian/libibumad3@44.0-2?arch=amd64"
    assert found["libibumad3"].needs == {"libc6"}


def test_an_image_of_a_system_whose_packages_cannot_be_read_is_refused(
    sbom: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="var/lib/dpkg/status"):
        sbom.of_root(tmp_path)

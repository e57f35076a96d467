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


def test_an_image_of_a_system_whose_packages_cannot_be_read_is_refused(
    sbom: ModuleType, tmp_path: Path
) -> None:
    with pytest.raises(SystemExit, match="var/lib/dpkg/status"):
        sbom.of_root(tmp_path)

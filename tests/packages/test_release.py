"""`make release` without images, and the commands of docs/releasing.md on what it made."""

import ast
import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-publish/bin/python"
CHART = ROOT / "helm/supernode-topology"
RELEASE = ROOT / "packaging/release.py"


def release(base: str, to: Path) -> "subprocess.CompletedProcess[str]":
    """A release of the last commit."""
    if not PYTHON.exists():
        pytest.skip("needs the tools of a release: make release")
    words = (PYTHON, ROOT / "packaging/release.py", "--base", base, "--to", to)
    return subprocess.run(words, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder above `dist/`."""
    folder = tmp_path_factory.mktemp("release")
    done = release("none", folder / "dist")
    assert done.returncode == 0, done.stderr
    return folder


def test_a_release_without_images_is_the_same_bytes_again(made: Path, tmp_path: Path) -> None:
    """In another folder, and with another mask of rights."""
    before = os.umask(0o077)
    try:
        assert release("none", tmp_path / "again").returncode == 0
    finally:
        os.umask(before)
    first, second = (folder for folder in (made / "dist", tmp_path / "again"))
    assert {p.name for p in first.iterdir()} == {p.name for p in second.iterdir()}
    for path in first.iterdir():
        if path.suffix != ".asc":
            assert path.read_bytes() == (second / path.name).read_bytes(), path.name


def test_the_archive_of_the_chart_has_its_files_and_no_other(made: Path) -> None:
    listed = subprocess.run(
        ("git", "ls-tree", "-r", "--name-only", "HEAD", "."),
        cwd=CHART,
        capture_output=True,
        text=True,
        check=True,
    )
    (archive,) = made.glob("dist/*.tgz")
    with tarfile.open(archive) as opened:
        names = {name.removeprefix("supernode-topology/") for name in opened.getnames()}
    assert names == set(listed.stdout.split()) - {".helmignore"}


def test_each_image_of_the_dockerfile_and_of_the_chart_is_in_a_release() -> None:
    """Whoever installs one finds its digest, its signature and its list of parts."""
    listed = re.search(r"^IMAGES = (\(.+\))$", RELEASE.read_text(), re.MULTILINE)
    assert listed is not None
    released = set(ast.literal_eval(listed[1]))
    titles = re.findall(r'image\.title="([\w-]+)"', (ROOT / "Dockerfile").read_text())
    installed = re.findall(
        r"^ +name: (topo-[\w-]+)$", (CHART / "values.yaml").read_text(), re.MULTILINE
    )
    built = re.search(r"IMAGES:-([\w -]+)}", (ROOT / "packaging/build-images").read_text())
    assert built is not None
    assert released == set(titles) == set(built[1].split())
    assert set(installed) - {"topo-discovery"} == released, "topo-discovery is a priority class"
    page = (ROOT / "docs/releasing.md").read_text()
    assert all(f"`{name}-*.oci.tar`" in page for name in released)


@pytest.mark.parametrize("base", ["", "python:3.11-slim-bookworm"])
def test_a_base_without_a_digest_is_refused_with_the_way_to_it(base: str, tmp_path: Path) -> None:
    """Else the release of tomorrow would have another image below ours."""
    done = release(base, tmp_path)
    assert done.returncode == 2
    assert "`buildah images --digests`" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_not_mixed_with_a_release(tmp_path: Path) -> None:
    (tmp_path / "supernode_topology-0.9.0.tar.gz").write_text("")
    done = release("none", tmp_path)
    assert done.returncode == 2
    assert "is not empty" in done.stderr


def test_a_release_is_signed_and_checked_as_the_page_says(made: Path, tmp_path: Path) -> None:
    """And a file that somebody changed is found."""
    if shutil.which("gpg") is None:
        pytest.skip("gpg is not on this machine")
    page = (ROOT / "docs/releasing.md").read_text()
    sign, check = re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    home = tmp_path / "gnupg"
    home.mkdir(mode=0o700)
    place = {**os.environ, "GNUPGHOME": str(home)}
    words = "gpg --batch --quiet --passphrase= --quick-generate-key maintainers@example.com"

    def type_(line: str) -> int:
        shell = ("bash", "-euo", "pipefail", "-c", line)
        return subprocess.run(
            shell, cwd=made, env=place, capture_output=True, check=False
        ).returncode

    assert [type_(line) for line in (words, sign, check)] == [0, 0, 0]
    (wheel,) = made.glob("dist/*.whl")
    whole = wheel.read_bytes()
    wheel.write_bytes(whole + b" ")
    assert type_(check) != 0
    wheel.write_bytes(whole)
    type_("gpgconf --kill gpg-agent")

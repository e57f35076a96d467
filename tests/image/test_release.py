"""`make release` with images: twice the same bytes, and lists of what the images have."""

import hashlib
import json
import re
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

from tests.e2e.controlplane.programs import why_not
from tests.helm.chart import KUBERNETES, ON, built_helm, built_helm3, objects, run
from tests.image.conftest import ROOT
from tests.image.containers import Images

pytestmark = pytest.mark.e2e
IMAGES = ["topo-master", "topo-worker", "topo-sweeper"]
PARTS = {"infiniband-diags", "libibnetdisc5", "libibmad5", "libibumad3"}
"""Debian's packages of which topo-sweeper has files, and no more of them."""
PYTHON = ROOT / ".venv-publish/bin/python"
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'


@pytest.fixture(scope="module")
def release(stored: Images, base_image: str) -> Path:
    """A release of the last commit, in a folder of the images' space."""
    if not PYTHON.exists():
        pytest.skip("needs the tools of a release: make release")
    space = stored.space
    (space.seen(f"{space.folder}/storage.conf")).write_text(STORAGE.format(folder=space.folder))
    settings = {
        "CONTAINERS_STORAGE_CONF": f"{space.folder}/storage.conf",
        "STORAGE_DRIVER": "overlay",
    }
    to = f"{space.folder}/release"
    words = (f"{ROOT}/packaging/release.py", "--base", base_image, "--to", to)
    done = space.ran(str(PYTHON), *words, **settings)
    assert done.returncode == 0, done.stderr
    return space.seen(to)


def test_the_sums_of_a_release_are_those_of_all_its_files(release: Path) -> None:
    lines = (line.split() for line in (release / "SHA256SUMS").read_text().splitlines())
    files = {p.name: p for p in release.iterdir() if p.name != "SHA256SUMS"}
    counted = {name: hashlib.sha256(p.read_bytes()).hexdigest() for name, p in files.items()}
    assert {name: digest for digest, name in lines} == counted
    assert sum(name.endswith(".oci.tar") for name in files) == len(IMAGES)
    assert sum(name.endswith(".cdx.json") for name in files) == len(IMAGES) + 1
    assert [line.split()[0] for line in (release / "images.txt").read_text().splitlines()] == IMAGES


@pytest.mark.parametrize("name", IMAGES)
def test_two_builds_of_a_commit_are_the_same_image(
    release: Path, images: Images, name: str
) -> None:
    """That of the release, made of what is committed, and that of `make image` in this folder."""
    words = ("git", "status", "--porcelain")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    if done.stdout:
        pytest.skip("what is not committed is in one of the two: commit it")
    found = [each.split() for each in (release / "images.txt").read_text().splitlines()]
    to = f"{images.space.folder}/{name}"
    images.output("push", "--digestfile", f"{to}.digest", f"localhost/{name}:test", f"oci:{to}:v")
    assert [name, images.space.seen(f"{to}.digest").read_text().strip()] in found


@pytest.mark.parametrize("name", IMAGES)
def test_a_list_of_parts_has_what_the_image_has(release: Path, stored: Images, name: str) -> None:
    """Debian's packages as dpkg names them, those of Python as Python does."""
    (path,) = release.glob(f"{name}-*.cdx.json")
    document = json.loads(path.read_text())
    listed = {(purl_kind(each), each["name"], each["version"]) for each in document["components"]}
    version = document["metadata"]["component"]["version"]
    container = stored.container(f"localhost/{name}:{version}")
    debian = container.ran("dpkg-query", "-W", "-f", "${Package} ${Version}\n").stdout
    code = "from importlib.metadata import distributions as found\n"
    code += "for each in found(): print(each.name, each.version)"
    python = container.ran("/opt/topo/bin/python", "-c", code).stdout
    pairs = (line.split() for line in python.splitlines())
    parts = {each for each in listed if each[1] in PARTS}
    assert {each[1] for each in parts} == (PARTS if name == "topo-sweeper" else set())
    assert listed - parts == {
        *(("deb", *line.split()) for line in debian.splitlines()),
        *(("pypi", canonicalize_name(each), its) for each, its in pairs),
    }
    refs = {each["bom-ref"] for each in document["components"]}
    assert {on for each in document["dependencies"] for on in each["dependsOn"]} <= refs


def test_what_the_sweeper_copies_is_what_its_listed_packages_have(stored: Images) -> None:
    """Each file that is of none of the installed packages is of a listed one, by its sum."""
    container = stored.container(f"localhost/topo-sweeper:{version_of_release()}")
    places = ("usr/sbin/ibnetdiscover", *(f"usr/lib/{each}" for each in LIBRARIES))
    copied = {hashlib.md5((container.root / each).read_bytes()).hexdigest() for each in places}  # noqa: S324 - dpkg's
    folder = container.root / "var/lib/dpkg/status.d"
    sums = {
        path.stem: {line.split()[0] for line in path.read_text().splitlines()}
        for path in folder.glob("*.md5sums")
    }
    assert sums.keys() == PARTS
    assert copied <= set().union(*sums.values())
    assert all(copied & each for each in sums.values()), "no package is listed for nothing"
    for name in PARTS:
        assert (container.root / "usr/share/doc" / name / "copyright").stat().st_size


LIBRARIES = ("libibnetdisc.so.5", "libibmad.so.5", "libibumad.so.3")


def version_of_release() -> str:
    """The version in pyproject.toml, which is the tag of a release's images."""
    found = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


def purl_kind(component: Mapping[str, Any]) -> str:
    """The kind of a component's package URL."""
    kind: str = component["purl"].removeprefix("pkg:").partition("/")[0]
    return kind


def test_the_digests_are_those_that_a_registry_will_have(release: Path) -> None:
    """That of the manifest: what `image@sha256:…` of a pod means."""
    for line in (release / "images.txt").read_text().splitlines():
        name, digest = line.split()
        (archive,) = release.glob(f"{name}-*.oci.tar")
        index = member(archive, "index.json")
        assert json.loads(index)["manifests"][0]["digest"] == digest
        manifest = member(archive, f"blobs/sha256/{digest.removeprefix('sha256:')}")
        assert hashlib.sha256(manifest).hexdigest() == digest.removeprefix("sha256:")


def member(archive: Path, name: str) -> bytes:
    """A file of a tar archive."""
    with tarfile.open(archive) as opened:
        found = opened.extractfile(name)
        assert found is not None
        return found.read()


def test_helm_installs_from_the_archive_of_the_chart(release: Path) -> None:
    """Both major versions find in it what they find in the folder."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    (archive,) = release.glob("supernode-topology-*.tgz")
    for helm in (built_helm(), built_helm3()):
        asked = ("template", "topo", str(archive), "--kube-version", KUBERNETES, *ON)
        done = run(helm, *asked)
        assert done.returncode == 0, done.stderr
        kinds = {each["kind"] for each in objects(done.stdout)}
        assert {"Deployment", "DaemonSet", "MutatingWebhookConfiguration"} <= kinds

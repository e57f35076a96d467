"""`make release` with images: twice the same bytes, and lists of what the images have."""

import hashlib
import json
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
PYTHON = ROOT / ".venv-publish/bin/python"
STORAGE = '[storage]\ndriver = "overlay"\ngraphroot = "{folder}/root"\nrunroot = "{folder}/run"\n'


@pytest.fixture(scope="module")
def releases(stored: Images) -> tuple[Path, Path]:
    """Two releases of the last commit, each in a folder of the images' space."""
    if not PYTHON.exists():
        pytest.skip("needs the tools of a release: make release")
    space = stored.space
    (space.seen(f"{space.folder}/storage.conf")).write_text(STORAGE.format(folder=space.folder))
    (image,) = json.loads(stored.output("images", "--json", "localhost/base"))
    settings = {
        "CONTAINERS_STORAGE_CONF": f"{space.folder}/storage.conf",
        "STORAGE_DRIVER": "overlay",
    }
    made = []
    for name in ("first", "second"):
        base = f"localhost/base@{image['digest']}"
        to = f"{space.folder}/{name}"
        done = space.ran(str(PYTHON), f"{ROOT}/packaging/release.py", "--base", base, "--to", to,
                         **settings)  # fmt: skip
        assert done.returncode == 0, done.stderr
        made.append(space.seen(to))
    return made[0], made[1]


def sums(release: Path) -> Mapping[str, str]:
    """The digest of each file of a release, as counted here."""
    return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in release.iterdir()}


def test_two_releases_of_a_commit_are_the_same_bytes_images_too(
    releases: tuple[Path, Path],
) -> None:
    """And SHA256SUMS is the list of them."""
    first, second = map(sums, releases)
    assert first == second
    stated = (line.split() for line in (releases[0] / "SHA256SUMS").read_text().splitlines())
    assert {name: digest for digest, name in stated} | {"SHA256SUMS": first["SHA256SUMS"]} == first
    assert sum(name.endswith(".oci.tar") for name in first) == 2


@pytest.mark.parametrize("name", ["topo-master", "topo-worker"])
def test_a_list_of_parts_has_what_the_image_has(
    releases: tuple[Path, Path], stored: Images, name: str
) -> None:
    """Debian's packages as dpkg names them, those of Python as Python does."""
    (path,) = releases[0].glob(f"{name}-*.cdx.json")
    document = json.loads(path.read_text())
    listed = {(purl_kind(each), each["name"], each["version"]) for each in document["components"]}
    version = document["metadata"]["component"]["version"]
    container = stored.container(f"localhost/{name}:{version}")
    debian = container.ran("dpkg-query", "-W", "-f", "${Package} ${Version}\n").stdout
    code = "from importlib.metadata import distributions as found\n"
    code += "for each in found(): print(each.name, each.version)"
    python = container.ran("/opt/topo/bin/python", "-c", code).stdout
    pairs = (line.split() for line in python.splitlines())
    assert listed == {
        *(("deb", *line.split()) for line in debian.splitlines()),
        *(("pypi", canonicalize_name(each), its) for each, its in pairs),
    }
    refs = {each["bom-ref"] for each in document["components"]}
    assert {on for each in document["dependencies"] for on in each["dependsOn"]} <= refs


def purl_kind(component: Mapping[str, Any]) -> str:
    """The kind of a component's package URL."""
    kind: str = component["purl"].removeprefix("pkg:").partition("/")[0]
    return kind


def test_the_digests_are_those_that_a_registry_will_have(releases: tuple[Path, Path]) -> None:
    """That of the manifest: what `image@sha256:…` of a pod means."""
    for line in (releases[0] / "images.txt").read_text().splitlines():
        name, digest = line.split()
        (archive,) = releases[0].glob(f"{name}-*.oci.tar")
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


def test_helm_installs_from_the_archive_of_the_chart(releases: tuple[Path, Path]) -> None:
    """Both major versions find in it what they find in the folder."""
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    (archive,) = releases[0].glob("supernode-topology-*.tgz")
    for helm in (built_helm(), built_helm3()):
        asked = ("template", "topo", str(archive), "--kube-version", KUBERNETES, *ON)
        done = run(helm, *asked)
        assert done.returncode == 0, done.stderr
        kinds = {each["kind"] for each in objects(done.stdout)}
        assert {"Deployment", "DaemonSet", "MutatingWebhookConfiguration"} <= kinds

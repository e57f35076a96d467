"""`make release`: all of one version into dist/, the same bytes each time that a commit is built.

    make release BASE=IMAGE@sha256:DIGEST     with the images, which begin with this one
    make release BASE=none                    without images

The wheel, the sources, the chart, the images as archives of the OCI image layout and their
digests, of each a list of its parts (SBOM), and SHA256SUMS of all. It builds what is committed, not
what lies in the working tree. docs/releasing.md says how to sign and publish it.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory

from backend import write_archive
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from sbom import PRODUCT, Component, bom, of_lock, of_root

ROOT = Path(__file__).parents[1]
CHART = "helm/supernode-topology"
IMAGES = ("topo-master", "topo-worker", "topo-sweeper")
NO_IMAGES = "none"
_DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


class Refused(Exception):  # noqa: N818 - a release that cannot be
    """Why nothing is built, with the fix."""


def main() -> int:
    """Build; return the exit code, 2 where the tree or the call cannot give a release."""
    asked = argparse.ArgumentParser(prog="make release", description=__doc__)
    asked.add_argument("--base", default="", help="of the images, by digest; none: no images")
    asked.add_argument("--to", type=Path, default=ROOT / "dist")
    given = asked.parse_args()
    try:
        build(given.base, given.to)
    except Refused as refusal:
        sys.stderr.write(f"error: {refusal}\n")
        return 2
    return 0


def build(base: str, to: Path) -> None:
    """Write all parts of the release of the last commit."""
    if base != NO_IMAGES and not _DIGEST.fullmatch(base):
        tag = _stated(ROOT / "Dockerfile", r"^ARG BASE=(\S+)")
        fix = f"`buildah pull {tag}`, then `buildah images --digests` shows it; or BASE={NO_IMAGES}"
        raise Refused(f"BASE names no digest, so two builds may differ: {fix}")
    os.environ["SOURCE_DATE_EPOCH"] = _output("git", "log", "-1", "--format=%ct").strip()
    if _output("git", "status", "--porcelain").strip():
        sys.stderr.write("what is not committed is not in the release\n")
    to.mkdir(parents=True, exist_ok=True)
    if list(to.iterdir()):
        raise Refused(f"{to} is not empty: move what is in it away")
    with TemporaryDirectory() as folder:
        source = Path(folder, "source")
        with tarfile.open(fileobj=BytesIO(_bytes("git", "archive", "HEAD"))) as archive:
            archive.extractall(source, filter="data")
        version = checked_version(source)
        _write_distributions(source, to)
        _write_chart(source, version, to)
        parts = of_lock((source / "requirements-run.lock").read_text())
        _write_bom(PRODUCT, version, parts, to)
        if base != NO_IMAGES:
            _write_images(source, base, version, to)
    digests = {path.name: hashlib.sha256(path.read_bytes()) for path in sorted(to.iterdir())}
    sums = "".join(f"{digest.hexdigest()}  {name}\n" for name, digest in digests.items())
    (to / "SHA256SUMS").write_text(sums)
    sys.stdout.write(sums)


def checked_version(source: Path) -> str:
    """Return the version, which the distribution, the chart and the change log must agree on."""
    settings = tomllib.loads((source / "pyproject.toml").read_text())
    version = str(settings["project"]["version"])
    chart = source / CHART / "Chart.yaml"
    for key in ("version", "appVersion"):
        stated = _stated(chart, rf"^{key}: (\S+)$")
        if stated != version:
            raise Refused(f"{key} of Chart.yaml is {stated}, pyproject.toml says {version}")
    if f"## [{version}]" not in (source / "CHANGELOG.md").read_text():
        raise Refused(f"CHANGELOG.md has no section [{version}]")
    return version


def _write_distributions(source: Path, to: Path) -> None:
    """The archive of the sources, and the wheel that is built of it."""
    words = ("-m", "build", "--no-isolation", "--outdir", str(to), str(source))
    _output(sys.executable, *words)


def _write_chart(source: Path, version: str, to: Path) -> None:
    """The archive that `helm package` makes, without the time of the build in it."""
    chart = source / CHART
    ignored = [*(chart / ".helmignore").read_text().split(), ".helmignore"]
    files = {
        f"{chart.name}/{path.relative_to(chart).as_posix()}": path
        for path in chart.rglob("*")
        if path.is_file() and not any(fnmatch.fnmatch(path.name, each) for each in ignored)
    }
    write_archive(to / f"{chart.name}-{version}.tgz", files)


def _write_images(source: Path, base: str, version: str, to: Path) -> None:
    """The images, their digests and lists of parts. Needs buildah, and the right to mount."""
    revision = _output("git", "rev-parse", "HEAD").strip()
    settings = {"BASE": base, "TAG": version, "REVISION": revision, "IMAGES": " ".join(IMAGES)}
    _output("packaging/build-images", cwd=source, **settings)
    digests = []
    for name in IMAGES:
        image = f"localhost/{name}:{version}"
        with TemporaryDirectory() as folder:
            told = Path(folder, "digest")
            layout = Path(folder, "layout")
            _buildah("push", "--digestfile", str(told), image, f"oci:{layout}:{version}")
            digests.append(f"{name} {told.read_text().strip()}\n")
            files = {p.relative_to(layout).as_posix(): p for p in layout.rglob("*") if p.is_file()}
            write_archive(to / f"{name}-{version}.oci.tar", files, packed=False)
        container = _buildah("from", "--pull-never", image).strip()
        try:
            root = Path(_buildah("mount", container).strip())
            _write_bom(name, version, of_root(root), to)
        finally:
            _buildah("rm", container)
    (to / "images.txt").write_text("".join(digests))


def _write_bom(name: str, version: str, parts: list[Component], to: Path) -> None:
    document = bom(name, version, parts, int(os.environ["SOURCE_DATE_EPOCH"]))
    text = json.dumps(document, indent=1) + "\n"
    if (wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)) is not None:
        raise ValueError(f"{name}: not CycloneDX: {wrong}")
    (to / f"{name}-{version}.cdx.json").write_text(text)


def _stated(path: Path, pattern: str) -> str:
    found = re.search(pattern, path.read_text(), re.MULTILINE)
    if found is None:
        raise Refused(f"{path.name} has no line like {pattern}")
    return found[1]


def _buildah(*words: str) -> str:
    return _output("buildah", "--storage-driver", os.environ.get("STORAGE_DRIVER", "vfs"), *words)


def _output(*words: str, cwd: Path = ROOT, **environment: str) -> str:
    return _bytes(*words, cwd=cwd, **environment).decode()


def _bytes(*words: str, cwd: Path = ROOT, **environment: str) -> bytes:
    """Return what a command prints; show what it says when it fails."""
    settings = {**os.environ, **environment}
    done = subprocess.run(words, cwd=cwd, env=settings, capture_output=True, check=False)
    if done.returncode:
        said = (done.stdout + done.stderr).decode(errors="replace")[-4000:]
        raise Refused(f"{' '.join(words[:3])} ended with {done.returncode}:\n{said}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())

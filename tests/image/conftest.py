"""The images, built by `make image`'s script on a Debian that debootstrap makes once."""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.image.containers import Container, Images, space

ROOT = Path(__file__).parents[2]
SUITE = "bookworm"
"""The first Debian with Python 3.11. Its mirror is the one that debootstrap knows."""
INCLUDED = "python3,python3-venv"
TOOLS = ("buildah", "debootstrap", "nsenter", "unshare", "setpriv", "chroot")


def _cache() -> Path:
    """A folder outside the repository, named after what is in it."""
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return caches / "supernode-topology-image" / f"{SUITE}-{INCLUDED.replace(',', '-')}"


@pytest.fixture(scope="session")
def base() -> Path:
    """The root of a Debian with Python and nothing else of ours; made in 40 s, then kept."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}: apt-get install buildah debootstrap")
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount the roots of containers")
    made = _cache()
    if not made.exists():
        unfinished = made.with_name(f"{made.name}.{os.getpid()}")
        words = ("debootstrap", "--variant=minbase", f"--include={INCLUDED}", SUITE, unfinished)
        unfinished.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
        for downloads in ("var/cache/apt", "var/lib/apt/lists"):
            shutil.rmtree(unfinished / downloads)
        unfinished.rename(made)
    return made


@pytest.fixture(scope="session")
def stored(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Images]:
    """A space with the image that ours begin with."""
    with space(tmp_path_factory.mktemp("images")) as there:
        found = Images(there)
        empty = found.output("from", "scratch")
        found.output("copy", "-q", empty, str(base), "/")
        found.output("commit", "-q", "--rm", empty, "base")
        yield found


@pytest.fixture(scope="session")
def base_image(stored: Images) -> str:
    """The name of the image that ours begin with, by digest."""
    (image,) = json.loads(stored.output("images", "--json", "localhost/base"))
    return f"localhost/base@{image['digest']}"


@pytest.fixture(scope="session")
def images(stored: Images, base_image: str) -> Images:
    """The images, as `make image` builds them: half a GiB of memory."""
    words = (f"{ROOT}/packaging/build-images", *stored.folders)
    done = stored.space.ran(*words, BASE=base_image, TAG="test", STORAGE_DRIVER="overlay")
    assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
    return stored


@pytest.fixture(scope="session")
def master(images: Images) -> Container:
    """A container of the master's image."""
    return images.container("localhost/topo-master:test")


@pytest.fixture(scope="session")
def worker(images: Images) -> Container:
    """A container of the worker's image."""
    return images.container("localhost/topo-worker:test")


@pytest.fixture(scope="session")
def sweeper(images: Images) -> Container:
    """A container of the image that sweeps a fabric."""
    return images.container("localhost/topo-sweeper:test")

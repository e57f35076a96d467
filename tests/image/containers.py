"""Containers of the images, made of what the kernel and buildah have: no engine is needed.

A container here has what kubelet gives one of the chart's: the user, entrypoint and environment
that the image names, process number 1, a root that nobody can write, no way to more rights, and the
network of the machine.
"""

import json
import os
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.waiting import CEILING_S

_INSIDE = """
mount --bind "$root" "$root"
mount --rbind -o ro /dev "$root/dev"
mount -t proc -o ro proc "$root/proc"
mount -o remount,bind,ro "$root"
exec chroot "$root" /usr/bin/setpriv --reuid="${user%:*}" --regid="${user#*:}" --clear-groups \\
  --bounding-set=-all --inh-caps=-all --no-new-privs --pdeathsig=KILL /usr/bin/env -i "$@"
"""
"""The death of `unshare` ends the container; the kernel forgets this when the user changes, so
that it is said again."""


_HOLD = 'mount -t tmpfs -o mode=0755 tmpfs "$0"; echo; exec cat'


@dataclass(frozen=True, slots=True)
class Space:
    """A folder in memory, in a mount namespace that the process `holder` keeps."""

    folder: Path
    holder: int

    @property
    def inside(self) -> tuple[str, ...]:
        """Begins the command line of what sees the folder and the mounts in it."""
        return ("nsenter", f"--mount=/proc/{self.holder}/ns/mnt", "env", f"TMPDIR={self.folder}")

    def seen(self, path: str) -> Path:
        """Where processes outside find a path of the inside."""
        return Path(f"/proc/{self.holder}/root{path}")

    def ran(self, *words: str, **environment: str) -> "subprocess.CompletedProcess[str]":
        """What a command did and printed inside."""
        return subprocess.run(
            (*self.inside, *words),
            env=os.environ | environment,
            capture_output=True,
            text=True,
            check=False,
        )


@contextmanager
def space(folder: Path) -> Iterator[Space]:
    """A space that ends with the block or with this process, and all that is mounted in it."""
    line = ("unshare", "--mount", "--propagation=private", "sh", "-ec", _HOLD, str(folder))
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"\n", "no folder in memory could be mounted"
        yield Space(folder, holder.pid)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of an image with this configuration."""

    space: Space
    mounted: str
    """Where its root is in this space."""
    config: Mapping[str, Any]

    @property
    def root(self) -> Path:
        """Where its root can be read and written from here."""
        return self.space.seen(self.mounted)

    @property
    def packages(self) -> Path:
        """Where the image has its Python packages."""
        (found,) = self.root.glob("opt/topo/lib/python3*/site-packages")
        return found

    def put(self, content: str | Path, path: str) -> None:
        """A text or a copy of a folder, there before the root is closed: as if it were mounted."""
        place = self.root / path.lstrip("/")
        if isinstance(content, Path):
            shutil.copytree(content, place)
        else:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(content)

    def command(self, *words: str) -> tuple[str, ...]:
        """The command line that runs these words in the container."""
        begin = f"set -e; root={shlex.quote(self.mounted)}; user={self.config['User']}"
        inside = ("sh", "-c", begin + _INSIDE, "sh", *self.config["Env"], *words)
        return (*self.space.inside, "unshare", "--mount", "--pid", "--fork", *inside)

    @property
    def entrypoint(self) -> tuple[str, ...]:
        """The command line that runs the image as it is meant, to which flags can be added."""
        return self.command(*self.config["Entrypoint"])

    def ran(self, *words: str) -> "subprocess.CompletedProcess[str]":
        """What another program of the image did and printed."""
        line = self.command(*words)
        return subprocess.run(line, capture_output=True, text=True, timeout=CEILING_S, check=False)


@dataclass(frozen=True, slots=True)
class Images:
    """The images of one space, built on overlay mounts, so that no layer is copied."""

    space: Space

    @property
    def folders(self) -> tuple[str, ...]:
        """The options of buildah that say where the images are."""
        return ("--root", f"{self.space.folder}/root", "--runroot", f"{self.space.folder}/run")

    def config(self, name: str) -> Mapping[str, Any]:
        """What the image says of how it is run (OCI image specification, `config`)."""
        found = json.loads(self.output("inspect", "--type", "image", name))
        config: Mapping[str, Any] = found["OCIv1"]["config"]
        return config

    def container(self, name: str) -> Container:
        """A container of this image."""
        mounted = self.output("mount", self.output("from", "--pull-never", name))
        return Container(self.space, mounted, self.config(name))

    def output(self, *words: str) -> str:
        """What buildah prints when it is called with these words."""
        buildah = ("buildah", "--storage-driver", "overlay", *self.folders)
        done = self.space.ran(*buildah, *words)
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout.strip()

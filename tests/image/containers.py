"""Containers of the images, made of what the kernel and buildah have: no engine is needed.

A container here has what kubelet gives one of the chart's: the user, entrypoint and environment
that the image names, process number 1, a root that nobody can write, no way to more rights, and the
network of the machine.
"""

import json
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


@dataclass(frozen=True, slots=True)
class Container:
    """A container of an image with this configuration, whose root is at `root`."""

    root: Path
    config: Mapping[str, Any]

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
        begin = f"set -e; root={shlex.quote(str(self.root))}; user={self.config['User']}"
        inside = ("sh", "-c", begin + _INSIDE, "sh", *self.config["Env"], *words)
        return ("unshare", "--mount", "--pid", "--fork", *inside)

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
    """The images of one storage folder of buildah."""

    buildah: tuple[str, ...]
    """The command, with the options that name the folder."""

    def config(self, name: str) -> Mapping[str, Any]:
        """What the image says of how it is run (OCI image specification, `config`)."""
        found = json.loads(self.output("inspect", "--type", "image", name))
        config: Mapping[str, Any] = found["OCIv1"]["config"]
        return config

    @contextmanager
    def container(self, name: str) -> Iterator[Container]:
        """A container of this image, until the end of the block."""
        made = self.output("from", "--pull-never", name)
        try:
            yield Container(Path(self.output("mount", made)), self.config(name))
        finally:
            self.output("rm", made)

    def output(self, *words: str) -> str:
        """What buildah prints when it is called with these words."""
        done = subprocess.run((*self.buildah, *words), capture_output=True, text=True, check=True)
        return done.stdout.strip()

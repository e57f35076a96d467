"""The file system that a container sees: programs of this machine, and its own mounts over them.

A user and a mount namespace (unshare(1), mount(8)) need no privilege and no container engine. What
is mounted is where the pod says, so a program finds its token, its configuration and its hosts file
as it would in a cluster. Users, capabilities and seccomp profiles of the pod are not played.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from topo.kit.process.child_process import die_with_parent_command

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib64", "/usr", "/etc", "/dev", "/proc", "/sys")
_REPOSITORY = Path(__file__).parents[3]
_BUILD = """set -e
root=$1; shift
mount -t tmpfs none "$root"
while [ "$1" != -- ]; do
  if [ -L "$1" ]; then cp -a "$1" "$root$1"
  elif [ -d "$1" ]; then mkdir -p "$root$1"; mount --rbind "$1" "$root$1"; fi
  shift
done
shift
mkdir -p "$root/run" "$root/var" "$root/.mounts"; mkdir -m 1777 -p "$root/tmp"
ln -s /run "$root/var/run"
count=0
while [ "$1" != -- ]; do
  count=$((count + 1)); at=$root/.mounts/$count
  if [ -d "$1" ]; then mkdir "$at"; else : > "$at"; fi
  mount --rbind "$1" "$at"
  targets="$targets $2"; shift 2
done
exec chroot "$root" sh -c "$MOUNT" sh $targets "$@"
"""
"""Root, directories of this machine, --, (source, target) pairs, --, command line. A target may
hide a source, so all sources are brought inside before the first is put in its place."""
_MOUNT = """set -e
count=0
while [ "$1" != -- ]; do
  count=$((count + 1))
  if [ -d /.mounts/$count ]; then mkdir -p "$1"; fi
  mount --rbind /.mounts/$count "$1"
  shift
done
shift
exec "$@"
"""
PATH = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"


def command(root: Path, mounts: Mapping[str, Path], argv: Sequence[str]) -> tuple[str, ...]:
    """The command line that runs `argv` where each path of `mounts` is the file or folder given.

    `root` is an empty folder for it alone. The process that is started becomes the program: same
    number, ended with its parent.
    """
    program = shutil.which(argv[0], path=PATH)
    assert program is not None, f"no program is called {argv[0]}"
    assert not any(" " in path for path in mounts), mounts
    python = (sys.base_prefix, sys.prefix, str(_REPOSITORY))
    seen = dict.fromkeys((*_SYSTEM, *(path for path in python if not path.startswith("/usr"))))
    hidden = {path: Path(path) for path in python if any(_is_below(path, at) for at in mounts)}
    shown = {**mounts, **hidden}  # a checkout below /tmp is there though the pod has its own /tmp
    pairs = [each for path in sorted(shown) for each in (str(shown[path].resolve()), path)]
    tied = die_with_parent_command(program, *argv[1:])
    unshare = ("unshare", "--map-root-user", "--mount", "--", "sh", "-c", _BUILD, "sh")
    return (*unshare, str(root), *seen, "--", *pairs, "--", *tied)


def _is_below(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def environment(own: Mapping[str, str]) -> dict[str, str]:
    """The variables of a container, and those that the sandbox needs for itself."""
    needed = {"PATH": PATH, "HOME": "/tmp", "MOUNT": _MOUNT}  # noqa: S108 - its own
    return {**needed, "LANG": os.environ.get("LANG", "C.UTF-8"), **own}

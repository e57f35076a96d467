"""Builds the distribution: what the repository calls `topo` is `supernode_topology.topo` in it.

`topo`, `master` and `worker` are names that other distributions may install, too, so the wheel has
one top-level package. The backend copies the packages below it, gives their imports the longer
names, and has setuptools build the copy. Lines stay where they are, so a traceback of an installed
program names the lines of the repository. An editable install is the repository as it is.

The same commit gives the same bytes: with SOURCE_DATE_EPOCH set (reproducible-builds.org) neither
archive has another time in it. Interface: PEP 517 and PEP 660.
"""

import ast
import gzip
import os
import re
import shutil
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO, cast

from setuptools import build_meta

ROOT = "supernode_topology"
PACKAGES = ("topo", "master", "worker")
_BESIDE = ("pyproject.toml", "README.md", "LICENSE")
_FROM = re.compile(rf"^(\s*from )({'|'.join(PACKAGES)})(?=[. ])")
_IMPORT = re.compile(rf"^(\s*import )({'|'.join(PACKAGES)})(?=[.\w]* as )")
_SETTINGS: tuple[tuple[str, str], ...] = (
    (r'= "(topo|master|worker)\.([\w.]+:\w+)"', rf'= "{ROOT}.\1.\2"'),
    (r'include = \["topo\*", "master\*", "worker\*"\]', f'include = ["{ROOT}*"]'),
    (r'^"master\.web" = ', f'"{ROOT}.master.web" = '),
)
"""What pyproject.toml says of the packages: commands, folders and files."""
Settings = Mapping[str, Any] | None

build_editable = build_meta.build_editable
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def get_requires_for_build_wheel(_settings: Settings = None) -> list[str]:
    """Nothing beside what pyproject.toml requires of every build."""
    return []


get_requires_for_build_sdist = get_requires_for_build_wheel
get_requires_for_build_editable = get_requires_for_build_wheel


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, _metadata: str | None = None
) -> str:
    """Write the wheel of the repository in the current directory; return its file name."""
    to = str(Path(wheel_directory).resolve())
    with TemporaryDirectory() as folder, _usual_rights():
        write_layout(Path.cwd(), Path(folder))
        with chdir(folder):
            return str(build_meta.build_wheel(to, _plain(config_settings)))


def build_sdist(sdist_directory: str, config_settings: Settings = None) -> str:
    """Write the archive of the sources; return its file name. Its packages have their short names.

    From it any frontend builds the same wheel as from the repository.
    """
    to = Path(sdist_directory).resolve()
    with TemporaryDirectory() as folder, _usual_rights():
        source = Path(folder, "source")
        copy_packages(Path.cwd(), source)
        for name in (*_BESIDE, "MANIFEST.in", "packaging/backend.py"):
            (source / name).parent.mkdir(exist_ok=True)
            shutil.copy(name, source / name)
        with chdir(source):
            name = str(build_meta.build_sdist(folder, _plain(config_settings)))
        # setuptools writes the times of this build into it.
        with tarfile.open(Path(folder, name)) as written:
            written.extractall(folder, filter="data")
        inside = Path(folder, name.removesuffix(".tar.gz"))
        files = (path for path in inside.rglob("*") if path.is_file())
        write_archive(to / name, {path.relative_to(folder).as_posix(): path for path in files})
    return name


def write_layout(repository: Path, folder: Path) -> None:
    """Write what setuptools builds the wheel of: the packages below one, and its settings."""
    copy_packages(repository, folder / ROOT)
    (folder / ROOT / "__init__.py").write_text('"""Supernode topology discovery."""\n')
    for path in (folder / ROOT).rglob("*.py"):
        path.write_text(renamed(path.read_text("utf-8"), path), "utf-8")
    for name in _BESIDE:
        shutil.copy(repository / name, folder)
        (folder / name).chmod(0o644)
    settings = (folder / "pyproject.toml").read_text("utf-8")
    for old, new in _SETTINGS:
        settings, number = re.subn(old, new, settings, flags=re.MULTILINE)
        if not number:
            raise ValueError(f"pyproject.toml has nothing like {old}: see packaging/backend.py")
    (folder / "pyproject.toml").write_text(settings, "utf-8")


def copy_packages(repository: Path, folder: Path) -> None:
    """Copy the packages without what Python compiled."""
    for name in PACKAGES:
        ignored = shutil.ignore_patterns("__pycache__", "*.d.ts")
        shutil.copytree(repository / name, folder / name, ignore=ignored)
        for path in (folder / name).rglob("*"):  # whatever the umask was when they were checked out
            path.chmod(0o755 if path.is_dir() else 0o644)


def renamed(text: str, path: Path) -> str:
    """Return a module whose imports of the product have the names of the distribution.

    Raises `ValueError` for an import that cannot be renamed on its line, such as `import topo.kit`,
    which binds the short name.
    """
    lines = text.splitlines(keepends=True)
    for number in _lines_of_imports(ast.parse(text)):
        old = lines[number - 1]
        new = _FROM.sub(rf"\1{ROOT}.\2", _IMPORT.sub(rf"\1{ROOT}.\2", old))
        if new == old:
            fix = "write `from … import …`"
            raise ValueError(f"{path}:{number}: {old.strip()!r} cannot be renamed: {fix}")
        lines[number - 1] = new
    return "".join(lines)


def _lines_of_imports(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each statement that imports of the product."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else []
        elif isinstance(node, ast.Import):
            names = [each.name for each in node.names]
        else:
            continue
        if any(name.partition(".")[0] in PACKAGES for name in names):
            yield node.lineno


@contextmanager
def _usual_rights() -> Iterator[None]:
    """Make new files readable by all, whatever mask of rights this process has: wheels keep it."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _plain(settings: Settings) -> dict[str, Any] | None:
    return None if settings is None else dict(settings)


def write_archive(to: Path, files: Mapping[str, Path], *, packed: bool = True) -> None:
    """Write a tar archive of these files by name, packed by gzip; same files, same bytes."""
    time_s = int(os.environ.get("SOURCE_DATE_EPOCH", "315532800"))
    with ExitStack() as opened:
        file: BinaryIO = opened.enter_context(to.open("wb"))
        if packed:
            zipped = gzip.GzipFile("", "wb", mtime=time_s, fileobj=file)
            file = cast("BinaryIO", opened.enter_context(zipped))
        archive = opened.enter_context(tarfile.open(fileobj=file, mode="w"))
        for name, path in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = path.stat().st_size, time_s, 0o644
            with path.open("rb") as content:
                archive.addfile(member, content)

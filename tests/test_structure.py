"""Folders and modules are small enough to find one's way, and the names of classes distinct."""

import ast
import subprocess
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PRODUCT = ("topo", "master", "worker")
FOLDERS = {
    *(".ci", "bench", "docs", "examples", "helm", "monitoring", "packaging", "tests"),
    *PRODUCT,
}
MOST_MODULES, MOST_LINES, MOST_HOMES = 16, 500, 2


def modules(*packages: str) -> Iterator[Path]:
    """All modules below these folders, as paths from the root."""
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            if "node_modules" not in path.parts:
                yield path.relative_to(ROOT)


def test_the_root_has_the_folders_of_the_product_and_no_other() -> None:
    """A program that a test runs may write where it is started, and a commit may take that up."""
    words = ("git", "ls-files", "-z", "-co", "--exclude-standard")
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    assert {path.split("/")[0] for path in done.stdout.split("\0") if "/" in path} == FOLDERS


def test_no_folder_has_more_than_16_modules() -> None:
    """`__init__.py` aside. Tests are sorted by what they test, and may be more."""
    counts = Counter(
        path.parent.as_posix() for path in modules(*PRODUCT, "bench") if path.stem != "__init__"
    )
    assert {folder: n for folder, n in counts.items() if n > MOST_MODULES} == {}


@pytest.mark.parametrize("package", [*PRODUCT, "bench", "monitoring", "tests"])
def test_no_module_has_more_than_500_lines(package: str) -> None:
    lengths = {
        path.as_posix(): len((ROOT / path).read_text(encoding="utf-8").splitlines())
        for path in modules(package)
    }
    assert {path: n for path, n in lengths.items() if n > MOST_LINES} == {}


def test_no_class_name_is_in_more_than_two_modules_of_the_product() -> None:
    homes: dict[str, set[str]] = defaultdict(set)
    for path in modules(*PRODUCT):
        for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                homes[node.name].add(path.as_posix())
    assert {name: sorted(at) for name, at in homes.items() if len(at) > MOST_HOMES} == {}


def test_controllers_read_pods_only_as_the_store_parsed_them() -> None:
    """As `ClusterPod` and `GangPod`; import-linter knows modules, not the names in them."""
    raw = {"PodObject", "PodSpec", "PodStatus", "Container", "Resources", "SchedulingGate"}
    found = {
        path.as_posix(): sorted(names)
        for path in modules("master/controllers")
        if (names := raw & imported(path))
    }
    assert found == {}


def imported(path: Path) -> set[str]:
    """The names that a module imports from others, and the attributes that it reads of them."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    froms = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom))
    attributes = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    return {alias.name for node in froms for alias in node.names} | attributes

"""The real programs of a cluster: built once from the Go modules beside this file, then kept.

`python -m tests.e2e.controlplane.programs` builds what is missing. Programs lie in a cache folder
outside the repository, in one folder per state of a module (go.mod, go.sum, Go version), so a
change builds anew and a checkout of an older state finds its own.

A module that `completes` another is built with a copy of that one, to which the files in its folder
`added` are added: declarations that a program uses and the newest version to be had lacks.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
_ADDED = "added"
_KUBERNETES = "k8s.io/kubernetes"


@dataclass(frozen=True, slots=True)
class Module:
    """A Go module of ours that requires programs of others; `version_of` goes into the programs."""

    name: str
    packages: Mapping[str, str] = field(hash=False)
    """What is built, by the name of the program."""
    version_of: str | None = field(default=None, kw_only=True)
    """The required module whose version Kubernetes' programs must state as their own."""
    completes: str | None = field(default=None, kw_only=True)
    """The required module to which the files in `added` are added."""

    @property
    def source(self) -> Path:
        """Where its go.mod lies."""
        return HERE / self.name

    def program(self, name: str) -> Path:
        """The path of a program, which `build` has made."""
        return _folder(self) / name


_OF_KUBERNETES = {
    "kube-apiserver": f"{_KUBERNETES}/cmd/kube-apiserver",
    "kube-controller-manager": f"{_KUBERNETES}/cmd/kube-controller-manager",
    "kube-scheduler": f"{_KUBERNETES}/cmd/kube-scheduler",
    "etcd": "./etcd",
}
NEWEST = Module("kube", _OF_KUBERNETES, version_of=_KUBERNETES)
OLDEST = Module("kube-oldest", _OF_KUBERNETES, version_of=_KUBERNETES)
"""The oldest Kubernetes that the chart installs on, for a part of the suite."""
KUBE = OLDEST if os.environ.get("TOPO_E2E_KUBERNETES") == "oldest" else NEWEST
TOOLS = Module(
    "tools",
    {"helm": "helm.sh/helm/v4/cmd/helm", "kwok": "sigs.k8s.io/kwok/cmd/kwok"},
)
HELM3 = Module("helm3", {"helm": "helm.sh/helm/v3/cmd/helm"})
"""The major version before, which many still run: the chart works with both."""
VOLCANO = Module(
    "volcano",
    {
        "controller-manager": "volcano.sh/volcano/cmd/controller-manager",
        "scheduler": "volcano.sh/volcano/cmd/scheduler",
        "webhook-manager": "volcano.sh/volcano/cmd/webhook-manager",
    },
    completes="volcano.sh/apis",
)
KUEUE = Module("kueue", {"kueue": "sigs.k8s.io/kueue/cmd/kueue"})
JOBS = Module(
    "jobs",
    {
        "jobset": "sigs.k8s.io/jobset",
        "lws": "sigs.k8s.io/lws/cmd",
        "trainer": "github.com/kubeflow/trainer/v2/cmd/trainer-controller-manager",
    },
)
"""The controllers of other kinds of jobs, built of one set of libraries."""
OPERATORS = Module(
    "operators",
    {
        "kuberay": "github.com/ray-project/kuberay/ray-operator",
        "training-operator": "github.com/kubeflow/training-operator/cmd/training-operator.v1",
        "mpi-operator": "github.com/kubeflow/mpi-operator/cmd/mpi-operator",
    },
)
"""Further ones, of older libraries; only `make e2e-kinds` builds them."""
MODULES = (KUBE, TOOLS, HELM3, VOLCANO, KUEUE, JOBS)


def why_not() -> str | None:
    """Why nothing can be built or found here, None where all can."""
    if shutil.which("go") is None:
        return "there is no Go to build the programs of a cluster with (https://go.dev/dl)"
    return None


def build(*modules: Module) -> None:
    """Makes the programs of these modules that are missing; the first time takes minutes.

    Raises `subprocess.CalledProcessError` where Go refuses; it has said why on standard error.
    """
    for module in modules:
        if not _missing(module):
            continue
        with _locked(module):  # another run may have built it meanwhile
            if missing := _missing(module):
                _build(module, missing)


@cache
def module_folder(module: Module, path: str) -> Path:
    """The folder of a module that `module` requires, for its manifests and charts."""
    _go(module, "mod", "download", path)
    return Path(_go(module, "list", "-m", "-f", "{{.Dir}}", path))


def _missing(module: Module) -> list[str]:
    return [name for name in module.packages if not module.program(name).exists()]


def _build(module: Module, missing: list[str]) -> None:
    _tell(f"building {', '.join(missing)} (minutes, the first time)")
    began_s = time.monotonic()
    unfinished = _folder(module) / f"unfinished.{os.getpid()}"
    unfinished.mkdir()
    flags = "-s -w"
    if module.version_of is not None:
        version = _go(module, "list", "-m", "-f", "{{.Version}}", module.version_of)
        flags += f" -X k8s.io/component-base/version.gitVersion={version}"
    packages = (module.packages[name] for name in missing)
    try:
        command = ("build", "-o", f"{unfinished}/", "-ldflags", flags, *packages)
        source = module.source
        if module.completes is not None:
            source = _completed(module, module.completes, unfinished / "source")
        _go(module, *command, folder=source)
        for name in missing:
            program = unfinished / module.packages[name].rpartition("/")[2]
            program.rename(module.program(name))
    finally:
        shutil.rmtree(unfinished)
    _tell(f"built in {time.monotonic() - began_s:.0f} s")


def _completed(module: Module, path: str, folder: Path) -> Path:
    """A copy of a module that uses a copy of the module `path` with more files."""
    shutil.copytree(module.source, folder)
    copy = folder / "completed"
    shutil.copytree(module_folder(module, path), copy, copy_function=shutil.copyfile)
    for each in (copy, *copy.rglob("*")):  # the folders of Go's cache cannot be written
        each.chmod(0o755 if each.is_dir() else 0o644)
    shutil.copytree(folder / _ADDED, copy, dirs_exist_ok=True)
    _go(module, "mod", "edit", f"-replace={path}=./completed", folder=folder)
    return folder


def _go(module: Module, *arguments: str, folder: Path | None = None) -> str:
    """What a go command printed in the module's folder, or in a copy of it."""
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder or module.source,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@cache
def _folder(module: Module) -> Path:
    caches = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    state = hashlib.sha256(_go(module, "env", "GOVERSION", "GOOS", "GOARCH").encode())
    for source in sorted(module.source.rglob("*")):
        if source.is_file():
            state.update(source.read_bytes())
    folder = caches / "supernode-topology-e2e" / f"{module.name}-{state.hexdigest()[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def _locked(module: Module) -> Iterator[None]:
    """Of two runs that build at once, the second waits for the first."""
    with (_folder(module) / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _tell(line: str) -> None:
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def main() -> int:
    """The exit code: 0 when all programs are there, 1 where they cannot be."""
    if (reason := why_not()) is not None:
        _tell(reason)
        return 1
    build(*MODULES)
    return 0


if __name__ == "__main__":
    sys.exit(main())

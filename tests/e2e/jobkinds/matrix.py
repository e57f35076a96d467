"""Each kind of job by each scheduler, through its life: `make e2e-kinds KINDS= SCHEDULERS=`.

A cell is a job of eight pairs on two elected masters: it is bound, it is scaled, a pod of it is
lost while its controller is restarted, and it is made again while the leading master is killed.
After each step every pair has to be whole, in the order of ranks. A cell that fails says why, and
the next one goes on; what a scheduler cannot serve is said in docs/job-kinds.md.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.e2e.controlplane.client import Api, ApiError
from tests.e2e.controlplane.cluster import Cluster, own_cluster
from tests.e2e.controlplane.job_controllers import (
    JOB_SET,
    LEADER_WORKER_SET,
    TRAINER,
)
from tests.e2e.controlplane.job_controllers import install as install_controllers
from tests.e2e.controlplane.kueue import FRAMEWORKS
from tests.e2e.controlplane.operators import KUBERAY, MPI, TRAINING
from tests.e2e.controlplane.operators import install as install_operators
from tests.e2e.controlplane.volcano import TOPOLOGY_AWARE
from tests.e2e.jobkinds.kinds import ALL, KINDS, Kind
from tests.e2e.jobkinds.life import HELD, QUEUES, Life
from tests.e2e.kueue.queues import RENDERING, is_published, open_wide_queue, plain_flavor
from tests.e2e.scheduling.elected_masters import ElectedMasters, elected_admission
from tests.e2e.scheduling.gang_master import document
from tests.support.waiting import eventually
from topo.sim.worlds.presets import world as made

CONTROLLERS = "--controllers=labels,hypernodes,nomination,kueue-topologies,kueue-workloads"
SCHEDULERS = ("kube", "volcano", "kueue", HELD, "volcano-native", "kueue-native")
SERVED: Mapping[str, Sequence[str]] = {
    HELD: ("job", "jobset", "raycluster"),
    "volcano-native": ("volcano-job",),
    "kueue-native": (
        *("job", "jobset", "trainjob", "leaderworkerset", "statefulset"),
        *("pytorchworkers", "mpijob"),
    ),
}
"""The kinds that are held before their quota, or that a scheduler of its own topologies serves."""
_FURTHER = (
    *("leaderworkerset.x-k8s.io/leaderworkerset", "trainer.kubeflow.org/trainjob"),
    *("ray.io/raycluster", "ray.io/rayjob", "kubeflow.org/pytorchjob", "kubeflow.org/mpijob"),
)
KUEUE = {"integrations": {"frameworks": [*FRAMEWORKS, *_FURTHER]}}
UNSCALED = frozenset((kind, scheduler) for kind in ("job", "statefulset") for scheduler in QUEUES)
"""Kueue stops a Job whose size changes, and refuses another number of replicas of a StatefulSet."""
WAITING = frozenset(
    (kind, "kueue-native")
    for kind in ("job", "jobset", "trainjob", "statefulset", "pytorchworkers", "mpijob")
)
"""Kueue would split what it starts while old pods end: the webhook has it wait for them."""
STOPPED_FIRST = "mpijob"
"""Its pods beyond a smaller size would be left: the webhook says to stop it first."""
KEPT = frozenset({("pods", "kueue")})
"""Kueue keeps a deleted pod of a group until the group ends, so none of its name can come again."""
REFUSED_AGAIN = frozenset(
    (kind, scheduler) for kind in ("jobset", "jobset-exclusive") for scheduler in QUEUES
)
"""JobSet refuses a list of templates without what Kueue added when it started the job."""
STEP_S = 90.0


def cells(kinds: Sequence[str], schedulers: Sequence[str]) -> Iterator[tuple[Kind, str]]:
    """The cells of the matrix, a scheduler after the other."""
    for scheduler in schedulers:
        for name in kinds:
            is_of_volcano = name == "volcano-job"
            if scheduler in SERVED:
                if name in SERVED[scheduler]:
                    yield KINDS[name], scheduler
            elif not is_of_volcano or scheduler == "volcano":
                yield KINDS[name], scheduler


@dataclass
class Cell:
    """One cell of the matrix; `steps` says how long each step took, or why it failed."""

    life: Life
    masters: ElectedMasters
    steps: dict[str, str] = field(default_factory=dict)

    async def live(self) -> None:
        """Go through all steps; the first one has to succeed."""
        life = self.life
        try:
            if await self._step("bound", life.make()):
                cell = (life.kind.name, life.scheduler)
                if cell not in KEPT:
                    await self._step("pod lost", life.lose_a_pod())
                if life.kind.part is not None:
                    await self._step("another lost", life.lose_a_pod(at=3))
                    if life.kind.program == "jobset":
                        await self._step("restarted", life.fail())
                if cell not in REFUSED_AGAIN:
                    await self._step("applied again", life.apply_again())
                is_scaled = life.kind.scaled is not None and cell not in UNSCALED
                if cell in WAITING and not is_scaled:
                    await self._step("started again", life.start_again_slowly())
                if is_scaled:
                    out = life.scale_slowly if cell in WAITING else life.scale
                    is_refused = cell in WAITING and life.kind.name == STOPPED_FIRST
                    scale_in = life.scale_as_told if is_refused else out
                    await self._step("scaled in", scale_in(life.kind.least))
                    await self._step("scaled out", out(ALL))
                await self._step("leader killed", self._make_again())
        finally:
            self.masters.start()
            await life.end()

    async def _make_again(self) -> None:
        """The leader dies, and the job comes again as soon as the Service leads to the other one.

        Before that its review may come to nobody, and passes by (`failurePolicy: Ignore`). A master
        that ended by itself, since its API server was away, is started again as a kubelet does.
        """
        self.masters.start()
        await eventually(lambda: self.masters.proxy.ready == len(self.masters.masters))
        await self.masters.kill_leader()
        await self.life.end()
        await eventually(lambda: self.masters.proxy.ready == 1)
        await self.life.make()

    async def _step(self, name: str, act: Awaitable[None]) -> bool:
        began_s = time.monotonic()
        try:
            async with asyncio.timeout(STEP_S):
                await act
        except (TimeoutError, ApiError, AssertionError) as error:
            self.steps[name] = f"FAILED: {str(error)[:300] or await self.life.explain()}"
            return False
        self.steps[name] = f"{time.monotonic() - began_s:.1f} s"
        return True


async def run(cluster: Cluster, home: Path, asked: Sequence[tuple[Kind, str]]) -> int:
    """Live through the cells on a cluster that is not started; return how many failed."""
    world = made(2, 4, 2, 8, stem="sample")
    (home / "nodegroup.yaml").write_text(yaml.safe_dump(document(world)))
    await cluster.start(world)
    async with cluster.api() as api:
        installed = await install_controllers(cluster, api, JOB_SET, LEADER_WORKER_SET, TRAINER)
        # The MPI Operator has one port for its health, so that it runs once on a machine.
        needed = {kind.program for kind, _ in asked}
        operators = (each for each in (KUBERAY, TRAINING, MPI) if each.name in needed)
        installed += await install_operators(cluster, api, *operators)
        assert cluster.kueue is not None
        await cluster.kueue.restart()  # it refuses TrainJobs whose runtimes it did not find
        programs = {each.name: each for each in (*cluster.programs, *installed)}
        try:
            async with elected_admission(
                cluster, api, home, CONTROLLERS, rendering=RENDERING
            ) as masters:
                await _open_queues(api)
                failed = 0
                for kind, scheduler in asked:
                    await _hold(masters, before_quota=scheduler == HELD)
                    program = programs.get(kind.program)
                    cell = Cell(Life(api, world, kind, scheduler, masters.url, program), masters)
                    await cell.live()
                    failed += any(each.startswith("FAILED") for each in cell.steps.values())
                    line = ", ".join(f"{name} {each}" for name, each in cell.steps.items())
                    sys.stdout.write(f"{kind.name} x {scheduler}: {line}\n")
                    sys.stdout.flush()
                return failed
        finally:
            for each in installed:
                each.stop(0.0)


async def _hold(masters: ElectedMasters, *, before_quota: bool) -> None:
    """Both masters run, and their webhook holds jobs before their quota or does not."""
    name = "--hold-before-quota="
    flag = name + str(before_quota).lower()
    for each in masters.masters.values():
        if flag not in each.argv:
            await asyncio.to_thread(each.stop)
            each.argv = (*(word for word in each.argv if not word.startswith(name)), flag)
    masters.start()
    await eventually(lambda: masters.proxy.ready == len(masters.masters))


async def _open_queues(api: Api) -> None:
    await eventually(lambda: is_published(api))
    await plain_flavor(api)
    for name, flavor in {*QUEUES.values()}:
        await open_wide_queue(api, name, flavor, 8 * ALL)


def main() -> int:
    """Run on a cluster of its own; 1 where a cell failed."""
    parser = argparse.ArgumentParser("python -m tests.e2e.jobkinds.matrix")
    parser.add_argument("--kinds", default="", help=f"of {','.join(KINDS)}; all without")
    parser.add_argument("--schedulers", default="", help=f"of {','.join(SCHEDULERS)}; all without")
    found = parser.parse_args()
    kinds = found.kinds.split(",") if found.kinds else list(KINDS)
    schedulers = found.schedulers.split(",") if found.schedulers else SCHEDULERS
    home = Path(tempfile.mkdtemp(prefix="topo-kinds-"))
    sys.stdout.write(f"logs: {home}\n")
    parts: dict[str, Any] = {"volcano_configuration": TOPOLOGY_AWARE, "kueue": KUEUE}
    with own_cluster(home, **parts) as cluster:
        failed = asyncio.run(run(cluster, home, list(cells(kinds, schedulers))))
    sys.stdout.write(f"{failed} cells failed\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

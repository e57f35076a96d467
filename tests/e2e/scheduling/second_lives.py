"""Jobs that run are stopped by their users and start again, often with fewer pods or more.

A batch Job is suspended; a Volcano Job gets another number of workers and then the command
`RestartJob`, whose controller deletes all of its pods and makes them anew.

Sources: kubernetes.io, "Suspending a Job" and "Elastic Indexed Jobs"; `Command` of
bus.volcano.sh/v1alpha1 in volcano.sh/apis, and what its webhook lets change of a Job
(`validateJobUpdate` of pkg/webhooks/admission/jobs/validate/admit_job.go, Volcano v1.15).
"""

import random
from dataclasses import dataclass, replace
from typing import Any

from tests.e2e.controlplane.client import Api
from tests.e2e.scheduling.jobs import BATCH_JOBS, PODS, owner_of
from tests.e2e.scheduling.recount import Wish
from tests.support.waiting import eventually

COMMANDS = "/apis/bus.volcano.sh/v1alpha1/namespaces/default/commands"


@dataclass(slots=True)
class SecondLives:
    """Restarts jobs of one collection; the sizes that they get are drawn."""

    api: Api
    collection: str
    rng: random.Random
    commands: int = 0

    async def restart(self, wish: Wish) -> Wish:
        """Return the job as it is from now on; none of its pods of before is there any more."""
        after = replace(wish, pods=self._drawn_pods(wish))
        job = await self.api.get(f"{self.collection}/{wish.name}")
        before = {pod["metadata"]["uid"] for pod in await self._pods(wish.name)}
        if self.collection == BATCH_JOBS:
            await self._change(wish.name, suspend=True)
            await self._until_gone(wish.name, before)
            await self._change(wish.name, completions=after.pods, parallelism=after.pods)
            await self._change(wish.name, suspend=False)
        else:
            await self._resize_tasks(job, after.pods)
            await self._command_restart(job)
            await self._until_gone(wish.name, before)
        return after

    def _drawn_pods(self, wish: Wish) -> int:
        """As many as before, fewer, or one group more where that is no larger than two groups."""
        fewest = 1 if self.collection == BATCH_JOBS else min(2, wish.pods)
        most = wish.pods + (wish.group_pods if wish.pods <= wish.group_pods else 0)
        if fewest == wish.pods and self.collection != BATCH_JOBS:
            return wish.pods  # it has no task of workers
        return self.rng.choice((wish.pods, self.rng.randint(fewest, wish.pods), most))

    async def _change(self, name: str, **spec: Any) -> None:
        await self.api.merge(f"{self.collection}/{name}", {"spec": spec})

    async def _resize_tasks(self, job: Any, pods: int) -> None:
        tasks = job["spec"]["tasks"]
        if len(tasks) > 1:
            tasks[1] |= {"replicas": pods - 1, "minAvailable": pods - 1}
            await self._change(job["metadata"]["name"], minAvailable=pods, tasks=tasks)

    async def _command_restart(self, job: Any) -> None:
        self.commands += 1
        target = {"apiVersion": job["apiVersion"], "kind": job["kind"]}
        target |= {each: job["metadata"][each] for each in ("name", "uid")}
        owner = {**target, "controller": True}
        metadata = {"name": f"restart-{self.commands}", "ownerReferences": [owner]}
        command = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": metadata}
        command |= {"action": "RestartJob", "target": target}
        await self.api.create(COMMANDS, command)

    async def _until_gone(self, name: str, uids: set[str]) -> None:
        async def are_gone() -> bool:
            return uids.isdisjoint(pod["metadata"]["uid"] for pod in await self._pods(name))

        await eventually(are_gone)

    async def _pods(self, name: str) -> list[Any]:
        return [pod for pod in await self.api.items(PODS) if owner_of(pod) == name]

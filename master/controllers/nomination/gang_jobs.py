"""The jobs of gangs: how many pods each gang has now, as its job says.

A pod states the size that its job had when it was made. Where the job can be read that is what
counts, so that a gang of a job that was scaled in waits for no pod that nobody makes.
"""

from collections.abc import Callable, Sequence

from master.kube.reflector import StoreEvent
from master.kube.schedulers.jobs import JobObject
from master.kube.store import Grouped, Store, updates
from topo.gangs.job_ranks import JobRanks, joined
from topo.gangs.machine.gang import GangId


class GangJobs:
    """Jobs by gang. Each of `marks` is called with a gang whose job changed. Mutable."""

    def __init__(
        self, stores: Sequence[Store[JobObject]], *marks: Callable[[GangId], None]
    ) -> None:
        self._marks = marks
        self._stores: list[Grouped[GangId, JobRanks]] = []
        for store in stores:
            self._follow(store)

    def ranks(self, gang_id: GangId) -> JobRanks | None:
        """Return the ranks of a gang; None where no job that says them is known. O(its jobs)."""
        return joined(ranks for jobs in self._stores for ranks in jobs.values(gang_id).values())

    def _follow(self, store: Store[JobObject]) -> None:
        jobs: Grouped[GangId, JobRanks] = Grouped()
        self._stores.append(jobs)

        def follow(event: StoreEvent[JobObject]) -> None:
            gangs: dict[GangId, None] = {}
            for key, job in updates(event, tuple(jobs.keys)):
                if (before := jobs.drop(key)) is not None:
                    gangs[before] = None
                if job is not None:
                    jobs.put(key, job.gang_id, job.ranks)
                    gangs[job.gang_id] = None
            for gang_id in gangs:
                for mark in self._marks:
                    mark(gang_id)

        store.subscribe(follow)

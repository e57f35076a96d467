"""A random life in which jobs are stopped, started, scaled, evicted with grace, and fail in part.

The same masters that die, the same judge, and one more judgement: whoever is complete is told as
bound, and the rest of a job that runs in part goes on once there is room for it.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from tests.controllers.nomination.objects import parse
from tests.tenancy.cluster import GPUS, is_live, node_of, takes
from tests.tenancy.jobs import UserJob
from tests.tenancy.life import BrokenPromiseError, SharedLife
from tests.tenancy.second_jobs import Key, SecondLives
from topo.model.conditions.gang_states import GangState

SCALED = ("batch", "batch", "volcano", "volcano", "jobset", "deployment", "plain")
"""The kinds of jobs, most of which can be changed."""


class SecondLife(SharedLife):
    """One life; every choice is drawn from the seed."""

    def __init__(self, seed: int, *, is_tame: bool = False) -> None:
        super().__init__(seed, is_tame=is_tame)
        self.second = SecondLives(self.cluster)
        self.unread = 0

    def drawn_kind(self) -> str:
        return self.random.choice(SCALED)

    async def step(self) -> None:
        acts: tuple[Callable[[], None], ...] = (
            *(self.resize,) * 3,
            *(self.stop_or_start,) * 4,
            *(self.evict,) * 2,
            self.fail,
            *(self.change_unread,) * 3,
        )
        for _ in range(self.random.choice((0, 1, 1, 2))):
            self.random.choice(acts)()
        await super().step()

    def calm(self) -> None:
        """Nothing is closed or stopped any more."""
        super().calm()
        for key in [*self.second.stopped]:
            self.note(f"start {key}: {self.second.start(key) or 'done'}")

    async def rest(self, for_s: float) -> None:
        """Pods end meanwhile whose grace is over."""
        left_s = for_s
        while left_s > 0:
            self.second.end_pods()
            await super().rest(min(left_s, 2.5))
            left_s -= 2.5
        self.second.end_pods()

    # What happens

    def resize(self) -> None:
        """A job gets another number of pods, in whole groups or not."""
        if (key := self._drawn()) is not None:
            size = self.cluster.jobs[key].group_pods or 1
            pods = self.random.choice((size, 2 * size, self.random.randint(1, 2 * size)))
            refused = self.second.resize(key, pods)
            self.note(f"resize {key} to {pods}: {refused or 'done'}")

    def stop_or_start(self) -> None:
        """A job is stopped, or started if it is, maybe with another size."""
        if self.second.stopped and self.random.random() < 0.7:
            key = self.random.choice(sorted(self.second.stopped))
            refused = self.second.start(key)
            self.note(f"start {key}: {refused or 'done'}")
            return
        drawn = self._drawn()
        if drawn is not None and drawn not in self.second.stopped:
            refused = self.second.stop(drawn)
            self.note(f"stop {drawn}: {refused or 'done'}")

    def evict(self) -> None:
        """A pod is deleted with grace, and its job makes another one at once."""
        if (name := self._drawn_pod()) is not None:
            self.note(f"evict {name}")
            self.second.evict(*name)

    def fail(self) -> None:
        """A pod of a batch Job fails for good."""
        found = self._drawn_pod()
        if found is not None and self.cluster.jobs[found[0]].objects[0][0] == "batch/v1":
            self.note(f"fail {found}")
            self.second.fail(*found)

    def lose_pod(self) -> None:
        if (found := self._drawn_pod()) is not None:
            self.note(f"lose {found}")
            stored = self.cluster.api.objects[f"/api/v1/namespaces/{found[0][0]}/pods", found[1]]
            self.cluster.lose(stored.document)

    def finish(self) -> None:
        before = {*self.cluster.jobs}
        super().finish()
        for key in before - self.cluster.jobs.keys():
            self.second.forget(key)

    def change_unread(self) -> None:
        """Objects are changed in what no master reads; all of them, or a few."""
        objects = [*self.cluster.api.objects]
        chosen = self.random.choice((objects, self.random.sample(objects, min(3, len(objects)))))
        for at, name in chosen:
            self.unread += 1
            metadata = self.cluster.api.objects[at, name].document["metadata"]
            metadata.setdefault("annotations", {})["example.com/looked-at"] = str(self.unread)
            self.cluster.api.touch(at, name)
        self.note(f"{len(chosen)} objects are changed unread")

    def _drawn(self) -> Key | None:
        keys = self.second.jobs()
        return self.random.choice(keys) if keys else None

    def _drawn_pod(self) -> tuple[Key, str] | None:
        found = [(key, name) for key in self.second.jobs() for name in self.cluster.jobs[key].pods]
        return self.random.choice(found) if found else None

    # What must hold

    def judge_delays(self, *, beside_tenant: bool) -> None:
        super().judge_delays(beside_tenant=beside_tenant)
        for key, job in self.cluster.jobs.items():
            self.judge_complete(key, job)
        taken = self.cluster.used() + self._held()
        for key, job in self.cluster.jobs.items():
            is_behind = self.state(key, job) is GangState.BEHIND
            if job.group_pods and not is_behind and rest_fits(self, key, job, taken):
                raise BrokenPromiseError(
                    f"{key} has room for its other pods\n{self.story()}{self.states()}"
                )

    def judge_complete(self, key: Key, job: UserJob) -> None:
        """A job whose pods are all there and run is told as bound."""
        pods = [*self.cluster.pods_of(key, job)]
        if not job.group_pods or not pods or not all(is_live(pod) and takes(pod) for pod in pods):
            return
        state = self.state(key, job)
        if state is not GangState.BOUND:
            raise BrokenPromiseError(f"{key} runs and is {state}\n{self.story()}{self.states()}")

    def state(self, key: Key, job: UserJob) -> GangState | None:
        """What the leader says of a job; None for one without pods."""
        for pod in self.cluster.pods_of(key, job):
            status = self.master.nomination.machine.status(parse(pod).gang_id)
            return status.state if status is not None else None
        return None

    def _held(self) -> Counter[str]:
        """What is kept for pods that wait, of anybody."""
        there = {pod["metadata"]["uid"]: pod for pod in self.cluster.pods()}
        held: Counter[str] = Counter()
        for owner, nodes in self.booked().items():
            pod = there.get(owner.rpartition("/")[2])
            if pod is None or not takes(pod):
                held.update(nodes)
        return held


def rest_fits(life: SharedLife, key: Key, job: UserJob, taken: Mapping[str, int]) -> bool:
    """Whether pods of a job that runs in part wait although each has room near its group.

    Required groups of ranked pods alone; what is kept for anybody is taken.
    """
    pods = [pod for pod in life.cluster.pods_of(key, job) if is_live(pod)]
    bound = [pod for pod in pods if node_of(pod)]
    if not bound or len(bound) == len(pods) or job.is_elastic or not job.is_required:
        return False
    homes, room = life.cluster.shape.homes, Counter[str]()
    for node, home in homes.items():
        if life.cluster.is_open(node):
            room[home] += max(0, GPUS - taken.get(node, 0)) // job.gpus
    rank_of = life.cluster.ranks
    begun = {
        rank_of[pod["metadata"]["uid"]][1] // job.group_pods: homes[node_of(pod)] for pod in bound
    }
    fresh = Counter[int]()
    for pod in pods:
        group = rank_of[pod["metadata"]["uid"]][1] // job.group_pods
        if not node_of(pod):
            if group in begun:
                room[begun[group]] -= 1
            else:
                fresh[group] = job.group_pods
    if any(left < 0 for left in room.values()):
        return False
    return sum(left // job.group_pods for left in room.values()) >= len(fresh)

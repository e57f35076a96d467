"""The size of a gang: how many ranks it has, and of which of them a pod is awaited.

Its job says so, where that can be read, and then no pod makes its gang larger. Else the stamp on
the pods does, which is of the moment when the job was made; a rank beyond it shows that the job has
more pods since. Where the controller of a kind tells each pod a smaller size, and all agree, that
counts.
"""

from collections.abc import Iterable, Sequence

from master.controllers.nomination.gangs.context import GangContext
from master.kube.gang_pod import EndedPod, GangPod
from topo.gangs.job_ranks import JobRanks, UnmadeRanks, unmade_ranks
from topo.gangs.stamp import Stamp
from topo.model.limits import MAX_PODS


def ranks_of_job(pods: Sequence[GangPod], stamp: Stamp, context: GangContext) -> JobRanks:
    """Return the ranks that a gang has by its job, else by its stamp and its pods; O(pods)."""
    found = context.job_ranks(pods[0].gang_id)
    if found is not None:
        return found
    live = [pod for pod in pods if not (pod.is_chooser or pod.finished or pod.terminating)]
    stated = {pod.stated_pods for pod in live}
    least = max(stated) if len(stated) == 1 else 0
    last = max((min(pod.rank, MAX_PODS) for pod in pods if not pod.is_chooser), default=0)
    return JobRanks((range(max(least or stamp.pods, last + 1)),))


def ranks_without_pods(
    pods: Sequence[GangPod], ended: Iterable[EndedPod], context: GangContext
) -> UnmadeRanks:
    """Return the ranks of a gang of which no pod is made now.

    Those of which a pod has succeeded are not among them, unless its job says so. O(pods), and
    O(ranks) if some are.
    """
    stamp = pods[0].stamp
    if not isinstance(stamp, Stamp):
        return UnmadeRanks()
    job, there = ranks_of_job(pods, stamp, context), tuple(ended)
    live = {pod.rank for pod in pods if not (pod.finished or pod.terminating or pod.is_chooser)}
    succeeded = {pod.rank for pod in there if not pod.failed}
    failed = tuple(range(pod.rank, pod.rank + 1) for pod in there if pod.failed)
    if failed:
        job = JobRanks(job.runs, (*job.ended, *failed), job.at_once)
    return unmade_ranks(job, live, succeeded)


def awaited_pods(
    pods: Sequence[GangPod], ended: Iterable[EndedPod], context: GangContext
) -> int | None:
    """Return how many pods of a gang are to run together now; None for one without a stamp."""
    stamp = pods[0].stamp
    if not isinstance(stamp, Stamp):
        return None
    there = tuple(ended)
    unmade = ranks_without_pods(pods, there, context)
    done = unmade.ended | unmade.later | {pod.rank for pod in there if not pod.failed}
    size = ranks_of_job(pods, stamp, context).size
    return size - sum(rank < size for rank in done)

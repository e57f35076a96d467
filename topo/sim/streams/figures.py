"""What a stream is judged by: span, splits, what stays whole, how long jobs wait.

What each figure means is in docs/benchmarks.md. The first fifth of the jobs fills the
cluster and is not counted; what is an average over time ends with the last arrival.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from topo.placement.job.plan import Pods
from topo.sim.baselines.cluster import Cluster
from topo.sim.streams.jobs import Job, request
from topo.sim.worlds.clusters import GROUP_GPUS, NODE_GPUS

WARM_UP = 0.2
BIG_GPUS = 128
"""From two groups of 64 GPUs on a job counts as big."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One policy on one stream; shares in per cent of what is named.

    `over_span_pct`: jobs of more than one group that take more top groups than on an empty cluster.
    `split_jobs_pct`: of the jobs with a group of several pods, those with a split one, and
    `split_groups_pct` of their groups. `gir_pct`: group integrity, the share of the free GPUs that
    lies in whole groups of 64, over time. `gar_pct`: allocated GPUs over time. Waits are means.
    `blocked_pct`: attempts that failed although the free slots were enough. `stuck`: jobs that
    never started.
    """

    policy: str
    jobs: int
    over_span_pct: float
    split_jobs_pct: float
    split_groups_pct: float
    gir_pct: float
    gar_pct: float
    wait_min: float
    big_wait_min: float
    blocked_pct: float
    p50_us: float
    p99_us: float
    stuck: int


class Statistics:
    """Counts while a stream runs."""

    def __init__(self, cluster: Cluster, jobs: Sequence[Job], spans: Mapping[int, int]) -> None:
        self._cluster, self._spans = cluster, spans
        ordered = sorted(jobs, key=lambda job: job.arrival_s)
        cut = int(len(ordered) * WARM_UP)
        self._counted = frozenset(job.number for job in ordered[cut:])
        self._from_s = ordered[cut].arrival_s if ordered else 0.0
        self._to_s = ordered[-1].arrival_s if ordered else 0.0
        self._now_s = 0.0
        self._views = tuple(cluster.views(request(GROUP_GPUS)))
        self._integrity_s = self._allocated_s = 0.0
        self._starts: list[_Judged] = []
        self._took_ns: list[int] = []
        self._blocked = 0

    def pass_to(self, now_s: float) -> None:
        """Time goes by with the cluster as it is; O(domains)."""
        span_s = min(now_s, self._to_s) - max(self._now_s, self._from_s)
        self._now_s = now_s
        if span_s > 0:
            self._integrity_s += span_s * self._integrity()
            gpus = self._cluster.gpus[-1][0]
            self._allocated_s += span_s * self._cluster.used[-1][0] / gpus if gpus else 0.0

    def tried(self, job: Job, took_ns: int, *, fitted: bool) -> None:
        """A job was tried; one that did not fit is blocked by topology if slots were enough."""
        if job.number not in self._counted:
            return
        self._took_ns.append(took_ns)
        if not fitted:
            views = self._cluster.views(job.request)
            self._blocked += any(view.slots[-1][0] >= job.request.pods for view in views)

    def started(self, job: Job, wait_s: float, groups: Sequence[Pods]) -> None:
        """A job has started after waiting so long; jobs of the warm-up are not counted."""
        if job.number in self._counted:
            self._starts.append(self._judged(job, wait_s, groups))

    def figures(self, policy: str, jobs: int) -> Figures:
        """The sums as figures."""
        starts, span_s = self._starts, max(self._to_s - self._from_s, 1e-9)
        spread = [s for s in starts if s.groups > 1 and s.least]
        grouped = [s for s in starts if s.splittable]
        took = sorted(self._took_ns) or [0]
        return Figures(
            policy=policy,
            jobs=jobs,
            over_span_pct=_share(s.tops > s.least for s in spread),
            split_jobs_pct=_share(s.split > 0 for s in grouped),
            split_groups_pct=100
            * sum(s.split for s in grouped)
            / max(1, sum(s.splittable for s in grouped)),
            gir_pct=100 * self._integrity_s / span_s,
            gar_pct=100 * self._allocated_s / span_s,
            wait_min=_mean(s.wait_s for s in starts) / 60,
            big_wait_min=_mean(s.wait_s for s in starts if s.gpus >= BIG_GPUS) / 60,
            blocked_pct=100 * self._blocked / max(1, len(self._took_ns)),
            p50_us=_rank(took, 50) / 1000,
            p99_us=_rank(took, 99) / 1000,
            stuck=len(self._counted) - len(starts),
        )

    def _integrity(self) -> float:
        """Of the free slots those in whole groups; a full cluster has none that is broken."""
        size = GROUP_GPUS // NODE_GPUS
        free = sum(view.slots[-1][0] for view in self._views)
        whole = sum(
            size * sum(slots // size for slots in view.slots[view.group_tier])
            for view in self._views
            if view.group_tier is not None
        )
        return whole / free if free else 1.0

    def _judged(self, job: Job, wait_s: float, groups: Sequence[Pods]) -> "_Judged":
        tree = self._cluster.tree
        tier = self._group_tier(job, groups)
        nodes = [[tree.position[node] for node, _ in group] for group in groups]
        pods = [sum(count for _, count in group) for group in groups]
        top = tree.domain_of[tree.root - 1]
        return _Judged(
            gpus=job.gpus,
            wait_s=wait_s,
            groups=len(groups),
            tops=len({top[node] for group in nodes for node in group}),
            least=self._spans.get(job.gpus, 0),
            split=sum(len({tree.domain_of[tier][node] for node in group}) > 1 for group in nodes),
            splittable=sum(count > 1 for count in pods),
        )

    def _group_tier(self, job: Job, groups: Sequence[Pods]) -> int:
        """The tier whose domains the job's groups must not cross, by the type that it got."""
        tree = self._cluster.tree
        got = tree.hosts[tree.position[groups[0][0][0]]].gpu_type
        for view in self._cluster.views(job.request):
            if view.gpu_type == got and view.group_tier is not None:
                return view.group_tier
        return tree.root - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """What counts of a job that started: the top groups it took and the least it could have,
    its groups, those of them with several pods, and those split.
    """

    gpus: int
    wait_s: float
    groups: int
    tops: int
    least: int
    split: int
    splittable: int


def average(figures: Sequence[Figures]) -> Figures:
    """The mean of one policy's figures over several streams."""
    first = figures[0]
    means = {
        name: fmean(getattr(each, name) for each in figures)
        for name in Figures.__slots__
        if name not in {"policy", "jobs", "stuck"}
    }
    stuck = sum(each.stuck for each in figures)
    return Figures(policy=first.policy, jobs=first.jobs, stuck=stuck, **means)


def _share(cases: Iterable[bool]) -> float:
    return 100 * _mean(float(case) for case in cases)


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return fmean(found) if found else 0.0


def _rank(ordered: Sequence[int], rank: float) -> int:
    return ordered[max(0, math.ceil(rank / 100 * len(ordered)) - 1)]

"""What a stream is judged by: span, splits, what stays whole, how long jobs wait.

What each figure means is in docs/benchmarks.md. The first fifth of the jobs fills the
cluster and is not counted; what is an average over time ends with the last arrival.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from topo.placement.job.plan import Pods
from topo.sim.baselines.cluster import BaselineCluster
from topo.sim.streams.jobs import StreamJob, request
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

    def __init__(
        self, cluster: BaselineCluster, jobs: Sequence[StreamJob], spans: Mapping[int, int]
    ) -> None:
        self._cluster, self._spans = cluster, spans
        ordered = sorted(jobs, key=lambda job: job.arrival_s)
        cut = int(len(ordered) * WARM_UP)
        self._counted = frozenset(job.number for job in ordered[cut:])
        self._from_s = ordered[cut].arrival_s if ordered else 0.0
        self._to_s = ordered[-1].arrival_s if ordered else 0.0
        self._now_s = 0.0
        self._views = tuple(cluster.views(request(GROUP_GPUS)))
        self._integrity_s = self._allocated_s = 0.0
        self._waits_s: list[float] = []
        self._big_waits_s: list[float] = []
        self._over_span: list[bool] = []
        self._split_jobs: list[bool] = []
        self._split_groups = self._splittable_groups = 0
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

    def tried(self, job: StreamJob, took_ns: int, *, fitted: bool) -> None:
        """A job was tried; one that did not fit is blocked by topology if slots were enough."""
        if job.number not in self._counted:
            return
        self._took_ns.append(took_ns)
        if not fitted:
            views = self._cluster.views(job.request)
            self._blocked += any(view.slots[-1][0] >= job.request.pods for view in views)

    def started(self, job: StreamJob, wait_s: float, groups: Sequence[Pods]) -> None:
        """A job has started after waiting so long; jobs of the warm-up are not counted."""
        if job.number not in self._counted:
            return
        self._waits_s.append(wait_s)
        if job.gpus >= BIG_GPUS:
            self._big_waits_s.append(wait_s)
        tree, least = self._cluster.tree, self._spans.get(job.gpus, 0)
        nodes = [[tree.position[node] for node, _ in group] for group in groups]
        if len(groups) > 1 and least:
            top = tree.domain_of[tree.root - 1]
            self._over_span.append(len({top[node] for group in nodes for node in group}) > least)
        splittable = sum(sum(count for _, count in group) > 1 for group in groups)
        if splittable:
            domain_of = tree.domain_of[self._group_tier(job, groups)]
            split = sum(len({domain_of[node] for node in group}) > 1 for group in nodes)
            self._split_jobs.append(split > 0)
            self._split_groups += split
            self._splittable_groups += splittable

    def figures(self, policy: str, jobs: int) -> Figures:
        """Return the sums as figures."""
        span_s = max(self._to_s - self._from_s, 1e-9)
        took = sorted(self._took_ns) or [0]
        return Figures(
            policy=policy,
            jobs=jobs,
            over_span_pct=_share(self._over_span),
            split_jobs_pct=_share(self._split_jobs),
            split_groups_pct=100 * self._split_groups / max(1, self._splittable_groups),
            gir_pct=100 * self._integrity_s / span_s,
            gar_pct=100 * self._allocated_s / span_s,
            wait_min=_mean(self._waits_s) / 60,
            big_wait_min=_mean(self._big_waits_s) / 60,
            blocked_pct=100 * self._blocked / max(1, len(self._took_ns)),
            p50_us=_rank(took, 50) / 1000,
            p99_us=_rank(took, 99) / 1000,
            stuck=len(self._counted) - len(self._waits_s),
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

    def _group_tier(self, job: StreamJob, groups: Sequence[Pods]) -> int:
        """The tier whose domains the job's groups must not cross, by the type that it got."""
        tree = self._cluster.tree
        got = tree.hosts[tree.position[groups[0][0][0]]].gpu_type
        for view in self._cluster.views(job.request):
            if view.gpu_type == got and view.group_tier is not None:
                return view.group_tier
        return tree.root - 1


def average(figures: Sequence[Figures]) -> Figures:
    """Return the mean of one policy's figures over several streams."""
    first = figures[0]
    means = {
        name: fmean(getattr(each, name) for each in figures)
        for name in Figures.__slots__
        if name not in {"policy", "jobs", "stuck"}
    }
    stuck = sum(each.stuck for each in figures)
    return Figures(policy=first.policy, jobs=first.jobs, stuck=stuck, **means)


def _share(cases: Sequence[bool]) -> float:
    return 100 * _mean(cases)


def _mean(values: Sequence[float]) -> float:
    return fmean(values) if values else 0.0


def _rank(ordered: Sequence[int], rank: float) -> int:
    return ordered[max(0, math.ceil(rank / 100 * len(ordered)) - 1)]

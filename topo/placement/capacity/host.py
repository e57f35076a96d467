"""A node as placement sees it: where it stands, what it could run, whether it may."""

from dataclasses import dataclass

from topo.model.forest import ROOT
from topo.model.ids import GroupPath, Kind, NodeName
from topo.placement.job.request import Labels


@dataclass(frozen=True, slots=True)
class Taint:
    """As Kubernetes defines it; `PreferNoSchedule` never excludes."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One node. `path`, `kinds` and `tiers` run in parallel from the root to the innermost group.

    An empty path: in no group, so it is a domain of its own at every tier. `gpus` are whole GPUs
    that pods may ask for; `penalty` orders equals (0 is best): health, usage pools.
    """

    name: NodeName
    path: GroupPath = ROOT
    kinds: tuple[Kind, ...] = ()
    tiers: tuple[int, ...] = ()
    gpus: int = 0
    gpu_type: str = ""
    ready: bool = True
    cordoned: bool = False
    labels: Labels = ()
    taints: tuple[Taint, ...] = ()
    penalty: int = 0

    @property
    def open(self) -> bool:
        """Whether new pods may start here at all."""
        return self.ready and not self.cordoned

"""`GET /v1/fragmentation`: how broken up the free capacity is."""

from dataclasses import dataclass

from topo.model.rest.gpus import CardFamilyDocument


@dataclass(frozen=True, slots=True)
class ShareDocument:
    """Jobs of one shape and their weight among all; weights need not sum up to anything."""

    pods: int
    gpus_per_pod: int
    group_size: int | None
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TierDocument:
    """The groups of one tier and kind, by how much of them is used.

    `profile` has pairs: free whole groups, and how many groups of the tier have so many.
    """

    tier: int
    kind: str
    domains: int
    pristine: int
    partly_used: int
    full: int
    closed: int
    whole_groups: int
    profile: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class LargestDocument:
    """The most pods that fit now in groups of a size; `tier` null: no group could ever hold it."""

    group_size: int
    gpus_per_pod: int
    pods: int
    gpus: int
    tier: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TypeDocument:
    """The free GPUs of one type; `integrity` is the share of free GPUs in whole groups.

    `node_gpus`: of its usual node. `group_gpus`: of a whole group. `unusable_gpus`: free ones that
    a job of the mix is expected to be unable to use.
    """

    gpu_type: str
    nodes: int
    open_nodes: int
    gpus: int
    free_gpus: int
    node_gpus: int = 0
    group_gpus: int
    whole_groups: int
    integrity: float
    tiers: tuple[TierDocument, ...]
    largest: tuple[LargestDocument, ...]
    unusable_gpus: float


@dataclass(frozen=True, slots=True, kw_only=True)
class FragmentationDocument:
    """The report by GPU type; `mix_observed`: its mix of jobs was seen, not assumed."""

    generation: int = 0
    types: tuple[TypeDocument, ...]
    mix: tuple[ShareDocument, ...] = ()
    shared: tuple[CardFamilyDocument, ...] = ()
    mix_observed: bool = False
    run: str = ""

"""Families of node labels that name groups: which keys, from the outermost level to the innermost.

A family is what one writer of labels writes. The keys of two families are never mixed in one chain:
they may describe different fabrics, or the same one at different times.

Sources, as of 2026-11: the public documentation or source of each writer that is named below. GKE's
`…-topology-host` and every `kubernetes.io/hostname` are left out: a group of one node groups
nothing.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from topo.model.ids import (
    DRAGONFLY,
    FABRIC_OF_KIND,
    NVLINK_CLIQUE,
    NVLINK_DOMAIN,
    RACK,
    SCALE_OUT,
    SUPER_POD,
    SWITCHBOX,
    FabricName,
    Kind,
)

SENTINELS = frozenset(
    {
        "",
        "no-topology",
        "no_topology",
        "no_imds",
        "no-imds",
        "unknown",
        "undefined",
        "unset",
        "none",
        "null",
        "nil",
        "n-a",
        "n_a",
        "-1",
        "-2",
        "4294967295",
    }
)
"""Values that say that nobody knows. Nodes that share one share nothing.

`no-topology` is topograph's for nodes that its provider does not know, `no_imds` that of OCI's
labeler; CoreWeave writes empty values. Ascend's device plugin annotates nodes in no super pod, too:
-2 where it could not ask, -1 or 0xffffffff where the driver says none.
"""
_ZERO_UUID = re.compile(r"[0-]{36}(\..*)?", re.ASCII)
"""The cluster UUID of a host outside any NVLink domain, with or without a clique."""


class LabelLevel(NamedTuple):
    """One level of groups: the label that names them, and their kind.

    `is_optional`: chains go on without it. `until`: the value counts up to the last of these.
    `annotation`: an annotation of the node that says the same where the label is not there.
    """

    key: str
    kind: Kind
    is_optional: bool = False
    until: str = ""
    annotation: str = ""

    def value(self, labels: Mapping[str, str]) -> str:
        """Return what the labels say; "" where they say nothing."""
        value = labels.get(self.key, "").strip()
        if value.lower() in SENTINELS or _ZERO_UUID.fullmatch(value):
            return ""
        return value.rpartition(self.until)[0] if self.until else value


class LabelFamily(NamedTuple):
    """The levels of one writer, outermost first.

    `replaces` names the family that the same writer wrote before. `is_found`: it is looked for
    without being named. `switch_levels`: so many, from the outermost on, are groups of the switches
    between adapters; what follows are wires between GPUs.
    """

    name: str
    levels: tuple[LabelLevel, ...]
    writer: str
    replaces: str = ""
    is_found: bool = True
    switch_levels: int = 0

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys, each once, outermost first."""
        return tuple(dict.fromkeys(level.key for level in self.levels))

    @property
    def fabric(self) -> FabricName | None:
        """The fabric of its groups; None where levels are of two, or the innermost kind says none.

        As of groups in a file, the kind of those that hold nodes decides.
        """
        if self.switch_levels:
            return SCALE_OUT if self.switch_levels == len(self.levels) else None
        return FABRIC_OF_KIND.get(self.levels[-1].kind)

    @property
    def of_switches(self) -> "LabelFamily":
        """The family without its levels of wires between GPUs."""
        return self._replace(levels=self.levels[: self.switch_levels])


def _levels(prefix: str, *names: str) -> tuple[LabelLevel, ...]:
    """Return levels `<prefix><name>` of the kind `<name>`; optional where it ends in `?`."""
    return tuple(
        LabelLevel(f"{prefix}{name.rstrip('?')}", Kind(name.rstrip("?")), name.endswith("?"))
        for name in names
    )


_NVIDIA = "network.topology.nvidia.com/"
_TOPOGRAPH = "fabric.topograph.run/"
_CLIQUE = "nvidia.com/gpu.clique"

FAMILIES: tuple[LabelFamily, ...] = (
    LabelFamily(
        "topograph",
        (
            *_levels(_TOPOGRAPH, "tier-4?", "tier-3?", "tier-2?", "tier-1?", "tier-0"),
            LabelLevel("accelerator.topograph.run/domain", Kind("accelerator"), is_optional=True),
            LabelLevel("accelerator.topograph.run/sub-domain", Kind("partition"), is_optional=True),
        ),
        "topograph 1.0",
        "topograph-2026",
        switch_levels=5,
    ),
    LabelFamily(
        "topograph-2026",
        _levels(_NVIDIA, "core?", "spine?", "leaf", "accelerator?"),
        "topograph since 2026-02",
        "topograph-2025",
        switch_levels=3,
    ),
    LabelFamily(
        "topograph-2025",
        _levels(_NVIDIA, "datacenter?", "spine?", "block", "accelerator?"),
        "topograph until 2025",
        switch_levels=3,
    ),
    LabelFamily(
        "gke",
        (
            LabelLevel("cloud.google.com/gce-topology-block", Kind("block")),
            LabelLevel("cloud.google.com/gce-topology-subblock", Kind("subblock")),
        ),
        "GKE since 1.31",
        "gke-daemon",
        switch_levels=2,
    ),
    LabelFamily(
        "gke-daemon",
        _levels("topology.gke.io/", "cluster", "rack"),
        "GKE's daemon before 1.31",
        switch_levels=2,
    ),
    LabelFamily(
        "aws",
        (
            *(
                LabelLevel(
                    f"topology.k8s.aws/network-node-layer-{number}",
                    Kind(f"network-layer-{number}"),
                    is_optional=number > 3,
                )
                for number in (1, 2, 3, 4)
            ),
            LabelLevel("topology.k8s.aws/ultraserver-id", Kind("ultraserver"), is_optional=True),
        ),
        "AWS cloud-controller-manager, SageMaker HyperPod",
        switch_levels=4,
    ),
    LabelFamily(
        "oci",
        (
            LabelLevel("oci.oraclecloud.com/rdma.hpc_island_id", Kind("hpc-island")),
            LabelLevel("oci.oraclecloud.com/rdma.network_block_id", Kind("network-block")),
            LabelLevel("oci.oraclecloud.com/rdma.local_block_id", Kind("local-block")),
        ),
        "OKE",
        switch_levels=3,
    ),
    LabelFamily(
        "coreweave",
        (
            *_levels("backend.coreweave.cloud/", "fabric", "superpod", "leafgroup"),
            LabelLevel("ds.coreweave.com/nvlink.domain", NVLINK_DOMAIN, is_optional=True),
        ),
        "CoreWeave",
        "coreweave-ib",
        switch_levels=3,
    ),
    LabelFamily(
        "coreweave-ib",
        _levels("ib.coreweave.cloud/", "fabric", "superpod", "leafgroup"),
        "CoreWeave, the older keys",
        switch_levels=3,
    ),
    LabelFamily(
        "alibaba",
        (
            LabelLevel("alibabacloud.com/point-of-delivery", Kind("point-of-delivery")),
            LabelLevel("alibabacloud.com/asw-id", Kind("asw")),
        ),
        "lingjun-networktopology-collector",
        switch_levels=2,
    ),
    LabelFamily(
        "crusoe",
        (
            LabelLevel("crusoe.ai/ib.partition.id", Kind("ib-partition")),
            LabelLevel("crusoe.ai/pod.id", Kind("leaf-pod")),
        ),
        "Crusoe",
        switch_levels=2,
    ),
    LabelFamily(
        "ascend",
        (
            LabelLevel("huawei.com/topotree", Kind("topotree"), is_optional=True),
            LabelLevel("huawei.com/topotree.groupid", Kind("group"), is_optional=True),
            LabelLevel("huawei.com/topotree.superpodid", SUPER_POD, annotation="superPodID"),
            LabelLevel("huawei.com/topotree.rackid", RACK, is_optional=True, annotation="rackID"),
        ),
        "Ascend device plugin and label tool",
    ),
    LabelFamily(
        "ascend-domains",
        (
            LabelLevel("huawei.com/topotree", Kind("topotree"), is_optional=True),
            LabelLevel("huawei.com/topotree.domainid", Kind("domain")),
        ),
        "people, for Ascend A2",
    ),
    LabelFamily(
        "unifabric",
        (
            LabelLevel("dce.unifabric.io/scaleoutleaf-group", Kind("leaf")),
            LabelLevel("dce.unifabric.io/scaleup-group", Kind("scaleup"), is_optional=True),
        ),
        "Unifabric",
        switch_levels=1,
    ),
    LabelFamily(
        "gpustack",
        (LabelLevel("feature.gpustack.ai/fabric.domain", Kind("fabric-domain")),),
        "GPUStack's operator",
    ),
    LabelFamily(
        "volcano",
        (
            LabelLevel("volcano.sh/hypercluster", Kind("hypercluster"), is_optional=True),
            LabelLevel("volcano.sh/hypernode", Kind("hypernode")),
        ),
        "people, by the example of Volcano's documentation",
    ),
    LabelFamily(
        "volcano-tor",
        (LabelLevel("volcano.sh/tor", Kind("tor")),),
        "people, by the example of Volcano's documentation",
    ),
    LabelFamily(
        "nvidia",
        (
            LabelLevel(_CLIQUE, NVLINK_DOMAIN, until="."),
            LabelLevel(_CLIQUE, NVLINK_CLIQUE),
        ),
        "NVIDIA's GPU feature discovery and DRA driver",
    ),
    LabelFamily(
        "kubernetes",
        _levels("topology.kubernetes.io/", "region", "zone"),
        "a cloud controller; no fabric",
        is_found=False,
    ),
)
"""Of two that group equally many nodes, the first is followed."""


def own_family(domain: str) -> LabelFamily:
    """Return the labels that a master of ours writes, for clusters in which none writes any."""
    levels = (
        LabelLevel(f"{domain}/{SWITCHBOX}", SWITCHBOX, is_optional=True),
        LabelLevel(f"{domain}/{DRAGONFLY}", DRAGONFLY),
    )
    return LabelFamily("topo", levels, "topo-master", is_found=False)


@dataclass(frozen=True, slots=True)
class LabelSource:
    """The families that are read, and all of their keys.

    `is_exclusive`: one of the families for the whole cluster.
    """

    families: tuple[LabelFamily, ...] = ()
    is_exclusive: bool = False
    keys: frozenset[str] = field(init=False)
    _annotations: tuple[tuple[str, str], ...] = field(init=False)

    def __post_init__(self) -> None:
        levels = (level for family in self.families for level in family.levels)
        annotated = tuple((level.key, level.annotation) for level in levels if level.annotation)
        object.__setattr__(self, "_annotations", annotated)
        keys = frozenset(key for family in self.families for key in family.keys)
        object.__setattr__(self, "keys", keys)

    def relevant(
        self, labels: Mapping[str, str], annotations: Mapping[str, str] = MappingProxyType({})
    ) -> tuple[tuple[str, str], ...]:
        """Return the labels of a node that are read, in order.

        An annotation stands for the label that says the same and is not there.
        """
        found = {key: labels[key] for key in self.keys & labels.keys()}
        for key, annotation in self._annotations if annotations else ():
            if annotation in annotations:
                found.setdefault(key, annotations[annotation])
        return tuple(sorted(found.items()))


UNLABELLED = LabelSource()
"""No label is read."""
AUTO = LabelSource(tuple(family for family in FAMILIES if family.is_found), is_exclusive=True)


def family_of_keys(levels: Iterable[LabelLevel]) -> LabelFamily:
    """Return the family of keys that an operator listed."""
    return LabelFamily("keys", tuple(levels), "the operator")

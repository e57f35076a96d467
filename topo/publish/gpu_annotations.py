"""How well a node's GPUs are joined, as the two annotations that HAMi reads on a Node.

`<domain>/gpu.topology.scores` and `.losses` are JSON objects `{"<n>": int}`: for n GPUs of this
node the best score, and what taking them costs those that remain (`topo.placement.gpus.gpu_sets`).

Rule: counted over all GPUs that are not unhealthy, whether pods hold them or not. Which GPUs a pod
holds only the device plugin knows: HAMi makes up the GPUs' ids from the node's capacity, and the
API server knows a number. HAMi refuses a node with too few free GPUs before it is scored, so the
numbers are exact on a free node and an estimate on one that is partly in use.

Every n from 1 to the node's GPUs is there, also where fewer are healthy (score 0, loss 2000): for
an n that is missing HAMi reads 0, and as a loss that would be the best of all.

Source: Project-HAMi/HAMi `pkg/device/metax/device.go` (`ScoreNode`, `parseMetaxAnnos`): with
`binpack` a node gets 2000 - losses[n] and the highest wins, with `spread` 2000 - scores[n] and the
lowest wins; a node without the annotation gets 0. The keys are MetaX's, so HAMi finds them only
under the domain metax-tech.com.

Whose they are: MetaX's GPU extensions (from 0.8.0, HAMi's docs/metax-support.md) write the same
two, and see which GPUs are free. So a third annotation has the digest of what we wrote. Where there
is a value and the digest is not its own, another program wrote it, and it stays.

Cost: some 20 µs for a node whose matrix and healthy GPUs another node had before, else as
`best_sets`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b

from topo.model.errors import Refusal
from topo.model.machine import LinkMatrix, NodeFacts
from topo.placement.gpus.gpu_sets import best_sets, pair_weights
from topo.placement.gpus.node_gpus import node_gpus

_KEPT = 1024
"""Kinds of host times their patterns of healthy GPUs; an entry is two short texts."""


@dataclass(frozen=True, slots=True)
class GpuAnnotations:
    """The values of both annotations of one node, each a JSON object without blanks."""

    scores: str
    losses: str

    @property
    def digest(self) -> str:
        """Tells these values from any others: eight hex digits."""
        return blake2b(f"{self.scores} {self.losses}".encode(), digest_size=4).hexdigest()

    def named(self, domain: str) -> Mapping[str, str]:
        """Return the annotations by their keys, with the digest of them."""
        return dict(zip(keys(domain), (self.scores, self.losses, self.digest), strict=True))


def keys(domain: str) -> tuple[str, str, str]:
    """Return the keys of the scores, of the losses, and of the digest of both."""
    topology = f"{domain}/gpu.topology"
    return f"{topology}.scores", f"{topology}.losses", f"{topology}.digest"


def is_foreign(annotations: Mapping[str, str], domain: str) -> bool:
    """Return whether a Node with these annotations has scores or losses that we did not write."""
    scores, losses, digest = (annotations.get(key) for key in keys(domain))
    if scores is None and losses is None:
        return False
    return GpuAnnotations(scores or "", losses or "").digest != digest


def gpu_annotations(facts: NodeFacts) -> GpuAnnotations | None:
    """Return the annotations of the node that a worker described; None where it reports no link
    matrix.
    """
    gpus = node_gpus(facts)
    if isinstance(gpus, Refusal):
        return None
    return _of(_Shared(gpus.matrix), gpus.rows, gpus.usable(None))


class _Shared:
    """A matrix by its identity: equal hosts hold the same object, and hashing one is dear."""

    __slots__ = ("matrix",)

    def __init__(self, matrix: LinkMatrix) -> None:
        self.matrix = matrix

    def __hash__(self) -> int:
        return id(self.matrix)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Shared) and other.matrix is self.matrix


@lru_cache(maxsize=_KEPT)
def _of(shared: _Shared, rows: tuple[int | None, ...], usable: tuple[int, ...]) -> GpuAnnotations:
    found = best_sets(pair_weights(shared.matrix, rows), usable)
    return GpuAnnotations(_json(found.scores), _json(found.losses))


def _json(numbers: Mapping[int, int]) -> str:
    return "{" + ",".join(f'"{n}":{number}' for n, number in numbers.items()) + "}"

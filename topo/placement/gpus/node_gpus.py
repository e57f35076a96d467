"""The GPUs of one node for placement: free ones, their rows of the matrix, reasons of a choice."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import combinations

from topo.facts.registry import READERS
from topo.facts.vendors import device
from topo.model.errors import Refusal
from topo.model.machine import MAX_GPUS, Gpu, LinkMatrix, NodeFacts, ProbeState
from topo.placement.gpus.gpu_sets import BestSets, GpuSet, best_sets, pair_weights, weakest

_UNSAID = "?"


@dataclass(frozen=True, slots=True)
class NodeGpus:
    """The GPUs of a node in the order of their numbers, `rows[i]` being that of `gpus[i]`.

    A row is None where the matrix does not show the GPU. `rails[i]` are those of the adapters
    near `gpus[i]`; `rails` is empty where the node has none.
    """

    gpus: tuple[Gpu, ...]
    rows: tuple[int | None, ...]
    matrix: LinkMatrix
    rails: tuple[frozenset[int], ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """The GPUs' numbers, which callers use instead of places."""
        return tuple(gpu.index for gpu in self.gpus)

    @property
    def codes(self) -> tuple[tuple[str, ...], ...]:
        """The links between the GPUs as printed, `X` for a GPU with itself."""
        return tuple(
            tuple("X" if a == b else self._code(a, b) for b in range(len(self.rows)))
            for a in range(len(self.rows))
        )

    def usable(self, free: Collection[int] | None) -> tuple[int, ...]:
        """Return places of the GPUs that may be given: free by number (None: all), and not
        unhealthy.
        """
        return tuple(
            place
            for place, gpu in enumerate(self.gpus)
            if gpu.healthy is not False and (free is None or gpu.index in free)
        )

    def on_rails(self, of_gpus: Mapping[int, AbstractSet[int]]) -> "NodeGpus":
        """Return the same GPUs with their rails, given by GPU number."""
        rails = tuple(frozenset(of_gpus.get(gpu.index, ())) for gpu in self.gpus)
        return replace(self, rails=rails if any(rails) else ())

    def best_sets(
        self, free: Collection[int] | None = None, wanted: AbstractSet[int] = frozenset()
    ) -> BestSets:
        """Return the scores and losses with these GPUs free, by place; `wanted` are rails."""
        weights = pair_weights(self.matrix, self.rows)
        rails = [min(on & wanted or on, default=None) for on in self.rails]
        return best_sets(weights, self.usable(free), rails=rails, wanted=wanted)

    def rails_of(self, places: Iterable[int]) -> tuple[int, ...]:
        """Return the rails of the GPUs at these places, each once."""
        return tuple(sorted({rail for place in places if self.rails for rail in self.rails[place]}))

    def named(self, places: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the GPUs at these places."""
        return tuple(self.gpus[place].index for place in places)

    def why(self, found: BestSets, count: int) -> str:
        """Return one sentence with its numbers: why this set for so many GPUs, or why there is
        none.
        """
        choice = found.of_size(count)
        if choice is None:
            return self._short(found, count)
        gpus = _numbered("GPU", self.named(choice.gpus))
        if rails := self.rails_of(choice.gpus):
            gpus += f" on {_numbered('rail', rails)}"
        free = len(found.free)
        if count == free:
            return f"{gpus}: all that are free{self._joined(choice)}"
        if count == 1:
            return (
                f"{gpus}: one GPU has no pair to score, and none of the {free} free ones costs "
                f"the others less than this one's {choice.loss}"
            )
        if not found.exact:
            return (
                f"{gpus}{self._joined(choice)}, the highest score found when a set grows from each "
                f"of the {free} free GPUs, and it costs the others {choice.loss}"
            )
        return (
            f"{gpus}{self._joined(choice)}, which no other {count} of the {free} free GPUs exceed, "
            f"and none that equal it cost the others less than {choice.loss}"
        )

    def _joined(self, choice: GpuSet) -> str:
        pairs = Counter(self._code(a, b) for a, b in combinations(choice.gpus, 2))
        links = ", ".join(f"{number} {code}" for code, number in pairs.most_common())
        return f" with {links} between them: a score of {choice.score}" if links else ""

    def _short(self, found: BestSets, count: int) -> str:
        ill = sum(gpu.healthy is False for gpu in self.gpus)
        used = len(self.gpus) - ill - len(found.free)
        free = f"{len(found.free)} of {len(self.gpus)} GPUs are free"
        reasons = [f"{ill} unhealthy"] * bool(ill) + [f"{used} in use"] * bool(used)
        verb = "does" if count == 1 else "do"
        return f"{count} {verb} not fit: {free} ({', '.join(reasons)})"

    def _code(self, one: int, other: int) -> str:
        link = weakest(self.matrix, self.rows[one], self.rows[other])
        return _UNSAID if link is None else link.code


def _numbered(word: str, numbers: Sequence[int]) -> str:
    return f"{word}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def node_gpus(facts: NodeFacts) -> NodeGpus | Refusal:
    """Return the GPUs that a worker reported, joined with its matrix by device name. O(GPUs).

    Refused without a matrix. Where no source lists GPUs, those of the matrix are the GPUs.
    """
    if facts.matrix is None:
        return _no_matrix(facts)
    rows: dict[int, int] = {}
    for row, name in enumerate(facts.matrix.gpus):
        if (found := device(name)) and found[1] <= MAX_GPUS:
            rows.setdefault(found[1], row)
    gpus = facts.gpus or tuple(Gpu(number) for number in rows)
    listed = tuple({gpu.index: gpu for gpu in sorted(gpus, key=lambda gpu: gpu.index)}.values())
    return NodeGpus(listed, tuple(rows.get(gpu.index) for gpu in listed), facts.matrix)


def _no_matrix(facts: NodeFacts) -> Refusal:
    name = facts.identity.name
    failed = [
        f"{probe.probe} {probe.state.value}"
        for probe in facts.probes
        if probe.state in (ProbeState.FAILED, ProbeState.TIMED_OUT)
    ]
    said = f" ({', '.join(failed)})" if failed else ""
    tools = sorted({r.command.split()[0] for r in READERS.values() if "matrix" in r.gives})
    sources = f"{', '.join(tools[:-1])} or {tools[-1]}"
    fix = f"see the probes of `topo node {name}`; a matrix comes from {sources}"
    return Refusal(f"the worker of {name} reports no link matrix{said}", "node", fix)

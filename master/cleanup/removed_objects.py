"""What a clean-up has taken away, for the sentence at its end."""

from dataclasses import dataclass, field

from topo.model.words import counted

MOST_NAMED = 5


@dataclass(slots=True)
class RemovedObjects:
    """Everything removed so far, each object once."""

    nodes: set[str] = field(default_factory=set)
    gates: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)
    """Jobs that were held before their quota."""
    hypernodes: set[str] = field(default_factory=set)
    config_maps: set[str] = field(default_factory=set)
    more: dict[str, set[str]] = field(default_factory=dict)
    """The names of those of `_MORE`, by their kind."""
    selected: set[str] = field(default_factory=set)
    """Nodes that keep a label which an unbound pod selects."""
    bound: dict[str, int] = field(default_factory=dict)
    """Nodes that keep a label which so many pods of theirs select."""
    leaving: set[str] = field(default_factory=set)
    """Objects that are deleted and wait for a finalizer of another program."""

    def __str__(self) -> str:
        stays = (
            f"; {len(self.selected)} nodes keep the label of a gang whose pods wait to be bound:"
            " run again once they run"
        )
        bound = (
            f"; {len(self.bound)} nodes keep the label of a gang for {sum(self.bound.values())}"
            " pods of theirs, which a restart of kubelet would fail without it: run again once"
            " they have ended"
        )
        leaving = (
            f"; {', '.join(sorted(self.leaving)[:MOST_NAMED])} is deleted and waits for a finalizer"
            " of somebody else: end what set it, or take it out of metadata.finalizers"
        )
        held = f", and {counted(len(self.jobs), 'job')} let go to Kueue" if self.jobs else ""
        more = "".join(f"{counted(len(names), kind)}, " for kind, names in self.more.items())
        return (
            f"labels and annotations of {len(self.nodes)} nodes, {more}"
            f"{len(self.hypernodes)} HyperNodes"
            f" and {len(self.config_maps)} ConfigMaps are taken away, and the lease;"
            f" the gates of {len(self.gates)} pods are open{held};"
            " Events end by themselves within an hour or so"
            f"{stays if self.selected else ''}{bound if self.bound else ''}"
            f"{leaving if self.leaving else ''}"
        )

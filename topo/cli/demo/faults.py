"""Faults in a running demo: sentences in the file that each replaying worker looks at."""

from collections.abc import Iterable

from topo.cli import worlds
from topo.cli.demo_directory import Demo, required_demo
from topo.cli.exit_codes import CliError, Exit, usage
from topo.kit.files import replace_whole
from topo.model.errors import Refusal
from topo.model.ids import NodeName
from topo.model.machine import NodeFacts
from topo.model.nearest import did_you_mean
from topo.recording.possible import impossible, possible
from topo.recording.timeline import Fault, FaultKind, Sentence, parse_faults, parse_timeline
from topo.sim.fleet.facts import facts_of_host

FAULTS_FILE = "faults.txt"


def cut(node: str | None, slot: int) -> tuple[str, ...]:
    """Pull the cable in that slot, at both of its ends; the sentences that now hold.

    Raises `CliError` where no demo runs, or the node or the cable does not exist or is not given.
    """
    demo = required_demo()
    if node is None:
        raise usage("NODE is missing", "NODE", _example_cut(demo))
    ends = _cable_ends(demo, node, slot)
    for end in ends:
        _write(demo, end.node, _read_faults(demo, end.node) | {end})
    return tuple(_sentence(end) for end in ends)


def add(words: str | None) -> str:
    """Let a sentence of `topo.recording.timeline` hold, which may end another.

    Raises `CliError`.
    """
    demo = required_demo()
    if words is None:
        raise usage("SENTENCE is missing", "SENTENCE", _example_faults(demo))
    parsed = parse_timeline(f"at 0s: {words}")
    if isinstance(parsed, Refusal):
        raise CliError(Exit.USAGE, Refusal(parsed.what, "SENTENCE", parsed.fix))
    (sentence,) = parsed.sentences
    node = sentence.fault.node
    _check_node(demo, node)
    refused = impossible(sentence.fault, _healthy_facts(demo, node))
    if refused is not None:
        raise CliError(Exit.USAGE, refused)
    standing = _read_faults(demo, node)
    if not sentence.begins and sentence.fault not in standing:
        return f"{sentence}: it was not broken"
    others = standing - {sentence.fault}
    _write(demo, node, others | {sentence.fault} if sentence.begins else others)
    return str(sentence)


def heal() -> dict[str, int]:
    """End every fault; how many each node had. Raises `CliError` where no demo runs."""
    demo = required_demo()
    broken = {node: faults for node in demo.nodes if (faults := _read_faults(demo, node))}
    for node in broken:
        _write(demo, node, ())
    return {node: len(faults) for node, faults in broken.items()}


def active_sentences(demo: Demo) -> list[str]:
    """Return the sentences that hold now, in the order of the nodes."""
    return [_sentence(fault) for node in demo.nodes for fault in sorted(_read_faults(demo, node))]


def _example_cut(demo: Demo) -> str:
    """Return an example that works in this demo, and the nodes there are."""
    cabled = [str(host.name) for host in worlds.chosen(demo.world).nodes if host.peers]
    there = [name for name in demo.nodes if name in cabled]
    if not there:
        return f"no node of this demo has a cable to another; {_example_faults(demo)}"
    nodes = f"{there[0]} to {there[-1]}" if len(there) > 1 else there[0]
    return f"`topo demo cut {there[0]}`; nodes with a cable: {nodes}"


def _example_faults(demo: Demo) -> str:
    """Return faults that can be tried on the first node, as an example in an error."""
    node = demo.nodes[0]
    said = (
        f"`topo demo fault '{each}'`"
        for each in possible(NodeName(node), _healthy_facts(demo, node))
    )
    return f"such as {', '.join(said)}"


def _cable_ends(demo: Demo, node: str, slot: int) -> tuple[Fault, Fault]:
    """Return the two ends of the cable in a slot of a node."""
    _check_node(demo, node)
    fault = Fault(FaultKind.REMOTE_GONE, NodeName(node), index=slot)
    if refused := impossible(fault, _healthy_facts(demo, node)):
        if refused.fix.startswith("possible"):  # no slot of the node has a cable
            fix = f"{refused.fix} (`topo demo fault SENTENCE` does it)"
            raise usage(refused.what, "NODE", fix)
        raise usage(refused.what, "--slot", refused.fix)
    hosts = worlds.chosen(demo.world).nodes
    near = next(host for host in hosts if host.name == node)
    far = next(host for host in hosts if host.server_uuid == near.peers[slot - 1])
    back = far.peers.index(near.server_uuid) + 1
    return fault, Fault(FaultKind.REMOTE_GONE, far.name, index=back)


def _check_node(demo: Demo, node: str) -> None:
    if node not in demo.nodes:
        first, last = demo.nodes[0], demo.nodes[-1]
        fix = did_you_mean(node, demo.nodes, f"they are {first} to {last}")
        raise usage(f"the demo has no node {node!r}", "NODE", fix)


def _healthy_facts(demo: Demo, node: str) -> NodeFacts:
    """Return what the node has while nothing is wrong with it: what its worker replays."""
    hosts = worlds.chosen(demo.world).nodes
    return facts_of_host(next(host for host in hosts if host.name == node))


def _read_faults(demo: Demo, node: str) -> frozenset[Fault]:
    try:
        text = (demo.replay_dir(node) / FAULTS_FILE).read_text(encoding="utf-8")
    except FileNotFoundError:
        return frozenset()
    found = parse_faults(text)
    if isinstance(found, Refusal):
        raise CliError(Exit.USAGE, found)
    return found


def _write(demo: Demo, node: str, faults: Iterable[Fault]) -> None:
    """Replace the file at once: the worker never reads half a sentence."""
    lines = "".join(f"{_sentence(fault)}\n" for fault in sorted(faults))
    replace_whole(demo.replay_dir(node) / FAULTS_FILE, lines.encode())


def _sentence(fault: Fault) -> str:
    return str(Sentence(fault, begins=True))

"""An error about one object costs what is written on that object alone, and ends nothing."""

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from master.controllers.labels import LabelComparer
from master.controllers.node_features import NodeFeatureComparer
from master.controllers.suspicion.hypernode_marks import HyperNodeMarkComparer
from master.controllers.suspicion.node_marks import NodeMarkComparer
from master.kube.objects import NODES, collection_path
from master.kube.schedulers.hypernodes import HYPERNODES
from master.kube.schedulers.node_features import NODE_FEATURES
from master.object_errors import ObjectKind
from tests.controllers.test_labels import NAMES
from tests.controllers.world import NAMESPACE, ClusterWorld, cluster_world, deliver
from tests.publish.forests import VENDOR, forest
from topo.model.errors import SharedStateError
from topo.model.forest import NodeSuspicion
from topo.model.ids import NodeName

pytestmark = pytest.mark.virtual_time
BAD = "node-3"


class Case(NamedTuple):
    """A comparer, its step of one object, and which objects have what it writes."""

    of: type
    step: str
    name_of: Callable[..., str]
    controllers: tuple[str, ...]
    written: Callable[[ClusterWorld], set[str]]
    bad: str = BAD


def labelled(world: ClusterWorld) -> set[str]:
    return {name for name, labels in world.api.labels().items() if labels}


def features(world: ClusterWorld) -> set[str]:
    at = collection_path(NODE_FEATURES, NAMESPACE)
    return {name.removeprefix("topo-") for of, name in world.api.objects if of == at}


def conditions(world: ClusterWorld) -> set[str]:
    at = collection_path(NODES)
    found = ((name, each.document) for (of, name), each in world.api.objects.items() if of == at)
    return {name for name, each in found if each.get("status", {}).get("conditions")}


def marked(world: ClusterWorld) -> set[str]:
    at = collection_path(HYPERNODES)
    found = ((name, each.document) for (of, name), each in world.api.objects.items() if of == at)
    return {name for name, each in found if each["metadata"].get("annotations")}


CASES = [
    Case(
        LabelComparer,
        "_compare",
        lambda _, node, *__: node.metadata.name,
        ("labels",),
        labelled,
    ),
    Case(
        NodeFeatureComparer,
        "_compare",
        lambda _, node: node,
        ("node-features",),
        features,
    ),
    Case(
        NodeMarkComparer,
        "_compare",
        lambda node: node.metadata.name,
        ("node-conditions",),
        conditions,
    ),
    Case(
        HyperNodeMarkComparer,
        "_compare",
        lambda found, _: found.metadata.name,
        ("hypernodes", "hypernode-annotations"),
        marked,
        "dragonfly-2",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.of.__name__)
async def test_a_comparer_goes_on_with_the_others_and_tries_again(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_mended = False
    original = getattr(case.of, case.step)

    def faulty(this: object, *given: Any) -> Any:
        if case.name_of(*given) == case.bad and not is_mended:
            raise ZeroDivisionError
        return original(this, *given)

    monkeypatch.setattr(case.of, case.step, faulty)
    async with cluster_world(NAMES, forest(), switched_on=case.controllers, has_nfd=True) as world:
        for name in NAMES:
            links = (("eth0/1", "its peer is another one"),)
            world.suspected[NodeName(name)] = NodeSuspicion(links=links)
        world.publish(VENDOR)
        await deliver()
        written = case.written(world)
        assert len(written) >= 3
        assert case.bad not in written
        (title,) = world.errors.of(ObjectKind.WRITE)
        assert title.endswith(f" {case.bad}")
        is_mended = True
        await deliver(400)
        assert case.written(world) == {*written, case.bad}
        assert not world.errors.of(ObjectKind.WRITE)


async def test_a_write_that_cannot_be_sent_or_whose_end_raises_an_error_is_that_write_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settled = LabelComparer.settled

    def faulty(this: LabelComparer, done: Any) -> None:
        if done.write.target.name == BAD:
            raise ZeroDivisionError
        settled(this, done)

    monkeypatch.setattr(LabelComparer, "settled", faulty)
    async with cluster_world(NAMES, VENDOR, switched_on=("labels",)) as world:
        original = world.api.call

        async def call(asked: Any) -> bytes:
            if asked.path.endswith("/node-5") and asked.method == "PATCH":
                raise UnicodeEncodeError("utf-8", "\ud800", 0, 1, "surrogates not allowed")
            return await original(asked)

        monkeypatch.setattr(type(world.api), "call", lambda _, asked: call(asked))
        await deliver()
        assert labelled(world) == {*NAMES} - {"node-5"}
        titles = set(world.errors.of(ObjectKind.WRITE))
        assert len(titles) == 2


async def test_an_error_of_what_all_share_ends_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(*_: object) -> None:
        raise SharedStateError("bookings: half changed")

    monkeypatch.setattr(LabelComparer, "_compare", broken)
    with pytest.raises(AssertionError, match="a work ended"):
        await _labels_for(60)


async def _labels_for(seconds: float) -> None:
    async with cluster_world(NAMES, VENDOR, switched_on=("labels",)):
        await deliver(seconds)

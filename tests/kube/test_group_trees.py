"""PodGroups by their CompositePodGroup, as the API server tells of both."""

from typing import Any

from master.kube.schedulers.composite_groups import (
    COMPOSITE_GROUPS,
    CompositeGroupObject,
    GroupTrees,
)
from master.kube.schedulers.scheduling_groups import SCHEDULING_GROUPS
from tests.kube.api_model import ApiModel
from tests.kube.model_store import ModelStore
from topo.gangs.group_tree import GroupTree

SPACE = {"namespace": "jobs"}


class World:
    """A cluster with PodGroups, and the trees of them that a master keeps."""

    def __init__(self) -> None:
        self.api = ApiModel()
        self.composites = ModelStore(self.api, COMPOSITE_GROUPS)
        self.trees = GroupTrees(ModelStore(self.api, SCHEDULING_GROUPS), self.composites)

    def composite(self, name: str, parent: str = "", groups: int = 1, key: str = "") -> None:
        spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minGroupCount": groups}}}
        spec |= {"parentCompositePodGroupName": parent} if parent else {}
        spec |= {"schedulingConstraints": {"topology": [{"key": key}]}} if key else {}
        self.api.add(COMPOSITE_GROUPS, name, metadata=SPACE, spec=spec)

    def group(self, name: str, parent: str, pods: int = 4) -> None:
        policy = {"gang": {"minCount": pods}}
        spec = {"schedulingPolicy": policy, "parentCompositePodGroupName": parent}
        self.api.add(SCHEDULING_GROUPS, name, metadata=SPACE, spec=spec)

    def root(self, parent: str) -> CompositeGroupObject | None:
        return self.trees.root_of("jobs", parent)

    def leaves(self) -> list[str] | None:
        root = self.root("train")
        assert root is not None
        tree = self.trees.tree("jobs", root)
        return [each.name for each in tree.leaves] if isinstance(tree, GroupTree) else None


def test_a_tree_follows_its_groups_as_they_come_and_go() -> None:
    world = World()
    assert world.root("train") is None
    world.composite("train", groups=2, key="x/switchbox")
    assert world.leaves() is None
    world.group("a", "train")
    world.composite("inner", "train")
    assert world.leaves() is None
    world.group("b", "inner", 8)
    assert world.leaves() == ["a", "b"]
    root = world.root("inner")
    assert root is not None
    assert (root.metadata.name, root.spec.topology_key, root.is_gang) == (
        "train",
        "x/switchbox",
        True,
    )
    world.api.remove(SCHEDULING_GROUPS, "b", "jobs")
    assert world.leaves() is None


def test_groups_of_another_namespace_are_none_of_the_tree() -> None:
    world = World()
    world.composite("train")
    world.group("a", "train")
    spec = {"parentCompositePodGroupName": "train"}
    world.api.add(SCHEDULING_GROUPS, "b", metadata={"namespace": "others"}, spec=spec)
    assert world.leaves() == ["a"]


def test_a_group_that_is_its_own_ancestor_has_no_root() -> None:
    world = World()
    world.composite("a", "b")
    world.composite("b", "a")
    assert world.root("a") is None

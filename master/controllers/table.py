"""The table of controllers: how each is built, and which changes it follows."""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import prometheus_client as prom

from master.controllers import (
    annotations,
    device_taints,
    hypernodes,
    labels,
    node_features,
    topologies,
)
from master.controllers.annotations import AnnotationComparer
from master.controllers.controller import Controller
from master.controllers.device_taints import DeviceTaintComparer, JudgedGpus
from master.controllers.events import EventController
from master.controllers.gang_objects import GangObjects
from master.controllers.hypernodes import HyperNodeComparer
from master.controllers.labels import KeptLabels, LabelComparer
from master.controllers.names import (
    ANNOTATIONS,
    DEVICE_TAINTS,
    EVENTS,
    GANG_OBJECTS,
    HYPERNODE_ANNOTATIONS,
    HYPERNODES,
    LABELS,
    NODE_CONDITIONS,
    NODE_FEATURES,
    NODE_TAINTS,
    NOMINATION,
    OF_REQUESTS,
    POD_GROUPS,
)
from master.controllers.node_features import NodeFeatureComparer
from master.controllers.nomination.controller import Nomination
from master.controllers.pod_groups import PodGroups
from master.controllers.provisioning.controller import ProvisioningController
from master.controllers.retention_grace import RetentionGrace
from master.controllers.suspicion import hypernode_marks
from master.controllers.suspicion.hypernode_marks import HyperNodeMarkComparer
from master.controllers.suspicion.node_marks import (
    Held,
    LinkCondition,
    NodeMark,
    NodeMarkComparer,
    QuarantineTaint,
)
from master.controllers.topologies import TopologyComparer, TopologyStores
from master.kube.dra.slices import DeviceSlice
from master.kube.dra.taint_rules import DeviceTaintRuleObject
from master.kube.gang_object import GangObject
from master.kube.gang_pod import ClusterPod
from master.kube.objects import NodeObject
from master.kube.reflector import Listed, StoreEvent
from master.kube.schedulers.composite_groups import CompositeGroupObject
from master.kube.schedulers.hypernodes import HyperNodeObject
from master.kube.schedulers.node_features import NodeFeatureObject
from master.kube.schedulers.scheduling_groups import SchedulingGroupObject
from master.kube.store import Store
from master.kube.writing.writer import Settled, Writer
from master.object_errors import ObjectErrors
from topo.kit.tasks import Work
from topo.model.errors import BrokenInvariantError
from topo.model.forest import Forest, Snapshot
from topo.model.ids import Kind, NodeName
from topo.model.machine import NodeFacts
from topo.model.rest.topology import WarningDocument
from topo.publish.event_series import Regarding, Reporter
from topo.publish.node_features import node_of
from topo.publish.node_labels import Fabrics, Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerView:
    """The parts of the forest and the cluster that controllers read, and the writer.

    `is_settled`: forest and nodes are known. `facts`: the report of a node's worker. `label_keys`:
    the label of each kind of group. `beside` and `node_labels` return the forests of the fabrics
    beside a tree and the labels of all nodes; they are for threads, and once made of a forest.
    `about_service`: returns the object of Events about sources. `taint_effect`: the effect of the
    taints of broken GPUs.
    """

    nodes: Store[NodeObject]
    hypernodes: Store[HyperNodeObject]
    writer: Writer
    forest: Callable[[], Forest]
    snapshot: Callable[[], Snapshot]
    facts: Callable[[NodeName], NodeFacts | None]
    is_settled: Callable[[], bool]
    grace: RetentionGrace
    domain: str
    label_keys: Mapping[Kind, str]
    beside: Callable[[Forest], Fabrics]
    node_labels: Callable[[Forest], Mapping[NodeName, Labels]]
    reporter: Reporter
    about_service: Callable[[], Awaitable[Regarding | None]]
    registry: prom.CollectorRegistry
    gangs: Store[GangObject]
    pods: Store[ClusterPod]
    scheduling_groups: Store[SchedulingGroupObject]
    composite_groups: Store[CompositeGroupObject]
    slices: Store[DeviceSlice]
    taint_rules: Store[DeviceTaintRuleObject]
    judged_gpus: JudgedGpus
    taint_effect: str
    suspected: Held
    server_now: Callable[[], float]
    """Returns Unix time by the clock of the API servers."""
    topologies: Mapping[str, TopologyStores]
    """What is followed for each format of topologies that is switched on."""
    node_features: Store[NodeFeatureObject]
    """Those of this master's namespace that are called like ours."""
    namespace: str
    """The namespace of this master."""
    nominates: bool
    """Whether jobs with groups are nominated, unless they say otherwise."""
    nomination: Callable[[], Nomination]
    """Returns the controller of gangs, which is built by the first call."""
    errors: ObjectErrors
    """Takes the objects of which comparing or writing raised an error."""
    provisioning: Mapping[str, ProvisioningController]
    """Those of requests for capacity that are switched on."""


class Loop(Protocol):
    """A controller, which runs while this master leads."""

    def on_forest(self, snapshot: Snapshot) -> None:
        """Handle a change of the forest."""
        ...

    async def run(self) -> None:
        """Reconcile until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class Running:
    """A controller that is switched on, and its warnings."""

    controller: Loop
    warnings: Callable[[], tuple[WarningDocument, ...]] = tuple


def _kept_labels(view: ControllerView) -> KeptLabels:
    return KeptLabels(view.label_keys, view.facts, view.grace)


def _build_labels(view: ControllerView) -> Running:
    comparer = LabelComparer(
        view.nodes,
        view.writer,
        view.forest,
        labels=view.node_labels,
        keys=view.label_keys,
        kept=_kept_labels(view),
        errors=view.errors,
    )
    controller: Controller[NodeObject] = Controller(comparer.compare, is_settled=view.is_settled)
    view.writer.listen(labels.MANAGER, comparer.settled)
    view.nodes.subscribe(controller.on_object)
    return Running(controller)


def _build_hypernodes(view: ControllerView) -> Running:
    comparer = HyperNodeComparer(
        view.hypernodes, view.writer, view.forest, domain=view.domain, grace=view.grace
    )
    controller: Controller[HyperNodeObject] = Controller(
        comparer.compare, is_settled=view.is_settled
    )
    view.writer.listen(hypernodes.MANAGER, lambda _: controller.wake())
    view.hypernodes.subscribe(controller.on_object)
    return Running(controller, comparer.warnings)


def _build_annotations(view: ControllerView) -> Running:
    comparer = AnnotationComparer(
        view.nodes,
        view.writer,
        view.facts,
        domain=view.domain,
        registry=view.registry,
        wake=lambda *names: controller.wake(*names),  # noqa: PLW0108 - it comes after
        errors=view.errors,
    )
    controller: Controller[NodeObject] = Controller(comparer.compare, is_settled=view.is_settled)
    view.writer.listen(annotations.MANAGER, lambda _: None)
    view.nodes.subscribe(controller.on_object)
    return Running(controller)


def _build_events(view: ControllerView) -> Running:
    return Running(
        EventController(
            nodes=view.nodes,
            writer=view.writer,
            snapshot=view.snapshot,
            is_settled=view.is_settled,
            reporter=view.reporter,
            about_service=view.about_service,
            registry=view.registry,
            errors=view.errors,
        )
    )


def _build_nomination(view: ControllerView) -> Running:
    nomination = view.nomination()
    return Running(nomination, nomination.warnings)


def _build_gang_objects(view: ControllerView) -> Running:
    nomination = view.nomination()
    return Running(
        GangObjects(
            store=view.gangs,
            writer=view.writer,
            view=nomination.view,
            owner=nomination.reader.owner,
            is_placing=lambda: nomination.is_placing,
            domain=view.domain,
            errors=view.errors,
        )
    )


def _build_pod_groups(view: ControllerView) -> Running:
    reader = view.nomination().reader
    pod_groups = PodGroups(
        store=view.scheduling_groups,
        composites=view.composite_groups,
        pods=view.pods,
        writer=view.writer,
        awaited=reader.awaited_pods,
        domain=view.domain,
        errors=view.errors,
    )
    return Running(pod_groups, pod_groups.warnings)


def _build_device_taints(view: ControllerView) -> Running:
    comparer = DeviceTaintComparer(
        view.slices,
        view.taint_rules,
        view.nodes,
        view.writer,
        judged=view.judged_gpus,
        effect=view.taint_effect,
        domain=view.domain,
        registry=view.registry,
        errors=view.errors,
    )
    controller: Controller[NodeObject] = Controller(comparer.compare, is_settled=view.is_settled)
    view.writer.follow(view.taint_rules)
    view.writer.listen(device_taints.MANAGER, lambda _: None)
    for store in (view.slices, view.taint_rules, view.nodes):
        store.subscribe(lambda _: controller.wake())
    return Running(controller)


def _build_node_mark(
    mark_of: Callable[[ControllerView], NodeMark], view: ControllerView
) -> Running:
    mark = mark_of(view)
    comparer = NodeMarkComparer(
        view.nodes, view.writer, mark, held=view.suspected, errors=view.errors
    )
    controller: Controller[NodeObject] = Controller(comparer.compare, is_settled=view.is_settled)

    def settled(done: Settled) -> None:
        if done.error is not None and done.error.is_conflict:  # the node differs from what was read
            controller.wake(done.write.target.name)

    view.writer.listen(mark.manager, settled)
    view.nodes.subscribe(controller.on_object)
    return Running(controller)


def _build_hypernode_annotations(view: ControllerView) -> Running:
    comparer = HyperNodeMarkComparer(
        view.hypernodes,
        view.writer,
        view.forest,
        held=view.suspected,
        domain=view.domain,
        errors=view.errors,
    )
    controller: Controller[HyperNodeObject] = Controller(
        comparer.compare, is_settled=view.is_settled
    )
    view.writer.listen(hypernode_marks.MANAGER, lambda _: None)
    view.hypernodes.subscribe(controller.on_object)
    return Running(controller)


def _build_topologies(name: str, view: ControllerView) -> Running:
    stores = view.topologies[name]
    comparer = TopologyComparer(
        name,
        stores,
        view.writer,
        view.forest,
        beside=view.beside,
        keys=view.label_keys,
        domain=view.domain,
        grace=view.grace,
        nominates=view.nominates,
    )
    controller: Controller[Any] = Controller(comparer.compare, is_settled=view.is_settled)
    view.writer.listen(topologies.manager_of(name), lambda _: controller.wake())
    for store in stores.values():
        view.writer.follow(store)
        store.subscribe(lambda _: controller.wake())
    return Running(controller, comparer.warnings)


def _build_node_features(view: ControllerView) -> Running:
    comparer = NodeFeatureComparer(
        view.node_features,
        view.nodes,
        view.writer,
        view.forest,
        labels=view.node_labels,
        keys=view.label_keys,
        domain=view.domain,
        namespace=view.namespace,
        kept=_kept_labels(view),
        clock=view.grace.clock,
        errors=view.errors,
    )
    controller: Controller[NodeObject] = Controller(comparer.compare, is_settled=view.is_settled)

    def on_feature(event: StoreEvent[NodeFeatureObject]) -> None:
        if isinstance(event, Listed):
            controller.wake()
        else:
            controller.wake(node_of(event.object.metadata.name))

    view.writer.follow(view.node_features)
    view.writer.listen(node_features.MANAGER, lambda _: None)
    view.nodes.subscribe(controller.on_object)
    view.node_features.subscribe(on_feature)
    return Running(controller, comparer.warnings)


def _build_provisioning(name: str, view: ControllerView) -> Running:
    provisioning = view.provisioning.get(name)
    if provisioning is None:
        raise BrokenInvariantError(f"{name} is switched on and was not built")
    return Running(provisioning, provisioning.warnings)


ROWS: Mapping[str, Callable[[ControllerView], Running]] = {
    LABELS: _build_labels,
    HYPERNODES: _build_hypernodes,
    ANNOTATIONS: _build_annotations,
    EVENTS: _build_events,
    NOMINATION: _build_nomination,
    GANG_OBJECTS: _build_gang_objects,
    POD_GROUPS: _build_pod_groups,
    DEVICE_TAINTS: _build_device_taints,
    NODE_TAINTS: partial(_build_node_mark, lambda view: QuarantineTaint(view.domain)),
    NODE_CONDITIONS: partial(_build_node_mark, lambda view: LinkCondition(view.server_now)),
    HYPERNODE_ANNOTATIONS: _build_hypernode_annotations,
    **{name: partial(_build_topologies, name) for name in topologies.FORMATS},
    NODE_FEATURES: _build_node_features,
    **{each: partial(_build_provisioning, each) for each in OF_REQUESTS},
}
"""A row for each of `NAMES`."""


@dataclass(frozen=True, slots=True)
class Controllers:
    """The controllers that are switched on."""

    running: Mapping[str, Running] = field(default_factory=dict)

    def on_forest(self, snapshot: Snapshot) -> None:
        """Handle a change of the forest."""
        for each in self.running.values():
            each.controller.on_forest(snapshot)

    @property
    def nomination(self) -> Nomination | None:
        """The controller that places gangs, if it is switched on."""
        running = self.running.get(NOMINATION)
        found = running.controller if running is not None else None
        return found if isinstance(found, Nomination) else None

    @property
    def works(self) -> Mapping[str, Work]:
        """The background work that runs while this master leads."""
        return {f"controller-{name}": each.controller.run for name, each in self.running.items()}

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """The warnings of all controllers."""
        return tuple(warning for each in self.running.values() for warning in each.warnings())


def build_controllers(view: ControllerView, names: Iterable[str]) -> Controllers:
    """Return the controllers of these names, subscribed to the cluster."""
    view.writer.follow(view.nodes)
    view.writer.follow(view.hypernodes)
    return Controllers({name: row(view) for name, row in ROWS.items() if name in set(names)})

"""Whether the master's knowledge may be shown, published and used for placement, and why not."""

from dataclasses import dataclass

from master.cluster import Cluster
from master.replicas.replicas import Replicas
from master.role import Replica
from master.sources.kubernetes.capacity import ClusterCapacity
from master.tree.engine import Engine
from topo.discovery.sources import Readiness


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Conditions that are evaluated at each call. Parts that a master lacks are None."""

    engine: Engine
    readiness: Readiness
    replica: Replica
    replicas: Replicas | None
    cluster: Cluster | None
    capacity: ClusterCapacity | None

    def missing(self) -> tuple[str, ...]:
        """Return why the tree is not shown yet; empty when it is."""
        now_s = self.engine.clock()
        if self.replica.role.acts:
            self.readiness.startup.note_reachable(now_s)
        found = self.readiness.missing(self.engine.snapshot, now_s)
        return (self._standby_reason,) if found and self._standby_reason else found

    @property
    def may_publish(self) -> bool:
        """Whether the tree is known well enough to be written where others read it."""
        return not (self.missing() or self.readiness.untried(self.engine.snapshot))

    def uncounted(self) -> tuple[str, ...]:
        """Return why no GPUs are handed out yet: no tree, or pods that are not counted."""
        if self.capacity is None or self.capacity.settled.is_set():
            return self.missing()
        return (*self.missing(), "the nodes and pods of Kubernetes are not counted yet")

    @property
    def may_place(self) -> bool:
        """Whether jobs may be placed on what is published and counted."""
        return self.may_publish and not self.uncounted()

    def unready_reasons(self) -> tuple[str, ...]:
        """Return why this master should not get requests yet; empty when it should.

        Once it was ready it stays so: this depends on nothing outside this process.
        """
        of_cluster = self.cluster.missing() if self.cluster is not None else ()
        if self.replicas is not None and self.replicas.shows_copy:
            of_cluster = ()  # nobody can be asked; what is known of it is in the copy
        return of_cluster if self._standby_reason else (*self.missing(), *of_cluster)

    @property
    def _standby_reason(self) -> str:
        """Why this master follows with nothing to show and leads next; empty otherwise."""
        return self.replicas.standby_reason if self.replicas is not None else ""

"""Whether what a master knows may be shown, published and handed out yet, and if not, why."""

from dataclasses import dataclass

from master.cluster import Cluster
from master.replicas.replicas import Replicas
from master.role import Replica
from master.sources.kubernetes.capacity import ClusterCapacity
from master.tree.engine import Engine
from master.tree.readiness import Readiness


@dataclass(frozen=True, slots=True, kw_only=True)
class Availability:
    """Judged when it is asked. What a master has not is None."""

    engine: Engine
    readiness: Readiness
    replica: Replica
    replicas: Replicas | None
    cluster: Cluster | None
    capacity: ClusterCapacity | None

    def missing(self) -> tuple[str, ...]:
        """Why the tree is not shown yet; empty when it is."""
        now_s = self.engine.clock()
        if self.replica.role.acts:
            self.readiness.startup.reachable(now_s)
        found = self.readiness.missing(self.engine.snapshot, now_s)
        return (self._stands_by,) if found and self._stands_by else found

    @property
    def may_publish(self) -> bool:
        """Whether the tree is known well enough to be written where others read it."""
        return not (self.missing() or self.readiness.untried(self.engine.snapshot))

    def uncounted(self) -> tuple[str, ...]:
        """Why no GPUs are handed out yet: no tree, or pods that hold some are not counted."""
        if self.capacity is None or self.capacity.settled.is_set():
            return self.missing()
        return (*self.missing(), "the nodes and pods of Kubernetes are not counted yet")

    @property
    def may_place(self) -> bool:
        """Whether jobs may be placed by what is published and counted."""
        return self.may_publish and not self.uncounted()

    def unready(self) -> tuple[str, ...]:
        """Why this master should not be asked yet: no tree to show, or too little of its cluster.

        Once it was ready it stays so: nothing outside this process is asked for this.
        """
        of_cluster = self.cluster.missing() if self.cluster is not None else ()
        if self.replicas is not None and self.replicas.shows_copy:
            of_cluster = ()  # nobody can be asked; what is known of it is in the copy
        return of_cluster if self._stands_by else (*self.missing(), *of_cluster)

    @property
    def _stands_by(self) -> str:
        """Why this master follows with nothing to show and is to lead next; empty where not so."""
        return self.replicas.stands_by if self.replicas is not None else ""

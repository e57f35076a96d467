"""Our own kind of object: a gang as `kubectl get gangs` shows it. The chart has its definition.

The API group is fixed whatever `--domain` is: it names this product, not the cluster's hardware.
"""

from dataclasses import dataclass, field

from master.kube.objects import Metadata, Resource
from master.kube.schema.slim import slim


@dataclass(frozen=True, slots=True, kw_only=True)
class GangObjectStatus:
    """The state of a gang. `bound` is a text such as `4/8`, `since` a timestamp of Kubernetes."""

    id: str = ""
    job: str = ""
    state: str = ""
    bound: str = ""
    since: str = ""
    why: str = ""


@slim
class GangObject:
    """A gang, owned by its job. Written by the leader alone; nobody reads a change of it."""

    metadata: Metadata
    status: GangObjectStatus = field(default_factory=GangObjectStatus)


GANGS = Resource("topo.metax-tech.com/v1alpha1", "Gang", "gangs", GangObject)

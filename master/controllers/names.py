"""The names of the controllers, as `--controllers` takes them; `table.py` says what each is."""

LABELS, HYPERNODES, ANNOTATIONS, EVENTS = "labels", "hypernodes", "annotations", "events"
NOMINATION, GANG_OBJECTS, POD_GROUPS = "nomination", "gang-objects", "pod-groups"
DEVICE_TAINTS = "device-taints"
NODE_TAINTS, NODE_CONDITIONS = "node-taints", "node-conditions"
HYPERNODE_ANNOTATIONS = "hypernode-annotations"
KUEUE_FORMAT, KAI_FORMAT = "kueue-topologies", "kai-topologies"
KOORDINATOR_FORMAT = "koordinator-topologies"
NODE_FEATURES = "node-features"
PROVISIONING, KUEUE_WORKLOADS = "provisioning", "kueue-workloads"

LABELLING = (LABELS, NODE_FEATURES)
"""Those that give nodes the labels of their groups: the master itself, or NFD for it."""
OF_GANGS = (NOMINATION, GANG_OBJECTS, POD_GROUPS)
OF_SUSPICION = (NODE_TAINTS, NODE_CONDITIONS, HYPERNODE_ANNOTATIONS)
OF_REQUESTS = (PROVISIONING, KUEUE_WORKLOADS)
BY_DEFAULT = (LABELS, HYPERNODES, ANNOTATIONS, EVENTS)
ON_REQUEST = (
    *(*OF_GANGS, DEVICE_TAINTS, *OF_SUSPICION),
    *(KUEUE_FORMAT, KAI_FORMAT, KOORDINATOR_FORMAT, NODE_FEATURES, *OF_REQUESTS),
)
"""Gangs are placed only with the admission webhook, which is switched on separately; their objects
need the definition of their kind, and PodGroups of Kubernetes a feature gate. Taints take nodes and
GPUs from jobs; conditions and annotations are for those who read them; requests and workloads of
Kueue book GPUs; topologies are of schedulers that few clusters have; and NFD's objects are as many
as nodes."""
NAMES = (*BY_DEFAULT, *ON_REQUEST)

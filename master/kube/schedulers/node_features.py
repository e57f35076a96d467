"""NodeFeature objects of Node Feature Discovery, from which its master labels nodes.

Source: `nfd.k8s-sigs.io/v1alpha1` of kubernetes-sigs/node-feature-discovery.
"""

from dataclasses import field

from master.kube.objects import OwnedMetadata, Resource
from master.kube.schema.slim import slim
from topo.publish.node_features import API_VERSION


@slim
class FeatureElements:
    """The elements of one feature."""

    elements: dict[str, str] = field(default_factory=dict)


@slim
class NodeFeatureSet:
    """The features of a node for rules; of these only the ones with values are read."""

    attributes: dict[str, FeatureElements] = field(default_factory=dict)


@slim
class NodeFeatureSpec:
    """What one client says of a node: labels, and features for rules."""

    labels: dict[str, str] = field(default_factory=dict)
    features: NodeFeatureSet = field(default_factory=NodeFeatureSet)


@slim
class NodeFeatureObject:
    """What one client says of a node, with who wrote it."""

    metadata: OwnedMetadata
    spec: NodeFeatureSpec = field(default_factory=NodeFeatureSpec)


NODE_FEATURES = Resource(API_VERSION, "NodeFeature", "nodefeatures", NodeFeatureObject)

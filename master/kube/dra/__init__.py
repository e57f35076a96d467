"""Dynamic resource allocation (`resource.k8s.io/v1`): devices, their classes, claims and taints."""

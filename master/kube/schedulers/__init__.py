"""Objects of schedulers: PodGroups and queues of Volcano, PodGroups of Kubernetes."""

"""Objects of schedulers: PodGroups, queues, Workloads, and requests for capacity."""

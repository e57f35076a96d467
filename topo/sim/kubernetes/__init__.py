"""A simulated Kubernetes: an API server, controllers of jobs, a scheduler and kubelets."""

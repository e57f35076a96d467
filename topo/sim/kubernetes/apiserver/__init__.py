"""The API server of the simulated Kubernetes: objects, versions, watches, rules, webhooks."""

"""How objects of Kubernetes are modelled, and what a pod requires of its place."""

"""Access to the Kubernetes API: transport, objects, lists and watches, writes, leader election.

Nothing here depends on topology. Only `credentials.kubeconfig` imports the Kubernetes library.
"""

"""What the master knows of Kubernetes as such: transport, objects, watches.

Nothing here knows of topology. Only `kubeconfig` imports the library.
"""

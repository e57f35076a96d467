"""Where the API server is and who asks it: a pod's service account, or a kubeconfig file."""

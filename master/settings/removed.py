"""Flags of earlier versions, each with what to do now."""

REMOVED = {
    "--deployment-name": "leave it out; it follows from the name of the pod",
    "--worker-service-account": "give --pod-namespace; the account is topo-worker there",
}

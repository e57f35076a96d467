"""Flags of earlier versions, each with what to do now."""

REMOVED = {
    "--cluster-manager-allow-http": "give --cluster-manager-insecure",
    "--deployment-name": "leave it out; it follows from the name of the pod",
    "--max-hold": "leave it out; a hold waits for a day at most",
    "--max-nodes": "leave it out; 20,000 nodes may report",
    "--state-copy-file": "give --state-file beside --state-config-maps",
    "--worker-service-account": "give --pod-namespace; the account is topo-worker there",
}

"""The next step for a person who reads that a call to Kubernetes failed."""

from master.kube.errors import Failure, KubeError

_STEPS = {
    Failure.CONNECT: "is the API server running, its address right, and no firewall or"
    " NetworkPolicy in between?",
    Failure.TIMEOUT: "is the API server overloaded, or does something in between drop packets?",
    Failure.CUT: "does a proxy in between end connections, or does the API server restart?",
    Failure.TLS: "give the cluster's authority: ca.crt of the service account, or"
    " certificate-authority in the kubeconfig",
    Failure.CREDENTIALS: "correct what the message names; it is read again at the next try",
    Failure.DENIED: "give this user the verb and the resource that the message names: the chart's"
    " roles have them (`helm get manifest`)",
    Failure.MISSING: "install what defines this resource (a CRD), or correct the address",
    Failure.BUSY: "the API server asks for fewer calls: is it overloaded, or --kube-qps too high?",
    Failure.SERVER: "see the API server's own log, and `kubectl get --raw /readyz?verbose`",
    Failure.TOO_LARGE: "one object is larger than Kubernetes stores: is a proxy in between?",
    Failure.MALFORMED: "is this the address of an API server, and no proxy in between?",
}
_UNKNOWN_USER = (
    "the token or certificate is not accepted: has it expired, and does its service account exist?"
)
_OTHER = "see the API server's own log"


def next_step(error: KubeError) -> str:
    """Return what to check or do about a failure that lasts."""
    return _UNKNOWN_USER if error.status == 401 else _STEPS.get(error.failure, _OTHER)

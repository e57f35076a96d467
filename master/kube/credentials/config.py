"""Access to the API server from a pod's service account or a kubeconfig file."""

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from yarl import URL

from master.kube.credentials.access import Access, Credentials, read_pem, tls_context
from master.kube.credentials.kubeconfig import access_of_file
from topo.kit.secrets import read_token
from topo.kit.threads import off_loop
from topo.model.errors import BadInputError, Refusal

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""The directory of a pod's token and the cluster's authority. Source: Kubernetes documentation,
"Accessing the Kubernetes API from a Pod"."""
_HOST, _PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeConfig:
    """A kubeconfig file, or without one the service account of this pod."""

    kubeconfig: Path | None = None
    service_account: Path = SERVICE_ACCOUNT
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    @property
    def is_given(self) -> bool:
        """Whether there is a file, or this is a pod with a service account. Reads the disk."""
        in_pod = _HOST in self.environment and (self.service_account / "token").exists()
        return self.kubeconfig is not None or in_pod


async def access(config: KubeConfig, clock: Callable[[], float] = time.monotonic) -> Access:
    """Return the configured access. Raises `BadInputError` that names field, value and fix."""
    if config.kubeconfig is not None:
        return await access_of_file(config.kubeconfig, clock)
    return _of_pod(config, clock)


def _of_pod(config: KubeConfig, clock: Callable[[], float]) -> Access:
    host, port = config.environment.get(_HOST, ""), config.environment.get(_PORT, "443")
    if not host or not port.isdecimal():
        what = f"this is no pod of a cluster: {_HOST} is {host!r}, {_PORT} is {port!r}"
        raise BadInputError(Refusal(what, "--kubernetes", "give --kubeconfig, or off"))
    token = config.service_account / "token"
    authority = config.service_account / "ca.crt"

    async def read() -> str:
        return f"Bearer {await off_loop(partial(read_token, token))}"

    return Access(
        server=URL.build(scheme="https", host=host, port=int(port)),
        tls=partial(tls_context, partial(read_pem, authority), where=str(authority)),
        credentials=Credentials(read, clock),
    )

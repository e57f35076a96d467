"""How the simulated API server is reached: its authority, the tokens of its users, kubeconfigs.

There are two users, the master and whoever submits jobs. Each has a kubeconfig with a token of its
own in one directory, which the API server reads too; both may do everything, for roles are not
simulated. JSON is also YAML.
"""

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topo.kit.files import write_private
from topo.sim.certificates import Authority

NAMESPACE = "topo"
"""Where the master is installed."""
MASTER, ADMIN = "topo-master", "admin"
USERS = (MASTER, ADMIN)


def kubeconfig_file(directory: Path, user: str) -> Path:
    """Return the kubeconfig of a user."""
    return directory / f"{user}.kubeconfig"


def prepare_access(directory: Path, host: str, port: int) -> None:
    """Write what is missing of a server that is going to listen there: authority, kubeconfigs."""
    authority = Authority.at(directory)
    for user in USERS:
        if kubeconfig_file(directory, user).exists():
            continue
        cluster = {
            "server": f"https://{host}:{port}",
            "certificate-authority": str(authority.certificate_file),
        }
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "simulated",
            "contexts": [
                {"name": "simulated", "context": {"cluster": "simulated", "user": user}},
            ],
            "clusters": [{"name": "simulated", "cluster": cluster}],
            "users": [{"name": user, "user": {"token": secrets.token_urlsafe(24)}}],
        }
        write_private(kubeconfig_file(directory, user), json.dumps(document, indent=1).encode())


@dataclass(frozen=True, slots=True)
class KubeAccess:
    """A kubeconfig, read: where the server is, whom to trust, and the token."""

    server: str
    ca_file: Path
    token: str

    @classmethod
    def read(cls, path: Path) -> "KubeAccess":
        """Read a kubeconfig that `prepare_access` wrote."""
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cluster = document["clusters"][0]["cluster"]
        token = document["users"][0]["user"]["token"]
        return cls(cluster["server"], Path(cluster["certificate-authority"]), token)

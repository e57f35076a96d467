"""What the cluster manager's source needs to know."""

from dataclasses import dataclass
from pathlib import Path

from yarl import URL

from topo.model.errors import BadInputError, Refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterManagerSettings:
    """Flags of the master (`--cluster-manager-…`, `--credentials-dir`), then limits of our own.

    A manager of 200,000 machines answers with about 60 MB, which `max_answer_bytes` bounds after
    decompression. `refused_login_wait_s` keeps a wrong password from locking the account.
    """

    address: str
    credentials_dir: Path
    poll_topology_s: float = 30.0
    poll_events_s: float = 10.0
    ca_file: Path | None = None
    insecure: bool = False
    allow_http: bool = False
    mapping_file: Path | None = None

    connect_timeout_s: float = 5.0
    read_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    max_answer_bytes: int = 64 << 20
    backoff_base_s: float = 1.0
    backoff_ceiling_s: float = 60.0
    refused_login_wait_s: float = 30.0
    event_page: int = 1000


def base_url(settings: ClusterManagerSettings) -> URL:
    """The manager's address as a URL to append paths to.

    Raises `BadInputError` for one that is no URL, carries credentials, or would send them in clear
    text without leave.
    """
    refused = _address_refusal(settings)
    if refused is not None:
        what, fix = refused
        raise BadInputError(Refusal(what, "--cluster-manager-address", fix))
    return URL(settings.address.rstrip("/"))


def _address_refusal(settings: ClusterManagerSettings) -> tuple[str, str] | None:
    write = "write https://HOST or https://HOST:PORT"
    try:
        url = URL(settings.address)
    except ValueError:
        return "the address is no URL", write
    if url.scheme not in ("http", "https") or not url.host:
        return "the address is no URL of http or https", write
    if url.user is not None or url.password is not None:
        return (
            "the address carries credentials",
            "put the files username and password into --credentials-dir",
        )
    if url.query_string or url.fragment:
        return "the address carries a query or a fragment", write
    if url.scheme == "http" and not settings.allow_http:
        return (
            "credentials would travel over plain http",
            "use https, or say --cluster-manager-allow-http if this is a trial",
        )
    return None

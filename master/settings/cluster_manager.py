"""What the cluster manager's source needs to know."""

from dataclasses import dataclass
from pathlib import Path

from yarl import URL

from topo.model.errors import BadInputError, Refusal


@dataclass(frozen=True, slots=True)
class PeerFlags:
    """What the fixes of refusals tell an operator to set: flags, and what else helps."""

    prefix: str = "--cluster-manager"
    credentials: str = "put the files username and password into --credentials-dir"
    clear_text: str = "use https, or say --cluster-manager-insecure if this is a trial"
    content: str = "is the address right, and is a --cluster-manager-mapping-file needed?"


NETBOX_FLAGS = PeerFlags(
    prefix="--wiring-netbox",
    credentials="put the token into --wiring-netbox-token-file",
    clear_text="use https",
    content="is the address right, and is it a NetBox from 3.3 on, or a Nautobot from 2.0 on?",
)


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
    mapping_file: Path | None = None
    token_file: str = ""
    """The file within `credentials_dir` that holds a token, of a peer that takes one."""

    connect_timeout_s: float = 5.0
    read_timeout_s: float = 10.0
    request_timeout_s: float = 30.0
    max_answer_bytes: int = 64 << 20
    backoff_base_s: float = 1.0
    backoff_ceiling_s: float = 60.0
    refused_login_wait_s: float = 30.0
    event_page: int = 1000
    flags: PeerFlags = PeerFlags()


def base_url(settings: ClusterManagerSettings) -> URL:
    """Return the manager's address as a URL to append paths to; raises `BadInputError`."""
    refused = address_refusal(settings.address, settings.flags, insecure=settings.insecure)
    if refused is not None:
        raise BadInputError(refused)
    return URL(settings.address.rstrip("/"))


def address_refusal(
    address: str, flags: PeerFlags = PeerFlags(), *, insecure: bool = False
) -> Refusal | None:
    """Why an address is no URL to append paths to, or would give credentials away; shows neither.

    `insecure`: the operator lets credentials travel in clear text.
    """
    write = "write https://HOST or https://HOST:PORT"

    def refused(what: str, fix: str) -> Refusal:
        return Refusal(what, f"{flags.prefix}-address", fix)

    try:
        url = URL(address)
    except ValueError:
        return refused("the address is no URL", write)
    if url.scheme not in ("http", "https") or not url.host:
        return refused("the address is no URL of http or https", write)
    if url.user is not None or url.password is not None:
        return refused("the address carries credentials", flags.credentials)
    if url.query_string or url.fragment:
        return refused("the address carries a query or a fragment", write)
    if url.scheme == "http" and not insecure:
        return refused("credentials would travel over plain http", flags.clear_text)
    return None

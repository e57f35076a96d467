"""The ports of this master: addresses, TLS, limits."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from topo.kit.addresses import parse_networks
from topo.kit.durations import Seconds
from topo.kit.settings import Chart, CommaList, Port, ServiceSettings
from topo.model.errors import Refusal


class ListeningSettings(ServiceSettings):
    """The ports of this master: addresses, TLS, limits."""

    server_port: Annotated[Port, Chart("topoDiscovery.master.serverPort")] = 9001
    """Port of the HTTP API."""
    rpc_server_port: Annotated[Port, Chart("topoDiscovery.rpcServerPort")] = 10001
    """Port that workers report to."""
    bind_address: str = ""
    """Address to listen on; all by default."""
    tls_cert: Annotated[Path | None, Chart("topoDiscovery.tls.secret", is_plain=False)] = None
    """PEM certificate chain of this server; read again when it changes."""
    tls_key: Annotated[Path | None, Chart("topoDiscovery.tls.secret", is_plain=False)] = None
    """PEM private key of this server."""
    tls_scope: Annotated[
        Literal["all", "reports"], Chart("topoDiscovery.tls.scope", is_plain=False)
    ] = "all"
    """Ports that speak TLS if a certificate is given: all, or reports (the workers' port)."""
    tls_proxies: Annotated[CommaList, Chart("topoDiscovery.tls.proxies")] = ()
    """Addresses or networks of proxies that terminate TLS before this master; a token from there
    does not count as sent in clear text."""
    history_bytes: Annotated[
        int, Field(ge=1 << 20, le=256 << 20), Chart("topoDiscovery.master.historyBytes")
    ] = 16 << 20
    """Memory for kept moments of the tree, packed; beyond it the oldest are dropped."""
    history_age: Annotated[Seconds, Field(ge=60), Chart("topoDiscovery.master.historyAge")] = (
        7 * 86400.0
    )
    """How long a moment of the tree is kept."""
    group_metrics: Annotated[bool, Chart("topoDiscovery.master.groupMetrics")] = False
    """Add a series for each group to /metrics; there may be thousands."""
    api_token_file: Annotated[
        Path | None, Chart("topoDiscovery.master.apiTokensSecret", is_plain=False)
    ] = None
    """Tokens for calls that write (holds, decisions about nodes), one per line: `<token>`, or
    `<name> <token>`; read again when it changes. Without it none may write; reads are open."""

    def own_refusals(self) -> tuple[Refusal, ...]:
        """Return what is wrong between the fields of this group."""
        return (*self._tls_refusals(), *network_refusals("--tls-proxies", self.tls_proxies))

    def _tls_refusals(self) -> tuple[Refusal, ...]:
        if (self.tls_cert is None) == (self.tls_key is None):
            return ()
        given, missing = (
            ("--tls-cert", "--tls-key") if self.tls_cert else ("--tls-key", "--tls-cert")
        )
        return (Refusal(f"{given} is given without {missing}", missing, f"give {missing} too"),)


def network_refusals(flag: str, texts: Sequence[str]) -> tuple[Refusal, ...]:
    """Return what is wrong with a flag that lists addresses and networks."""
    try:
        parse_networks(texts)
    except ValueError as error:
        fix = "write addresses or networks, such as 10.0.0.7,10.1.0.0/16"
        return (Refusal(f"that is no network: {error}", flag, fix),)
    return ()

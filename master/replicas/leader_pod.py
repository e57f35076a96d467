"""Whether the address on the Lease is another master's, before anything is sent to it.

Workers' tokens and the token of masters go to the leader, so whoever can write the Lease must not
choose where. In a cluster that takes more: the API server says which addresses the pods of the
masters' service account have. Masters that share a token instead need not be pods: the leader is
believed at an address that a setting names, or where it has to show the masters' certificate before
anything is sent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from typing import NoReturn

import structlog
from pydantic import Field

from master.kube.client import Caller
from master.kube.errors import KubeError
from master.kube.objects import UNFINISHED, Metadata, Resource
from master.kube.reading import read_all
from master.kube.schema.slim import slim
from master.kube.service_accounts.accounts import Claims, claims_of
from master.replicas.address import Address, LeaderAddress
from master.replicas.credential import Credential
from topo.kit.addresses import Network, is_within, parse_address
from topo.model.errors import BadInputError

RETRY_S = 2.0

_log = structlog.get_logger(__name__)


@slim
class _AccountSpec:
    service_account_name: str = ""


@slim
class _AddressStatus:
    pod_ip: str = Field("", validation_alias="podIP")


@slim
class _AddressPod:
    metadata: Metadata
    spec: _AccountSpec = field(default_factory=_AccountSpec)
    status: _AddressStatus = field(default_factory=_AddressStatus)


_ADDRESS_PODS = Resource("v1", "Pod", "pods", _AddressPod)


@dataclass(frozen=True, slots=True)
class OtherMasters:
    """The other masters of this installation.

    Those of a service account are pods of it. `named` are the networks of masters that share a
    token instead.
    """

    client: Caller
    credential: Credential
    named: tuple[Network, ...] = ()

    async def doubt(self, leader: LeaderAddress) -> str:
        """Return why an address is not known to be theirs; empty if it is.

        Raises `KubeError`, `BadInputError`.
        """
        claims = claims_of(await self.credential.own())
        if isinstance(claims, Claims):
            is_ours = await self._are_pods(leader.addresses, claims.account.name)
            return "" if is_ours else "no pod of the masters' service account has it"
        named = all(is_within(str(address), self.named) for address in leader.addresses)
        if named or leader.shows_certificate:
            return ""
        return "masters share a token, and it is not in --replica-addresses"

    async def _are_pods(self, addresses: frozenset[Address], of_account: str) -> bool:
        namespace, _, account = of_account.partition(":")
        unfinished = UNFINISHED["fieldSelector"]
        query = {"fieldSelector": f"spec.serviceAccountName={account},{unfinished}"}
        pods = await read_all(self.client, _ADDRESS_PODS, namespace, query=query)
        ours = {pod.status.pod_ip for pod in pods if pod.spec.service_account_name == account}
        return addresses <= {parse_address(address) for address in ours}


@dataclass(slots=True, eq=False)
class CheckedLeader:
    """The leader's address on the Lease, passed to `believe` once it is known to be a master's.

    `masters` is None where all of them are on this machine: `leader_address` takes no other then.
    """

    masters: OtherMasters | None
    _: KW_ONLY
    believe: Callable[[LeaderAddress], None]
    _named: LeaderAddress = field(default_factory=LeaderAddress)
    _believed: LeaderAddress = field(default_factory=LeaderAddress)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _why: str = ""

    @property
    def doubt(self) -> str:
        """Why the address on the Lease is not believed; empty where it is, or none is named."""
        return self._why and f"{self._named.api}, on the lease, is not believed: {self._why}"

    def name(self, address: LeaderAddress) -> LeaderAddress:
        """Take the address that the Lease names; return as much of it as is believed already."""
        self._named = address
        if self.masters is None or address == self._believed:
            self._why = ""
            return address
        self._changed.set()
        return LeaderAddress()

    async def run(self) -> NoReturn:
        """Check each address that is named until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            await self._check(self._named)

    async def _check(self, named: LeaderAddress) -> None:
        self._why = ""
        while named.addresses and named == self._named:
            why = await self._doubt(named)
            if named != self._named:
                return
            if why and why != self._why:
                _log.warning("the leader's address is not believed", address=named.api, why=why)
            self._why = why
            if not why:
                self._believed = named
                self.believe(named)
                return
            await asyncio.sleep(RETRY_S)

    async def _doubt(self, named: LeaderAddress) -> str:
        """Return why the address is not believed; empty if it is."""
        if self.masters is None:
            return ""
        try:
            return await self.masters.doubt(named)
        except (KubeError, BadInputError) as error:
            return str(error)

"""Whether the address on the Lease is that of a pod of ours, before anything is sent to it.

Who can write the Lease cannot make pods of the masters' service account by that: the API server
says which addresses these have. Masters that share a token instead of an account need not be pods.
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
from topo.kit.addresses import parse_address
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
class MasterPods:
    """The pods of this master's service account, in its namespace."""

    client: Caller
    credential: Credential

    async def have(self, addresses: frozenset[Address]) -> bool:
        """Return whether pods have all these addresses. Raises `KubeError`, `BadInputError`."""
        claims = claims_of(await self.credential.own())
        if not isinstance(claims, Claims):
            return True
        namespace, _, account = claims.account.name.partition(":")
        unfinished = UNFINISHED["fieldSelector"]
        query = {"fieldSelector": f"spec.serviceAccountName={account},{unfinished}"}
        pods = await read_all(self.client, _ADDRESS_PODS, namespace, query=query)
        ours = {pod.status.pod_ip for pod in pods if pod.spec.service_account_name == account}
        return addresses <= {parse_address(address) for address in ours}


@dataclass(slots=True, eq=False)
class CheckedLeader:
    """The leader's address on the Lease, passed to `believe` once a pod of ours has it.

    `pods` is None where every address is believed: masters on one machine, on loopback addresses.
    """

    pods: MasterPods | None
    _: KW_ONLY
    believe: Callable[[LeaderAddress], None]
    _named: LeaderAddress = field(default_factory=LeaderAddress)
    _believed: LeaderAddress = field(default_factory=LeaderAddress)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)

    def name(self, address: LeaderAddress) -> LeaderAddress:
        """Take the address that the Lease names; return as much of it as is believed already."""
        self._named = address
        if self.pods is None or address == self._believed:
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
        failure = ""
        while named.addresses and named == self._named:
            why = await self._doubt(named)
            if named != self._named:
                return
            if not why:
                self._believed = named
                self.believe(named)
                return
            if why != failure:
                _log.warning("the leader's address is not believed", address=named.api, why=why)
            failure = why
            await asyncio.sleep(RETRY_S)

    async def _doubt(self, named: LeaderAddress) -> str:
        """Return why the address is not believed; empty if it is."""
        if self.pods is None:
            return ""
        try:
            is_ours = await self.pods.have(named.addresses)
        except (KubeError, BadInputError) as error:
            return str(error)
        return "" if is_ours else "no pod of the masters' service account has it"

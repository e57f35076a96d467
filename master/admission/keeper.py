"""Serves the certificate in the webhook's Secret; the leader also renews it.

Every master serves what the Secret holds. The Secret is polled, not watched: a certificate is
renewed weeks before its end, and `get` of one Secret by its name is the least right there is.
"""

import asyncio
import base64
import binascii
import datetime as dt
import ssl
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TypeVar

import orjson
import structlog

from master.admission.certificates import Pair
from master.admission.metrics import AdmissionMetrics
from master.admission.rotation import LATE_AT, Kept, Rotation, read_kept
from master.kube.advice import next_step
from master.kube.client import Call, Caller
from master.kube.errors import Failure, KubeError
from master.kube.objects import (
    MUTATING_WEBHOOKS,
    SECRETS,
    KubeObject,
    Resource,
    object_path,
)
from master.kube.reading import read
from master.kube.writing.writes import TIMEOUT_S, Apply, WriteTarget, call_of
from topo.kit.threads import off_loop
from topo.kit.tls import load_pair
from topo.model.conditions.master import MasterCondition
from topo.model.errors import BadInputError, Refusal
from topo.model.rest.topology import WarningDocument

MANAGER = "topo-master/admission"
POLL_S = 15.0
SETTLING_S = 1.0
"""The pause while there is no certificate, or after a step."""

_INSTALL = "install the chart with placement.enabled, which makes it"
_MERGE = "application/merge-patch+json"
T = TypeVar("T", bound=KubeObject)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateObjects:
    """The Secret with the certificates, and the webhook configuration that trusts them."""

    namespace: str
    secret: str
    configuration: str


@dataclass(slots=True, eq=False)
class CertificateKeeper:
    """Loads the pair of the Secret into `tls` and reports failures.

    `rotation` is None where another program renews the certificate. `acts` returns whether this
    master leads; it is called before each write. `now` is the wall clock, `clock` a monotonic one.
    """

    client: Caller
    place: CertificateObjects
    tls: ssl.SSLContext
    _: KW_ONLY
    names: tuple[str, ...]
    rotation: Rotation | None
    acts: Callable[[], bool]
    metrics: AdmissionMetrics
    clock: Callable[[], float]
    now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC)
    _served: Pair | None = None
    _kept: tuple[str, Kept] | None = None
    """The content of the Secret and its version."""
    _trusted: tuple[bytes, float] = (b"", 0.0)
    """The authorities that the configuration trusts, and since when; empty without any."""
    _trouble: Refusal | None = None

    @property
    def serves(self) -> bool:
        """Whether the port has a certificate that has not expired."""
        return self._served is not None and self.now() < self._served.ends

    @property
    def warnings(self) -> tuple[WarningDocument, ...]:
        """Why there is no trusted certificate, or why the current one is about to expire."""
        served = self._served
        if served is None or not self.serves:
            what = "the admission webhook has no certificate, so jobs run without groups"
        elif self._is_untrusted(served):
            what = "API servers do not trust the admission webhook, so jobs run without groups"
        elif self.now() >= served.at(LATE_AT):
            what = f"the admission webhook's certificate ends {served.ends:%Y-%m-%d %H:%M}Z"
        else:
            return ()
        why = self._trouble
        text = f"{what}: {'nobody has renewed it' if why is None else why.what}"
        fix = f"look at {self._secret_name}" if why is None else why.fix
        return (WarningDocument.of(MasterCondition.ADMISSION_CERTIFICATE, text, fix),)

    def _is_untrusted(self, served: Pair) -> bool:
        """Return whether the webhook configuration lacks the current authority.

        Only the leader reads the configuration; on other masters the answer is False.
        """
        reads = self.rotation is not None and self.acts()
        return reads and served.authority not in self._trusted[0]

    async def run(self) -> None:
        """Follow the Secret until cancelled."""
        failures = 0
        while True:
            try:
                settled = await self._step()
                failures = 0
            except KubeError as error:
                settled, failures = False, failures + 1
                fix = _INSTALL if error.is_missing else next_step(error)
                self._in_trouble(Refusal(error.message, self._secret_name, fix))
            if settled:
                self._trouble = None
            wait_s = POLL_S if settled and self.serves else SETTLING_S * 2 ** min(failures, 10)
            await asyncio.sleep(min(POLL_S, wait_s))

    async def _step(self) -> bool:
        """Take one step; return False if the next step is due soon. Raises `KubeError`."""
        secret = await self._read(SECRETS, self.place.secret)
        if secret is None:
            return False
        if self._kept is None or self._kept[0] != secret.metadata.resource_version:
            found = await off_loop(lambda: read_kept(_decoded(secret.data), self.names))
            self._kept = secret.metadata.resource_version, found
        kept = self._kept[1]
        if isinstance(kept.current, Pair):
            await self._serve(kept.current)
        elif self.rotation is None:
            self._in_trouble(kept.current)
        if self.rotation is None or not self.acts():
            return isinstance(kept.current, Pair)
        settled = await self._trust(kept)
        trusted_s = self.clock() - self._trusted[1] if self._trusted[0] == kept.trusted else 0.0
        change = self.rotation.step(kept, self.now(), trusted_s)
        if change is None:
            return settled and kept.following is None
        await self._write(secret.metadata.resource_version, change)
        return False

    async def _serve(self, pair: Pair) -> None:
        if self._served is not None and self._served.chain == pair.chain:
            return
        try:
            await off_loop(lambda: load_pair(self.tls, pair.chain, pair.key))
        except BadInputError as error:
            self._in_trouble(error.refusal)
            return
        self._served, self._trouble = pair, None
        self.metrics.certificate_lasts(pair.begins.timestamp(), pair.ends.timestamp())
        _log.info("the admission webhook has a certificate", ends=f"{pair.ends:%Y-%m-%dT%H:%M:%SZ}")

    async def _trust(self, kept: Kept) -> bool:
        """Write the trusted authorities to the configuration; return whether it has them."""
        name = self.place.configuration
        if not kept.trusted:
            return False
        found = await self._read(MUTATING_WEBHOOKS, name)
        if found is None:
            return False
        bundles = {each.client_config.ca_bundle for each in found.webhooks}
        seen = _decoded({"": bundles.pop()}).get("", b"") if len(bundles) == 1 else b""
        if seen != self._trusted[0]:
            self._trusted = (seen, self.clock())
        if seen == kept.trusted:
            return True
        bundle = base64.b64encode(kept.trusted).decode()
        trusting = [
            {"name": each.name, "clientConfig": {"caBundle": bundle}} for each in found.webhooks
        ]
        write = Apply(
            target=WriteTarget(MUTATING_WEBHOOKS, name),
            manager=MANAGER,
            uid=found.metadata.uid,
            fields={"webhooks": trusting},
            force=True,  # whoever overwrote it owns the field, and would keep the webhook untrusted
        )
        if self.acts():
            await self.client.call(call_of(write))
        return False

    async def _write(self, version: str, change: Mapping[str, bytes | None]) -> None:
        """Update the Secret in the version that was read; any other version is a conflict."""
        if not self.acts():
            return
        data = {
            name: None if value is None else base64.b64encode(value).decode()
            for name, value in change.items()
        }
        body = orjson.dumps({"metadata": {"resourceVersion": version}, "data": data})
        path = object_path(SECRETS, self.place.secret, self.place.namespace)
        await self.client.call(
            Call(
                method="PATCH",
                path=path,
                query={"fieldManager": MANAGER},
                body=body,
                content_type=_MERGE,
                timeout_s=TIMEOUT_S,
                urgent=True,
            )
        )
        _log.info("the admission webhook's certificates are renewed", entries=sorted(change))

    async def _read(self, resource: Resource[T], name: str) -> T | None:
        """Return the object, None if the answer has another shape. Raises `KubeError`."""
        namespace = self.place.namespace if resource.namespaced else ""
        try:
            return await read(self.client, resource, name, namespace, urgent=True)
        except KubeError as error:
            if error.failure is not Failure.MALFORMED:
                raise
            fix = f"look at it: kubectl get {resource.plural} {name}"
            self._in_trouble(Refusal(f"{resource.kind} {name} is none", name, fix))
            return None

    def _in_trouble(self, why: Refusal) -> None:
        if self._trouble != why:
            _log.warning("the webhook's certificate", what=why.what, where=why.where, fix=why.fix)
        self._trouble = why

    @property
    def _secret_name(self) -> str:
        return f"secret {self.place.namespace}/{self.place.secret}"


def _decoded(data: Mapping[str, str] | None) -> Mapping[str, bytes]:
    """Return the decoded entries of a Secret, without entries that are not base64."""
    found = {}
    for name, text in (data or {}).items():
        try:
            found[name] = base64.b64decode(text, validate=True)
        except binascii.Error:
            continue
    return found

"""Mutating webhooks: the API server asks them before it creates an object.

As kube-apiserver does: webhooks whose rules name the kind are asked in order over HTTPS, the
certificate is verified by the `caBundle` for the DNS name of the Service, JSON patches are applied
one after the other, and `failurePolicy` decides when no answer can be used. There is no DNS and no
CEL here: the address of each Service is given, and a configuration with `matchConditions` is
refused instead of being asked too much. Source: kubernetes.io, "Dynamic Admission Control".
"""

import asyncio
import base64
import binascii
import ssl
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import aiohttp
import orjson

from topo.kit.serving.body import bounded_bytes
from topo.sim.kubernetes.apiserver.merging import apply_operations
from topo.sim.kubernetes.apiserver.resources import WEBHOOKS, ServedKind
from topo.sim.kubernetes.apiserver.statuses import RefusedError, invalid
from topo.sim.kubernetes.apiserver.store import ObjectStore

MAX_ANSWER_BYTES = 4 << 20
_USUAL_TIMEOUT_S = 10.0
_REVIEW = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
Services = Mapping[tuple[str, str], tuple[str, int]]
"""Namespace and name of a Service → the address and port where it is reached."""


@dataclass(slots=True)
class Webhooks:
    """Asks the webhooks that the store configures, over the client session that is given."""

    store: ObjectStore
    services: Services
    session: aiohttp.ClientSession | None = None
    _contexts: dict[str, ssl.SSLContext] = field(default_factory=dict)
    """By the CA bundle; one is kept, for a renewal replaces it."""

    async def admit(
        self, kind: ServedKind, namespace: str, document: dict[str, Any], warnings: list[str]
    ) -> dict[str, Any]:
        """Return the object as the webhooks want it; add their warnings. Raises `RefusedError`."""
        for webhook in self._asked(kind):
            try:
                response = await self._ask(webhook, kind, namespace, document)
                document = _patched(document, response)
                warnings += response.get("warnings") or ()
            except (aiohttp.ClientError, OSError, TimeoutError, ValueError, LookupError) as error:
                if webhook.get("failurePolicy", "Fail") == "Fail":
                    raise _failed(webhook, error) from None
        return document

    def _asked(self, kind: ServedKind) -> Iterator[Mapping[str, Any]]:
        """Yield the webhooks that are asked about new objects of a kind."""
        group, _, version = kind.api_version.rpartition("/")
        for (collection, _), stored in list(self.store.objects.items()):
            if collection == WEBHOOKS.root:
                for webhook in stored.document.get("webhooks", ()):
                    if any(_covers(rule, group, version, kind) for rule in webhook["rules"]):
                        yield webhook

    async def _ask(
        self, webhook: Mapping[str, Any], kind: ServedKind, namespace: str, document: Any
    ) -> Mapping[str, Any]:
        group, _, version = kind.api_version.rpartition("/")
        uid = str(uuid.uuid4())
        request = {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": kind.kind},
            "resource": {"group": group, "version": version, "resource": kind.plural},
            "namespace": namespace,
            "name": document["metadata"].get("name", ""),
            "operation": "CREATE",
            "object": document,
            "dryRun": False,
        }
        body = orjson.dumps({**_REVIEW, "request": request})
        async with asyncio.timeout(webhook.get("timeoutSeconds", _USUAL_TIMEOUT_S)):
            answer = orjson.loads(await self._post(webhook["clientConfig"], body))
        response = answer.get("response") or {}
        if response.get("uid") != uid:
            raise ValueError("the answer is to another review")
        if not response.get("allowed"):
            status = response.get("status") or {}
            text = f'admission webhook "{webhook["name"]}" denied the request: '
            text += status.get("message", "")
            code = status.get("code", HTTPStatus.FORBIDDEN)
            raise RefusedError(code, status.get("reason", "Forbidden"), text)
        found: Mapping[str, Any] = response
        return found

    async def _post(self, config: Mapping[str, Any], body: bytes) -> bytes:
        """Return the body of a 200 answer of a webhook's Service."""
        service = config["service"]
        place = self.services.get((service["namespace"], service["name"]))
        if place is None or self.session is None:
            raise ValueError(f"service {service['name']!r} has no endpoint")
        host, port = place
        async with self.session.post(
            f"https://{host}:{port}{service.get('path', '/')}",
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=self._context(config.get("caBundle", "")),
            server_hostname=f"{service['name']}.{service['namespace']}.svc",
            allow_redirects=False,
        ) as answer:
            found = await bounded_bytes(answer.content, MAX_ANSWER_BYTES)
            if answer.status != HTTPStatus.OK or found is None:
                raise ValueError(f"it answered {answer.status}")
            return found

    def _context(self, bundle: str) -> ssl.SSLContext:
        """Return what trusts a CA bundle; nothing is trusted without one."""
        if bundle not in self._contexts:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if bundle:
                context.load_verify_locations(cadata=base64.b64decode(bundle).decode("ascii"))
            self._contexts = {bundle: context}
        return self._contexts[bundle]


def check_configuration(document: Mapping[str, Any]) -> None:
    """Raise `RefusedError` for a configuration that this server cannot follow."""
    for webhook in document.get("webhooks", ()):
        for name in ("matchConditions", "namespaceSelector", "objectSelector"):
            if webhook.get(name):
                what = f"the simulated API server does not read {name}; leave it out"
                raise invalid(f"webhooks[{webhook['name']}].{name}: {what}")
        if not webhook.get("clientConfig", {}).get("service"):
            raise invalid(f"webhooks[{webhook['name']}].clientConfig.service: Required value")


def _covers(rule: Mapping[str, Any], group: str, version: str, kind: ServedKind) -> bool:
    """Whether a rule names the creation of this kind."""
    wanted = (("apiGroups", group), ("apiVersions", version), ("resources", kind.plural))
    named = all(_names(rule.get(name, ()), value) for name, value in wanted)
    return named and _names(rule.get("operations", ()), "CREATE")


def _names(values: Iterable[str], value: str) -> bool:
    return value in values or "*" in values


def _patched(document: dict[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object after the patch of an answer; the one that is given stays as it is."""
    if not response.get("patch"):
        return document
    if response.get("patchType") != "JSONPatch":
        raise ValueError(f"patchType {response.get('patchType')!r} is not JSONPatch")
    try:
        operations = orjson.loads(base64.b64decode(response["patch"], validate=True))
    except binascii.Error as error:
        raise ValueError(f"the patch is not base64: {error}") from None
    changed: dict[str, Any] = orjson.loads(orjson.dumps(document))
    apply_operations(changed, operations)
    return changed


def _failed(webhook: Mapping[str, Any], error: Exception) -> RefusedError:
    why = str(error) or type(error).__name__
    text = f'Internal error occurred: failed calling webhook "{webhook["name"]}": {why}'
    return RefusedError(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", text)

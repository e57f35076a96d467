"""A Secret and a webhook configuration as an API server keeps them, and who asks for them."""

import base64
import copy
import ssl
from dataclasses import dataclass, field
from typing import Any

import orjson
from cryptography import x509

from master.kube.client import Call
from master.kube.errors import KubeError

NAMESPACE, NAME = "topo", "topo-master-admission"
DNS_NAME = f"{NAME}.{NAMESPACE}.svc"


@dataclass
class TwoObjects:
    """Answers GET and PATCH of the two; a merge of another version is a conflict."""

    secret: dict[str, Any] | None = field(default_factory=lambda: {"metadata": {}})
    bundles: list[str] = field(default_factory=lambda: [""] * 3)
    version: int = 1
    writes: list[str] = field(default_factory=list)
    fault: KubeError | None = None
    may_trust: bool = True
    applied: str = ""
    """The bundle that was applied last; any other is somebody else's field."""

    async def call(self, call: Call) -> bytes:
        if self.fault is not None:
            raise self.fault
        is_secret = call.path == f"/api/v1/namespaces/{NAMESPACE}/secrets/{NAME}"
        if not is_secret:
            assert call.path.endswith(f"/mutatingwebhookconfigurations/{NAME}")
        if is_secret and self.secret is None:
            raise KubeError(f'secrets "{NAME}" not found', status=404)
        if call.method == "PATCH":
            if not is_secret and call.query["force"] != "true":
                self._check_owner()
            self._patch(orjson.loads(call.body or b""), is_secret=is_secret)
        if is_secret:
            document = copy.deepcopy(self.secret or {})
            document["metadata"] |= {"name": NAME, "resourceVersion": str(self.version)}
            return orjson.dumps(document)
        webhooks = [
            {"name": str(number), "clientConfig": {"caBundle": bundle}}
            for number, bundle in enumerate(self.bundles)
        ]
        return orjson.dumps({"metadata": {"name": NAME, "uid": "u"}, "webhooks": webhooks})

    def _check_owner(self) -> None:
        """Refuse an apply as a server does where another manager owns the field."""
        if any(bundle not in ("", self.applied) for bundle in self.bundles):
            raise KubeError("Apply failed with 1 conflict", status=409)

    def _patch(self, body: dict[str, Any], *, is_secret: bool) -> None:
        if not is_secret:
            if not self.may_trust:
                raise KubeError("mutatingwebhookconfigurations is forbidden", status=403)
            assert body["metadata"]["uid"] == "u"
            self.bundles = [each["clientConfig"]["caBundle"] for each in body["webhooks"]]
            self.applied = self.bundles[0]
            self.writes.append("trust")
            return
        if body["metadata"]["resourceVersion"] != str(self.version):
            raise KubeError("the object has been modified", status=409)
        data = {**(self.secret or {}).get("data", {}), **body["data"]}
        kept = {name: value for name, value in data.items() if value is not None}
        self.secret = {"metadata": {}, "data": kept}
        self.version += 1
        self.writes.append("secret")

    @property
    def authorities(self) -> list[x509.Certificate]:
        """What the API server trusts."""
        pem = base64.b64decode(self.bundles[0])
        return x509.load_pem_x509_certificates(pem) if pem else []


def served(context: ssl.SSLContext) -> x509.Certificate | None:
    """What a server of this context shows to who asks; None where it has nothing."""
    anybody = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = context.wrap_bio(there, here, server_side=True)
    client = anybody.wrap_bio(here, there)
    for _ in range(8):
        for side in (client, server):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            except ssl.SSLError:
                return None
    shown = client.getpeercert(binary_form=True)
    return x509.load_der_x509_certificate(shown) if shown else None

"""Tokens that end when a test says so, signed with the cluster's own key.

The API server issues none for less than ten minutes. One that it issued is taken here, given other
times and signed again, so that all else of it is the API server's own. Formats: RFC 7519 (claims
`exp`, `iat`, `nbf`), RFC 7515 (parts), RFC 7518 3.4 (ES256: both numbers in 32 bytes each).
"""

import base64
import json
import time

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from tests.e2e.controlplane.core import Files

LEEWAY_S = 60.0
"""The API server takes a token for so long after its end. Source: go-jose, `jwt.DefaultLeeway`; it
then remembers for ten seconds that it did (Kubernetes v1.36, `TokenSuccessCacheTTL`)."""
_AGE_S = 3600.0


def ending(issued: str, files: Files, *, after_s: float) -> str:
    """The token as one that the API server takes for the first time within `after_s` from now."""
    key = load_pem_private_key((files.home / "pki" / "service-accounts.key").read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    header, payload, _ = issued.split(".")
    assert json.loads(_decoded(header))["alg"] == "ES256"
    ends_s = int(time.time() + after_s - LEEWAY_S)
    began_s = int(ends_s - _AGE_S)
    claims = json.loads(_decoded(payload)) | {"exp": ends_s, "iat": began_s, "nbf": began_s}
    signed = f"{header}.{_encoded(json.dumps(claims).encode())}"
    one, other = decode_dss_signature(key.sign(signed.encode(), ec.ECDSA(SHA256())))
    return f"{signed}.{_encoded(one.to_bytes(32) + other.to_bytes(32))}"


def _decoded(part: str) -> bytes:
    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _encoded(part: bytes) -> str:
    return base64.urlsafe_b64encode(part).rstrip(b"=").decode()

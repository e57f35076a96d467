"""Authorities and serving certificates by which API servers verify the webhook.

Each serving certificate has an authority of its own, whose key is discarded at once: no second
certificate can be issued, and both are renewed together.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization

from topo.kit.certificates import Signer, common_name, key_text, new_key
from topo.model.errors import Refusal

SKEW = dt.timedelta(hours=1)
"""Clocks of masters and API servers may differ by this much: certificates are valid from before
now."""
_CERT, _KEY = "tls.crt", "tls.key"


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate chain and the private key of its first certificate, both PEM.

    `authority` is the last certificate of the chain.
    """

    chain: bytes
    key: bytes = field(repr=False)
    authority: bytes = field(repr=False)
    begins: dt.datetime
    ends: dt.datetime

    def at(self, share: float) -> dt.datetime:
        """Return the time at which this share of the lifetime (0 to 1) has passed."""
        return self.begins + (self.ends - self.begins) * share


def issue(names: Sequence[str], now: dt.datetime, life: dt.timedelta) -> Pair:
    """Return a serving certificate for these DNS names, signed by an authority made for it."""
    signer = Signer(common_name(f"topo-master admission {now:%Y-%m-%dT%H:%M:%SZ}"), new_key())
    key, valid = new_key(), (now - SKEW, now + life)
    leaf = signer.server(names[0], names, key, valid=valid)
    trusted = signer.authority(valid).public_bytes(serialization.Encoding.PEM)
    return Pair(
        leaf.public_bytes(serialization.Encoding.PEM) + trusted,
        key_text(key),
        trusted,
        leaf.not_valid_before_utc,
        leaf.not_valid_after_utc,
    )


def read_pair(chain: bytes, key: bytes, names: Sequence[str]) -> Pair | Refusal:
    """Return the pair in two PEM texts; a refusal if they are invalid or for other names.

    An expired pair is returned as well.
    """
    try:
        certificates = x509.load_pem_x509_certificates(chain)
        private = serialization.load_pem_private_key(key, password=None)
        leaf = certificates[0]
        same = leaf.public_key() == private.public_key()
        wanted = leaf.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        known = set(wanted.get_values_for_type(x509.DNSName))
    except (ValueError, TypeError, UnsupportedAlgorithm, x509.ExtensionNotFound) as error:
        what = f"no certificate for a server can be read: {error}"[:200]
        return Refusal(what, f"{_CERT}, {_KEY}", "give a PEM certificate and its key")
    if not same:
        fix = "give a certificate and its own key"
        return Refusal("the key is not that of the certificate", _KEY, fix)
    missing = [name for name in names if name not in known]
    if missing:
        what = f"the certificate is not for {missing[0]}"
        return Refusal(what, _CERT, f"name {', '.join(names)} in it")
    authority = certificates[-1].public_bytes(serialization.Encoding.PEM)
    return Pair(chain, key, authority, leaf.not_valid_before_utc, leaf.not_valid_after_utc)

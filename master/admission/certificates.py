"""Authorities and serving certificates by which API servers verify the webhook.

Each serving certificate has an authority of its own, whose key is discarded at once: no second
certificate can be issued, and both are renewed together. Keys are elliptic (P-256), so that a
handshake costs little. The extensions are those of strict verification (RFC 5280 4.2).
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

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
    signer, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    begins, ends = now - SKEW, now + life
    issuer, subject = _name(f"topo-master admission {now:%Y-%m-%dT%H:%M:%SZ}"), _name(names[0])
    authority = (
        _builder(issuer, issuer, signer, (begins, ends))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .sign(signer, hashes.SHA256())
    )
    leaf = (
        _builder(subject, issuer, key, (begins, ends))
        .add_extension(x509.SubjectAlternativeName(map(x509.DNSName, names)), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
        .sign(signer, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    trusted = authority.public_bytes(encoding)
    return Pair(
        leaf.public_bytes(encoding) + trusted,
        key.private_bytes(encoding, form, serialization.NoEncryption()),
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


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    valid: tuple[dt.datetime, dt.datetime],
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(valid[0])
        .not_valid_after(valid[1])
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common[:64])])


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )

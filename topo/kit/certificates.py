"""Certificates of authorities and of the servers that they vouch for.

Keys are elliptic (P-256), so that a handshake costs little. The extensions are those of strict
verification (RFC 5280 4.2).
"""

import datetime as dt
import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

Span = tuple[dt.datetime, dt.datetime]
"""From when until when a certificate is valid."""


@dataclass(frozen=True, slots=True)
class Signer:
    """The name and the key of an authority."""

    name: x509.Name
    key: ec.EllipticCurvePrivateKey

    def authority(self, valid: Span) -> x509.Certificate:
        """Return the certificate of the authority itself."""
        return (
            self._builder(self.name, self.key, valid)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def server(
        self, name: str, hosts: Iterable[str], key: ec.EllipticCurvePrivateKey, *, valid: Span
    ) -> x509.Certificate:
        """Return a certificate for a server with these DNS names or addresses."""
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        return (
            self._builder(common_name(name), key, valid)
            .add_extension(x509.SubjectAlternativeName(map(_alternative, hosts)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(issued_by, critical=False)
            .sign(self.key, hashes.SHA256())
        )

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, valid: Span
    ) -> x509.CertificateBuilder:
        public = key.public_key()
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self.name)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(valid[0])
            .not_valid_after(valid[1])
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        )


def new_key() -> ec.EllipticCurvePrivateKey:
    """Return a fresh private key."""
    return ec.generate_private_key(ec.SECP256R1())


def key_text(key: ec.EllipticCurvePrivateKey) -> bytes:
    """Return the key as unencrypted PEM."""
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def common_name(name: str) -> x509.Name:
    """Return the name of a subject or issuer, cut to what a certificate may hold."""
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name[:64])])


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


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

"""A certificate authority of our own for the simulated cluster manager, and bad leaves on demand.

Keys are elliptic (P-256), which takes milliseconds. The extensions are those that Python's strict
verification asks for (key identifiers, key usage; RFC 5280 4.2).
"""

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from topo.kit.files import write_private

_DAY = dt.timedelta(days=1)
_VALID = 365 * _DAY


@dataclass(frozen=True, slots=True)
class Authority:
    """The authority whose files lie in `directory`: `ca.pem` for clients, `ca.key` for itself."""

    directory: Path

    @property
    def certificate_file(self) -> Path:
        """What a client must trust."""
        return self.directory / "ca.pem"

    @property
    def key_file(self) -> Path:
        """The authority's own key, readable by its owner only."""
        return self.directory / "ca.key"

    @classmethod
    def at(cls, directory: Path) -> "Authority":
        """The authority of that directory, made now if it has none: restarts keep their CA."""
        authority = cls(directory)
        if not authority.certificate_file.exists() or not authority.key_file.exists():
            directory.mkdir(parents=True, exist_ok=True)
            authority._create()
        return authority

    def leaf(self, name: str, *hosts: str, expired: bool = False) -> tuple[Path, Path]:
        """Files (certificate, key) of a fresh server certificate for these hosts or addresses."""
        key, signer = ec.generate_private_key(ec.SECP256R1()), self._key()
        issuer = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        subject = _name(f"simulated cluster manager {name}")
        issued_by = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
        certificate = (
            _builder(subject, issuer.subject, key, -_DAY if expired else _VALID)
            .add_extension(x509.SubjectAlternativeName(map(_alternative, hosts)), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
            .add_extension(issued_by, critical=False)
            .sign(signer, hashes.SHA256())
        )
        return self._write(name, certificate, key)

    def _create(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name("simulated cluster manager CA")
        certificate = (
            _builder(subject, subject, key, 10 * _VALID)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .sign(key, hashes.SHA256())
        )
        self._write("ca", certificate, key)

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> tuple[Path, Path]:
        certificate_file, key_file = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        write_private(key_file, key.private_bytes(encoding, form, serialization.NoEncryption()))
        certificate_file.write_bytes(certificate.public_bytes(encoding))
        return certificate_file, key_file

    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.key_file} was not written by this program")
        return key


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, lasts: dt.timedelta
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - 3 * _DAY)
        .not_valid_after(now + lasts)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


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

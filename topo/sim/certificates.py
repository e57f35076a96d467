"""A certificate authority for simulated servers, and bad leaves on demand."""

import datetime as dt
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from topo.kit.certificates import Signer, common_name, key_text, new_key
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
        issuer = x509.load_pem_x509_certificate(self.certificate_file.read_bytes())
        signer, key = Signer(issuer.subject, self._key()), new_key()
        valid = _span(-_DAY if expired else _VALID)
        subject = f"simulated {name}"
        return self._write(name, signer.server(subject, hosts, key, valid=valid), key)

    def _create(self) -> None:
        signer = Signer(common_name("simulation CA"), new_key())
        self._write("ca", signer.authority(_span(10 * _VALID)), signer.key)

    def _write(
        self, name: str, certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey
    ) -> tuple[Path, Path]:
        certificate_file, key_file = self.directory / f"{name}.pem", self.directory / f"{name}.key"
        write_private(key_file, key_text(key))
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file

    def _key(self) -> ec.EllipticCurvePrivateKey:
        key = serialization.load_pem_private_key(self.key_file.read_bytes(), password=None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise TypeError(f"{self.key_file} was not written by this program")
        return key


def _span(lasts: dt.timedelta) -> tuple[dt.datetime, dt.datetime]:
    now = dt.datetime.now(dt.UTC)
    return now - 3 * _DAY, now + lasts

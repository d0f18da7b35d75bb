"""A development certificate authority for the server and its first users.

Keys are ECDSA P-256, created on first start, stored with mode 0600 and never sent.
"""

from __future__ import annotations

import datetime
import ipaddress
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from dray import durable_files
from dray.clock import utc_now

log = logging.getLogger(__name__)

_OTHERS = 0o007

PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey


class Lifetime(NamedTuple):
    """The time for which a certificate is valid, and a time before it was made.

    The second is for machines whose clocks are slow.
    """

    length: datetime.timedelta
    backdate: datetime.timedelta = datetime.timedelta(minutes=5)


AUTHORITY_LIFETIME = Lifetime(datetime.timedelta(days=3650))
SERVER_LIFETIME = Lifetime(datetime.timedelta(days=365))
USER_LIFETIME = Lifetime(datetime.timedelta(days=365), backdate=datetime.timedelta())
"""Not backdated: the start says which of a user's certificates are from before a revocation."""
COMPONENT_LIFETIME = Lifetime(datetime.timedelta(days=1))
"""For certificates that a process makes for itself, and renews: nobody has to revoke them."""
ENDING = datetime.timedelta(days=90)
"""The rest of an authority's lifetime from which on there is a warning."""


class KeyFileError(ValueError):
    """A key or certificate file cannot be used; the text names the file and says what to do."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, in PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """Signs certificates for the server and for client identities."""

    def __init__(self, pair: KeyPair) -> None:
        self.certificate = pair.certificate
        self._certificate = x509.load_pem_x509_certificate(pair.certificate)
        self._key = key_from_pem(pair.key)
        if self.expires - utc_now() < ENDING:
            log.warning(
                "the certificate authority ends on %s, and all certificates with it: replace it "
                "and give every user, server and node a new certificate before",
                f"{self.expires:%Y-%m-%d}",
            )

    @classmethod
    def from_files(cls, certificate: Path, key: Path) -> Authority:
        """Return the authority of two PEM files, which several servers may share.

        Raises KeyFileError if they are unreadable, no authority, or not of one pair.
        """
        pair = KeyPair(read_file(certificate), read_key_file(key))
        try:
            authority = cls(pair)
        except ValueError as error:
            message = f"{certificate}, {key}: not a certificate and its key in PEM: {error}"
            raise KeyFileError(message) from error
        authority._check(certificate, key)
        return authority

    def _check(self, certificate: Path, key: Path) -> None:
        if self._key.public_key() != self._certificate.public_key():
            raise KeyFileError(f"{key}: not the key of the certificate in {certificate}")
        try:
            extensions = self._certificate.extensions
            basic = extensions.get_extension_for_class(x509.BasicConstraints).value
        except x509.ExtensionNotFound:
            basic = None
        if basic is None or not basic.ca:
            raise KeyFileError(f"{certificate}: not the certificate of an authority (CA:TRUE)")
        if self.expires <= utc_now():
            raise KeyFileError(f"{certificate}: has expired on {self.expires:%Y-%m-%d}")

    @property
    def expires(self) -> datetime.datetime:
        return self._certificate.not_valid_after_utc

    @classmethod
    def load_or_create(cls, directory: Path) -> Authority:
        """Return the authority in `directory`, which the first call creates."""
        certificate, key = directory / "ca.crt", directory / "ca.key"
        if not certificate.exists():
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            pair = _self_signed("dray-ca")
            durable_files.replace_file(key, pair.key)
            durable_files.replace_file(certificate, pair.certificate)
        return cls(KeyPair(certificate.read_bytes(), key.read_bytes()))

    def server_pair(self, names: Iterable[str], lifetime: Lifetime | None = None) -> KeyPair:
        """Return a certificate for the host names and addresses of the server."""
        alternatives = x509.SubjectAlternativeName([_general_name(name) for name in names])
        usage, lifetime = ExtendedKeyUsageOID.SERVER_AUTH, lifetime or SERVER_LIFETIME
        return self._issue(_subject("dray-apiserver"), usage, alternatives, lifetime)

    def client_pair(
        self, user: str, groups: Iterable[str] = (), lifetime: Lifetime | None = None
    ) -> KeyPair:
        """Return a certificate for a user: the common name, with the groups as organizations."""
        usage, lifetime = ExtendedKeyUsageOID.CLIENT_AUTH, lifetime or USER_LIFETIME
        return self._issue(_subject(user, groups), usage, None, lifetime)

    def _issue(
        self,
        subject: x509.Name,
        usage: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
        lifetime: Lifetime,
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = (
            _builder(subject, self._certificate.subject, key.public_key(), lifetime)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
            # Distinguishes this authority from another one of the same name.
            .add_extension(self._key_identifier(), critical=False)
        )
        if alternatives is not None:
            builder = builder.add_extension(alternatives, critical=False)
        return _pair(builder.sign(self._key, hashes.SHA256()), key)

    def _key_identifier(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())


def _self_signed(name: str) -> KeyPair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _subject(name)
    certificate = (
        _builder(subject, subject, key.public_key(), AUTHORITY_LIFETIME)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_authority_usage(), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _pair(certificate, key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    lifetime: Lifetime,
) -> x509.CertificateBuilder:
    now = utc_now()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - lifetime.backdate)
        .not_valid_after(now + lifetime.length)
    )


def _authority_usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        crl_sign=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _pair(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> KeyPair:
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_to_pem(key))


def read_file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise KeyFileError(f"{path}: {error.strerror}") from error


def read_key_file(path: Path) -> bytes:
    """Return the content of a file with a private key, which others may not read or write."""
    content = read_file(path)
    if path.stat().st_mode & _OTHERS:
        raise KeyFileError(f"{path}: a private key that every user can access: chmod 600 {path}")
    return content


def key_to_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    return key.private_bytes(encoding, form, serialization.NoEncryption())


def key_from_pem(pem: bytes) -> PrivateKey:
    """Return a private key. Raises ValueError unless it is an EC or RSA key without a password."""
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except TypeError as error:
        raise ValueError("the key is encrypted; write it without a password") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey):
        raise ValueError(f"keys are EC or RSA, not {type(key).__name__}")
    return key


def _subject(name: str, organizations: Iterable[str] = ()) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, item) for item in organizations),
            x509.NameAttribute(NameOID.COMMON_NAME, name),
        ]
    )


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)

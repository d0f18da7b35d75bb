"""The certificate authority: files that several servers share."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import NameOID

from dray import clock
from dray.apiserver.access import certificates
from dray.apiserver.access.certificates import Authority, KeyFileError
from dray.apiserver.access.service_account_tokens import TokenSigner, service_account_claims

CLAIMS = service_account_claims(
    "default", {"name": "a", "uid": "u"}, now=0, expiration_seconds=60, token_id="t"
)


def written(path: Path, content: bytes, mode: int = 0o600) -> Path:
    path.write_bytes(content)
    path.chmod(mode)
    return path


def ec_key() -> bytes:
    return certificates.key_to_pem(ec.generate_private_key(ec.SECP256R1()))


def test_an_authority_of_files_signs_as_the_one_of_a_directory(tmp_path: Path) -> None:
    made = Authority.load_or_create(tmp_path)
    loaded = Authority.from_files(tmp_path / "ca.crt", tmp_path / "ca.key")
    assert loaded.certificate == made.certificate
    assert loaded.client_pair("alice").certificate.startswith(b"-----BEGIN CERTIFICATE")


def test_files_that_are_no_authority_are_refused(tmp_path: Path) -> None:
    made = Authority.load_or_create(tmp_path)
    leaf = made.client_pair("alice")
    crt, key = tmp_path / "ca.crt", tmp_path / "ca.key"
    other = written(tmp_path / "other.key", ec_key())
    leaf_crt = written(tmp_path / "leaf.crt", leaf.certificate)
    leaf_key = written(tmp_path / "leaf.key", leaf.key)
    for certificate, private, text in (
        (tmp_path / "absent", key, "absent: No such file"),
        (crt, other, "not the key of the certificate"),
        (leaf_crt, leaf_key, "not the certificate of an authority"),
        (key, key, "not a certificate and its key in PEM"),
    ):
        with pytest.raises(KeyFileError, match=text):
            Authority.from_files(certificate, private)


def test_a_key_that_all_users_can_read_is_refused(tmp_path: Path) -> None:
    Authority.load_or_create(tmp_path)
    (tmp_path / "ca.key").chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        Authority.from_files(tmp_path / "ca.crt", tmp_path / "ca.key")


def test_tokens_of_a_replaced_key_stay_valid_while_it_is_trusted(tmp_path: Path) -> None:
    old = written(tmp_path / "old.key", ec_key())
    new = written(tmp_path / "new.key", ec_key())
    key = TokenSigner.from_files(old)._key.public_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    public = written(tmp_path / "old.pub", key.public_bytes(serialization.Encoding.PEM, form))
    token = TokenSigner.from_files(old).sign(CLAIMS)
    for trusted in ((public,), (old,)):
        assert TokenSigner.from_files(new, trusted).read(token, 1) == CLAIMS
    with pytest.raises(Exception, match="not signed by this server"):
        TokenSigner.from_files(new).read(token, 1)


def test_token_keys_of_another_kind_are_refused(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    pem = key.private_bytes(encoding, form, serialization.NoEncryption())
    locked = key.private_bytes(encoding, form, serialization.BestAvailableEncryption(b"x"))
    with pytest.raises(KeyFileError, match="curve P-256"):
        TokenSigner.from_files(written(tmp_path / "rsa.key", pem))
    with pytest.raises(KeyFileError, match="without a password"):
        TokenSigner.from_files(written(tmp_path / "locked.key", locked))


def test_an_authority_that_is_about_to_end_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Authority.load_or_create(tmp_path)
    assert not caplog.records
    nearly_ten_years = datetime.timedelta(days=3600)
    monkeypatch.setattr(certificates, "utc_now", lambda: clock.utc_now() + nearly_ten_years)
    Authority.load_or_create(tmp_path)
    assert "the certificate authority ends on 20" in caplog.text
    monkeypatch.setattr(certificates, "utc_now", lambda: clock.utc_now() + 2 * nearly_ten_years)
    with pytest.raises(KeyFileError, match="has expired on 20"):
        Authority.from_files(tmp_path / "ca.crt", tmp_path / "ca.key")


def test_an_authority_may_have_an_rsa_key(tmp_path: Path) -> None:
    key = rsa.generate_private_key(65537, 2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a company")])
    now = clock.utc_now()
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=400))
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    encoding, form = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    pem = key.private_bytes(encoding, form, serialization.NoEncryption())
    authority = Authority.from_files(
        written(tmp_path / "ca.crt", made.public_bytes(encoding)),
        written(tmp_path / "ca.key", pem),
    )
    leaf = x509.load_pem_x509_certificate(authority.client_pair("alice").certificate)
    leaf.verify_directly_issued_by(made)

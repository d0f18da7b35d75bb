"""`dray revoke`: end the certificates and tokens of a user, or one certificate."""

from __future__ import annotations

import datetime
import hashlib
from pathlib import Path

import click
import msgspec

from dray.api import errors, kinds
from dray.api.formats import gotime
from dray.api.semantics import revocation
from dray.api.semantics.revocation import Revocation
from dray.cli.command_errors import DrayCommand, WrongUsage
from dray.cli.session import connection
from dray.cli.session.connection import Session, Target
from dray.clock import utc_now


@click.command("revoke", cls=DrayCommand)
@click.argument("user", required=False, default="")
@connection.options_of_cluster
@click.option("--before", default="", metavar="TIME", help="Instead of now: 2026-01-02T03:04:05Z.")
@click.option("--certificate", default="", metavar="FILE", help="Only this certificate, in PEM.")
@click.option(
    "--serial", default="", metavar="HEX", help="Only the certificate with this serial number."
)
def revoke(target: Target, user: str, before: str, certificate: str, serial: str) -> None:
    """Revoke all certificates and tokens that USER has got so far, on every API server at once.

    The tokens of a service account are those of system:serviceaccount:NAMESPACE:NAME. What is
    issued afterwards is valid. `dray get configmap dray-revoked -n kube-system` shows all
    revocations; to undo one, remove it there.
    """
    if bool(user) + bool(certificate) + bool(serial) != 1:
        raise WrongUsage("name a user, or one certificate with --certificate or --serial")
    if before and not user:
        raise WrongUsage("--before: only for a user; a certificate is revoked as a whole")
    if user:
        wanted = Revocation(user=user, before=before or _end_of_this_second())
    else:
        wanted = Revocation(serial=serial or _serial_of(Path(certificate)))
    text = msgspec.json.encode(wanted).decode()
    try:
        revocation.parse(text)
    except ValueError as error:
        raise WrongUsage(str(error)) from error

    async def body(session: Session) -> None:
        await _write(session, {_key_of(wanted): text})

    connection.run(target, body)
    what = f"{user}: all that was issued before {wanted.before}" if user else wanted.serial
    click.echo(f"revoked: {what}")


async def _write(session: Session, data: dict[str, str]) -> None:
    """Add to the revocations, also while others do so."""
    name, namespace = revocation.NAME, revocation.NAMESPACE
    try:
        await session.client.patch(kinds.CONFIG_MAP, name, {"data": data}, namespace)
        return
    except errors.NotFound:
        new = {**kinds.CONFIG_MAP.type_meta, "metadata": {"name": name}, "data": data}
    try:
        await session.client.create(kinds.CONFIG_MAP, new, namespace)
    except errors.AlreadyExists:
        await session.client.patch(kinds.CONFIG_MAP, name, {"data": data}, namespace)


def _key_of(wanted: Revocation) -> str:
    """Return a key that a later revocation of the same user replaces."""
    if wanted.serial:
        return f"serial.{wanted.serial.replace(':', '').lower()}"
    # Names of users may have characters that keys of a ConfigMap may not.
    return f"user.{hashlib.sha256(wanted.user.encode()).hexdigest()[:32]}"


def _end_of_this_second() -> str:
    """Return a time after everything that was issued until now; credentials have whole seconds."""
    return gotime.write(utc_now().replace(microsecond=0) + datetime.timedelta(seconds=1))


def _serial_of(path: Path) -> str:
    # Takes long to import, and only this option needs it.
    from cryptography import x509

    try:
        return f"{x509.load_pem_x509_certificate(path.read_bytes()).serial_number:x}"
    except OSError as error:
        raise WrongUsage(f"--certificate {path}: {error.strerror}") from error
    except ValueError as error:
        raise WrongUsage(f"--certificate {path}: not a certificate in PEM") from error

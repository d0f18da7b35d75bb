"""The format of revoked credentials: the ConfigMap `dray-revoked` in kube-system.

Each value is one revocation in JSON: `{"serial": "3f…"}` for one certificate, or `{"user": "alice",
"before": "2026-01-02T03:04:05Z"}` for all certificates and tokens that the user got before then.
"""

from __future__ import annotations

import msgspec

from dray.api.formats import gotime

NAMESPACE, NAME = "kube-system", "dray-revoked"


class Revocation(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One certificate, or everything that a user got before a time."""

    serial: str = ""
    user: str = ""
    before: str = ""


def parse(text: str) -> Revocation:
    """Return the revocation of a value. Raises ValueError with what is wrong."""
    try:
        revocation = msgspec.json.decode(text, type=Revocation)
    except msgspec.DecodeError as error:
        raise ValueError(f"not a revocation in JSON: {error}") from error
    if bool(revocation.serial) == bool(revocation.user):
        raise ValueError('write either {"serial": …} or {"user": …, "before": …}')
    if bool(revocation.user) != bool(revocation.before):
        raise ValueError('"before" belongs to "user": credentials from before that time end')
    if revocation.serial:
        serial_number(revocation.serial)
    else:
        seconds(revocation.before)
    return revocation


def serial_number(serial: str) -> int:
    """Return a serial number, which OpenSSL and browsers write with colons."""
    try:
        return int(serial.replace(":", ""), 16)
    except ValueError as error:
        raise ValueError(f"serial: {serial!r} is not a hexadecimal number") from error


def seconds(time: str) -> float:
    try:
        return gotime.parse(time).timestamp()
    except ValueError as error:
        raise ValueError(f"before: {time!r} is not a time such as 2026-01-02T03:04:05Z") from error

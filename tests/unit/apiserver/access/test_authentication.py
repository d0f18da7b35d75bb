"""Who a client certificate is, and when it no longer is anybody."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from dray.api import errors
from dray.apiserver.access.authentication import Authenticator
from dray.apiserver.access.service_account_tokens import TokenSigner
from tests import loop
from tests.unit.apiserver.access.test_service_account_tokens import AllExist

CERTIFICATE: dict[str, Any] = {
    "subject": ((("organizationName", "team"),), (("commonName", "alice"),)),
    "serialNumber": "0A",
    "notBefore": "Jan  1 00:00:00 2026 GMT",
    "notAfter": "Jan  2 00:00:00 2026 GMT",
}
END = 1767312000


def authenticator(now: float) -> Authenticator:
    signer = TokenSigner(ec.derive_private_key(1, ec.SECP256R1()))
    return Authenticator(signer, AllExist(), lambda: now)


def test_a_certificate_is_its_common_name_with_organizations_as_groups() -> None:
    user = loop.run(authenticator(END).authenticate("", CERTIFICATE))
    assert (user.name, user.groups) == (
        "alice",
        frozenset({"team", "system:authenticated"}),
    )


def test_a_certificate_that_ends_while_a_connection_is_open_is_unauthorized() -> None:
    with pytest.raises(errors.Unauthorized):
        loop.run(authenticator(END + 1).authenticate("", CERTIFICATE))

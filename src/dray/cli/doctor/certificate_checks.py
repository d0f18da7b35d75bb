"""Finds certificates of a kubeconfig that have expired or soon will."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from cryptography import x509

from dray.client.kubeconfig import ClusterConnection
from dray.health.problems import ClusterProblem

SOON = datetime.timedelta(days=14)


def find(connection: ClusterConnection, now: datetime.datetime) -> Iterator[ClusterProblem]:
    """Find expired certificates, and those that expire soon."""
    certificates = {
        "client certificate": connection.client_certificate,
        "certificate authority": connection.certificate_authority,
    }
    for name, text in certificates.items():
        for certificate in _parsed(text):
            ends = certificate.not_valid_after_utc
            if ends - now > SOON:
                continue
            verb = "expired" if ends <= now else "expires"
            advice = (
                "`dray up` writes a new kubeconfig when it starts: dray down, then dray up. For "
                "other clusters, get a new kubeconfig from their administrator."
            )
            about = f"the kubeconfig's {name}"
            message = f"{verb} at {ends:%Y-%m-%dT%H:%M:%SZ}"
            yield ClusterProblem("certificate-expires", about, message, (), advice)


def _parsed(text: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(text) if text else []
    except ValueError:
        # A certificate that cannot be read fails with a message of its own when it is used.
        return []

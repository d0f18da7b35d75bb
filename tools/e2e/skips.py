"""The specs that are not run, each with the reason: what dray deliberately does not serve."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Skip:
    """A regular expression for names of specs, and why these are not run."""

    pattern: str
    reason: str


SKIPS: tuple[Skip, ...] = (
    Skip(
        r"CustomResource|[cC]ustom resource|\bCRD?s?\b|\bcrd\b",
        "dray serves no CustomResourceDefinitions",
    ),
    Skip(r"AdmissionWebhook|[wW]ebhook", "dray calls no admission webhooks"),
    Skip(
        r"AggregatedDiscovery .*(interface|Accept headers)",
        "looks for the kinds of webhooks in discovery, which dray does not serve",
    ),
    Skip(r"MutatingAdmissionPolicy", "dray has no mutating policies, as it has no webhooks"),
    Skip(r"\] Aggregator ", "dray serves no API of other servers"),
    Skip(
        r"StorageVersionMigration",
        "dray stores one version of each kind, so there is nothing to migrate",
    ),
    Skip(
        r"ClusterTrustBundle|PodCertificate",
        "dray issues certificates for itself alone and serves no kinds of certificates.k8s.io",
    ),
)


def reason(name: str) -> str:
    """Return why a spec is not run; empty for one that is."""
    return next((skip.reason for skip in SKIPS if re.search(skip.pattern, name)), "")

"""The specs that are not run, each with the reason: what dray deliberately does not serve."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Skip:
    """A regular expression for names of specs, and why these are not run."""

    pattern: str
    reason: str


PROGRAM = "needs a program of an image for which there is no stand-in"
NETWORK = "pods reach each other and the test reaches pods: dray gives pods no network of their own"

SKIPS: tuple[Skip, ...] = (
    Skip(
        r"CustomResource|[cC]ustom resource|\bCRD?s?\b|\bcrd\b",
        "dray serves no CustomResourceDefinitions",
    ),
    Skip(r"AdmissionWebhook|[wW]ebhook", "dray calls no admission webhooks"),
    Skip(
        r"AggregatedDiscovery .*(interface|Accept headers)|Discovery should locate the groupV",
        "looks for the kinds of webhooks in discovery",
    ),
    Skip(r"MutatingAdmissionPolicy", "dray has no mutating policies, as it has no webhooks"),
    Skip(r"\] Aggregator ", "dray serves no API of other servers"),
    Skip(r"GRPC liveness|AllowPrivilegeEscalation|OIDC discovery|ImageVolume", PROGRAM),
    Skip(r"read only busybox container", "expects the error text of the shell of busybox"),
    Skip(
        r"device plugin|extended resources together with ResourceClaim",
        "needs a device plugin: the node agent has drivers of DRA alone",
    ),
    Skip(r"Container Lifecycle Hook|\] PreStop ", NETWORK),
    Skip(r"serve a basic image on each replica|environment variables for services", NETWORK),
    Skip(
        r"StorageVersionMigration",
        "dray stores one version of each kind, so there is nothing to migrate",
    ),
    Skip(
        r"ClusterTrustBundle|PodCertificate|Certificates API",
        "dray issues certificates for itself alone and serves no kinds of certificates.k8s.io",
    ),
    Skip(
        r"API priority and fairness",
        "dray shares its time between users by fixed rules, which no object changes",
    ),
    Skip(
        r"Pod InPlace Resize",
        "dray does not serve pods/resize: containers keep the limits that they started with",
    ),
    Skip(r"Should recreate evicted statefulset", "the node agent refuses ports of the node"),
    Skip(r"Ephemeral Containers", "the node agent refuses ephemeral containers"),
    Skip(r"Sysctls .*should support", "the node agent refuses sysctls"),
)


def reason(name: str) -> str:
    """Return why a spec is not run; empty for one that is."""
    return next((skip.reason for skip in SKIPS if re.search(skip.pattern, name)), "")

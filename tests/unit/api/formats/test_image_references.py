"""Image references."""

from __future__ import annotations

import pytest

from dray.api.formats import image_references
from dray.api.formats.image_references import ImageReference

SHA256 = "sha256:" + "a" * 64


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("busybox", ImageReference("docker.io", "library/busybox", "latest", "")),
        ("busybox:1.36", ImageReference("docker.io", "library/busybox", "1.36", "")),
        ("team/app", ImageReference("docker.io", "team/app", "latest", "")),
        ("docker.io/app", ImageReference("docker.io", "library/app", "latest", "")),
        ("index.docker.io/a/b", ImageReference("docker.io", "a/b", "latest", "")),
        ("localhost/app:x", ImageReference("localhost", "app", "x", "")),
        ("host:5000/app", ImageReference("host:5000", "app", "latest", "")),
        ("[::1]:5000/app", ImageReference("[::1]:5000", "app", "latest", "")),
        ("registry.k8s.io/pause:3.10", ImageReference("registry.k8s.io", "pause", "3.10", "")),
        (f"a/b@{SHA256}", ImageReference("docker.io", "a/b", "", SHA256)),
        (f"a/b:latest@{SHA256}", ImageReference("docker.io", "a/b", "latest", SHA256)),
        ("a/b__c--d.e", ImageReference("docker.io", "a/b__c--d.e", "latest", "")),
    ],
)
def test_parsed(text: str, reference: ImageReference) -> None:
    assert image_references.parse(text) == reference


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Upper",
        "a//b",
        "-a",
        "a:",
        "a:" + "t" * 129,
        "a@sha256:short",
        "a___b",
        "a" * 256,
        "f" * 64,
        "bad_host.example.com/app",
    ],
)
def test_no_reference(text: str) -> None:
    assert image_references.parse(text) is None

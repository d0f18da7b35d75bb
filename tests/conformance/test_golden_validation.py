"""Refusals recorded from a Kubernetes 1.37 API server: the same causes, in the same words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import yaml

from dray.api import errors, features, ids, kinds
from dray.api.conversion import canonical, defaults, versions
from dray.api.features import Features
from dray.validation import fields, rules
from tests.recorded import GOLDEN, without_shown_objects

NOW = "2026-01-01T00:00:00Z"

# Refused by the admission of admin access, which looks at the namespace.
OTHER_LAYERS = {
    "e10-adminaccess-unlabelled-namespace",
    "e10b-adminaccess-template-unlabelled-namespace",
}

# Keys of maps come in any order.
UNORDERED = {"e46-slice-bad-attributes", "e65-template-metadata-name"}


def recorded() -> Iterator[str]:
    for case in GOLDEN.parents("e*/status.json"):
        codes = [each["code"] for each in GOLDEN.json(f"{case}/status.json")]
        if 422 in codes and case not in OTHER_LAYERS:
            yield case


def all_alpha() -> Features:
    """The recording server had every alpha gate of DRA on."""
    alpha = {name: True for name in features.GATES if name.startswith("DRA") and _is_alpha(name)}
    return features.with_gates(features.DEFAULT, {**alpha, "GenericWorkload": True})


def _is_alpha(gate: str) -> bool:
    return not features.is_enabled(features.DEFAULT, gate)


def refused(case: str) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Each object that was sent and refused, with the Status that came back."""
    documents = list(yaml.safe_load_all(GOLDEN.read(f"{case}/manifest.yaml")))
    for answer in GOLDEN.json(f"{case}/status.json"):
        if answer["code"] == 422:
            details = answer["body"]["details"]
            yield (
                next(
                    document
                    for document in documents
                    if document["kind"] == details["kind"]
                    and document["metadata"].get("name") == details.get("name")
                ),
                answer["body"],
            )


def validate(manifest: dict[str, Any], gates: Features) -> list[fields.FieldError]:
    """As the API server does: to the stored version, with defaults, then the rules."""
    kind = manifest["kind"]
    stored = versions.to_storage(manifest)
    row = next(row for row in kinds.KINDS if row.kind == kind)
    if row.namespaced:
        stored["metadata"].setdefault("namespace", "default")
    if kind == "Job":
        _generate_selector(stored)
    defaults.fill(stored, NOW)
    _, version = kinds.parse_api_version(stored["apiVersion"])
    plain = canonical.without_nulls(row.in_version(version).schema_type, stored)
    return rules.validate_create(kind, msgspec.convert(plain, rules.struct_of(kind)), gates)


def _generate_selector(job: dict[str, Any]) -> None:
    """What the server writes into a Job before it looks at it."""
    metadata = job["metadata"]
    metadata["uid"] = "00000000-0000-0000-0000-000000000000"
    labels = job["spec"]["template"].setdefault("metadata", {}).setdefault("labels", {})
    for prefix in ("", "batch.kubernetes.io/"):
        labels[f"{prefix}controller-uid"] = metadata["uid"]
        labels[f"{prefix}job-name"] = metadata["name"]
    selected = {"batch.kubernetes.io/controller-uid": metadata["uid"]}
    job["spec"]["selector"] = {"matchLabels": selected}


def causes(found: list[fields.FieldError]) -> list[errors.Cause]:
    return [
        errors.Cause(error.field, str(error.type), without_shown_objects(error.body))
        for error in found
    ]


@pytest.mark.parametrize("case", list(recorded()))
def test_refusal_is_that_of_kubernetes(case: str) -> None:
    for manifest, status in refused(case):
        found = causes(validate(manifest, all_alpha()))
        expected = [
            errors.Cause(cause["field"], cause["reason"], without_shown_objects(cause["message"]))
            for cause in status["details"]["causes"]
        ]
        if case in UNORDERED:
            assert sorted(found) == sorted(expected)
            continue
        assert found == expected
        group = status["details"].get("group", "")
        kind = ids.GroupKind(group, manifest["kind"])
        refusal = errors.invalid(kind, manifest["metadata"].get("name", ""), found)
        assert refusal.message == without_shown_objects(status["message"])


@pytest.mark.parametrize("case", GOLDEN.parents("[0-9]*/manifest.yaml"))
def test_what_kubernetes_accepted_is_valid(case: str) -> None:
    """The server took the manifests of all recorded scenarios."""
    gates = all_alpha()
    for document in yaml.safe_load_all(GOLDEN.read(f"{case}/manifest.yaml")):
        if document:
            assert [error.message for error in validate(document, gates)] == []

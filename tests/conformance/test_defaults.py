"""Defaults and versions against what a real API server made of the recorded manifests."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dray.api import kinds
from dray.api.conversion import canonical, defaults, versions
from dray.api.types.meta import JsonObject
from tests.recorded import GOLDEN

NOW = "2026-11-15T01:00:00Z"


# What admission, the strategy of the kind, and the scheduler write later.
WRITTEN_LATER = {
    "Pod": (
        "nodeName",
        "preemptionPolicy",
        "priority",
        "serviceAccount",
        "serviceAccountName",
        "tolerations",
        "volumes",
    ),
    "Job": ("selector",),
    "PodGroup": ("priority",),
}


def plain(document: Any) -> Any:
    """YAML reads times as times; the wire has texts."""
    return json.loads(json.dumps(document, default=str))


def shown_objects(transcript: str) -> Iterator[JsonObject]:
    for block in re.split(r"^\$ ", transcript, flags=re.MULTILINE):
        command, _, answer = block.partition("\n")
        if re.match(r"kubectl get .*-o (yaml|json)\b", command):
            lines = (line for line in answer.splitlines() if not line.startswith("Warning:"))
            shown = plain(yaml.safe_load("\n".join(lines)))
            if isinstance(shown, dict):
                yield from shown.get("items", [shown])


def recorded_pairs() -> Iterator[Any]:
    """Each object of a manifest with each of its pictures in the transcript."""
    for directory in GOLDEN.parents("*/manifest.yaml"):
        manifest = GOLDEN.read(f"{directory}/manifest.yaml")
        try:
            documents = [plain(each) for each in yaml.safe_load_all(manifest) if each]
        except yaml.YAMLError:
            continue
        sent = {
            (document["kind"], document["metadata"].get("name")): document
            for document in documents
            if "kind" in document and "metadata" in document
        }
        transcript = GOLDEN.read(f"{directory}/output.txt")
        for number, shown in enumerate(shown_objects(transcript)):
            given = sent.get((shown["kind"], shown["metadata"]["name"]))
            if given:
                label = f"{directory}-{number}-{shown['kind']}"
                yield pytest.param(given, shown, id=label)


@pytest.mark.parametrize(("given", "shown"), list(recorded_pairs()))
def test_spec_is_what_a_real_server_made_of_it(given: JsonObject, shown: JsonObject) -> None:
    stored = versions.to_storage(plain(given))
    defaults.fill(stored, NOW)
    seen = versions.from_storage(stored, shown["apiVersion"])
    group, version = kinds.parse_api_version(shown["apiVersion"])
    schema_type = kinds.GroupVersionKind(group, version, shown["kind"]).schema_type
    written = canonical.write(schema_type, seen)
    assert comparable(shown["kind"], written.get("spec")) == comparable(
        shown["kind"], shown.get("spec")
    )


def comparable(kind: str, spec: Any) -> Any:
    if not isinstance(spec, dict):
        return spec
    spec = {name: value for name, value in spec.items() if name not in WRITTEN_LATER.get(kind, ())}
    if kind == "Pod":
        for container in spec["containers"]:
            container.pop("volumeMounts", None)
    if kind == "Job":
        spec["template"].pop("metadata", None)
    if kind == "DeviceTaintRule":
        assert spec["taint"].pop("timeAdded")
    return spec

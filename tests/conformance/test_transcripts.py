"""What a real Kubernetes printed and refused, from the recorded transcripts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from dray.api import kinds
from dray.api.conversion import canonical, decoding
from dray.api.schema import field_docs, field_types
from tests.recorded import GOLDEN

_COMMAND = re.compile(r"^\$ (.*)\n((?:(?!^\$ ).*\n?)*)", re.MULTILINE)


class _JSONLikeLoader(yaml.SafeLoader):
    """Times stay strings, as in JSON."""


_JSONLikeLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":timestamp")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _outputs(directory: str) -> dict[str, str]:
    transcript = GOLDEN.read(f"{directory}/output.txt")
    return {match[1]: match[2] for match in _COMMAND.finditer(transcript)}


def _objects(document: Any, api_version: str = "", kind: str = "") -> Iterator[dict[str, Any]]:
    """The objects in an answer: itself, or the items of a list."""
    if "items" in document:
        item_kind = document["kind"].removesuffix("List")
        for item in document["items"]:
            yield from _objects(item, document["apiVersion"], item_kind)
    else:
        yield {"apiVersion": api_version, "kind": kind} | document


def _printed_objects(directory: str) -> Iterator[dict[str, Any]]:
    for command, output in _outputs(directory).items():
        if "-o yaml" in command and output.startswith("apiVersion:"):
            yield from _objects(yaml.load(output, _JSONLikeLoader))
        elif "--raw" in command and output.startswith('{"kind"') and '"items"' in output:
            yield from _objects(json.loads(output))


def _type_of(value: dict[str, Any]) -> str:
    group, version = kinds.parse_api_version(value["apiVersion"])
    return kinds.GroupVersionKind(group, version, value["kind"]).schema_type


@pytest.mark.parametrize("directory", GOLDEN.parents("*/output.txt"))
def test_objects_from_the_server_are_well_formed_and_canonical(directory: str) -> None:
    for value in _printed_objects(directory):
        type_name = _type_of(value)
        if field_types.has(type_name):
            assert decoding.check(type_name, value) == []
            assert canonical.write(type_name, value) == value


@pytest.mark.parametrize("directory", GOLDEN.parents("*/status.json"))
def test_manifests_are_refused_for_their_form_as_recorded(directory: str) -> None:
    """Only what decoding refuses: whatever else was wrong, the recorded code is not 400."""
    recorded = GOLDEN.json(f"{directory}/status.json")
    manifests = yaml.load_all(GOLDEN.read(f"{directory}/manifest.yaml"), _JSONLikeLoader)
    for value, answer in zip(manifests, recorded, strict=False):
        refusal = decoding.refusal(decoding.check(_type_of(value), value))
        if answer["code"] == 400:
            assert refusal
            assert answer["body"]["message"].endswith(refusal)
        else:
            assert refusal == ""


@pytest.mark.parametrize(
    ("directory", "command", "kind", "path"),
    [
        ("000-version-discovery", "resourceclaim.spec", "resourceclaim", ["spec"]),
        ("000-version-discovery", "resourceslice --recursive", "resourceslice", []),
        (
            "039-podgroup-workload-claims",
            "podgroup.spec.resourceClaims",
            "podgroup",
            ["spec", "resourceClaims"],
        ),
    ],
)
def test_explanations_are_those_of_kubectl(
    directory: str, command: str, kind: str, path: list[str]
) -> None:
    row = kinds.by_name(kind)
    assert row is not None
    text = field_docs.explain(
        row.in_version(row.versions[0]), path, recursive="--recursive" in command
    )
    printed = _outputs(directory)[f"kubectl explain {command}"]
    assert text.rstrip() == printed.rstrip()

"""The command line prints what kubectl 1.37 printed, from the transcripts in `$DRAY_GOLDEN`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from dray.api import features
from dray.cli.inputs import manifests
from dray.cli.lint import object_checks, reference_checks, source_documents
from dray.cli.lint.findings import Severity
from dray.cli.output import serialization
from dray.cli.verbs import describe
from tests.conformance import cases

GOLDEN = Path(os.environ.get("DRAY_GOLDEN", cases.CASES.parent / "golden"))

_COMMAND = re.compile(r"^\$ kubectl (.*)\n((?:(?!^\$ ).*\n?)*)", re.MULTILINE)
_READING = ("get", "describe", "logs", "events", "explain", "version", "api-resources")


class Step(NamedTuple):
    command: str
    output: str


def _steps(directory: Path) -> list[Step]:
    transcript = (directory / "output.txt").read_text("utf-8")
    return [Step(match[1], match[2].rstrip("\n")) for match in _COMMAND.finditer(transcript)]


def _directories() -> list[Any]:
    found = sorted(path.parent for path in GOLDEN.glob("*/output.txt"))
    if not found:
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(f"{GOLDEN} is absent"))]
    return [pytest.param(path, id=path.name) for path in found]


@pytest.mark.parametrize("directory", _directories())
def test_documents_are_written_as_kubectl_writes_them(directory: Path) -> None:
    for step in _steps(directory):
        if "-o yaml" in step.command and step.output.startswith("apiVersion:"):
            document = yaml.load(step.output, manifests.Loader)
            assert serialization.write_yaml(document).rstrip("\n") == step.output
        elif "-o json" in step.command and step.output.startswith("{\n"):
            assert serialization.write_json(json.loads(step.output), indent=4) == step.output


@pytest.mark.parametrize("directory", _directories())
def test_objects_are_described_as_kubectl_describes_them(directory: Path) -> None:
    known: dict[tuple[str, str], dict[str, Any]] = {}
    for step in _steps(directory):
        verb = step.command.split()[0]
        if verb not in _READING:
            known.clear()
        elif verb == "get" and "-o yaml" in step.command and step.output.startswith("apiVersion:"):
            for document in manifests.documents("", step.output):
                known[_described_as(document)] = document
        elif verb == "describe":
            for text in re.split(r"\n\n+(?=Name: )", step.output):
                _compare(text, known, step.command)


def _compare(text: str, known: dict[tuple[str, str], dict[str, Any]], command: str) -> None:
    name = re.match(r"Name: +(\S+)", text)
    kind = re.search(r"^Kind: +(\S+)", text, re.MULTILINE)
    if name is None:
        return
    is_pod = " pod" in command
    document = known.get((kind[1] if kind else "Pod", name[1])) if kind or is_pod else None
    if document is not None and _is_same(document, text):
        ours = describe.text(document, [])
        assert list(_without_events(ours)) == list(_without_events(text))


def _described_as(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _is_same(document: dict[str, Any], text: str) -> bool:
    """Whether nothing happened to the object between the two commands."""
    version = re.search(r"^ *Resource Version: +(\S+)", text, re.MULTILINE)
    return version is None or version[1] == document["metadata"]["resourceVersion"]


def _without_events(text: str) -> Iterator[str]:
    """Lines up to the events, whose column may have set the width of the one above."""
    for line in text.split("\n"):
        if line.startswith("Events:"):
            return
        yield re.sub(r" {2,}(?=\S)", "  ", line).rstrip()


def _refused_directories() -> list[Any]:
    found = sorted(path.parent for path in GOLDEN.glob("*/status.json"))
    if not found:
        return [pytest.param(None, id="absent", marks=pytest.mark.skip(f"{GOLDEN} is absent"))]
    return [pytest.param(path, id=path.name) for path in found]


@pytest.mark.parametrize("directory", _refused_directories())
def test_lint_finds_what_the_server_refused_and_nothing_else(directory: Path) -> None:
    recorded = json.loads((directory / "status.json").read_text("utf-8"))
    answers = recorded if isinstance(recorded, list) else [recorded]
    file = directory / "manifest.yaml"
    documents = list(source_documents.documents(str(file), file.read_text("utf-8")))
    found = [
        each for document in documents for each in object_checks.check(document, features.DEFAULT)
    ]
    found += reference_checks.check(documents, None)
    if any(answer["code"] >= 400 for answer in answers):
        assert found
    else:
        # kubectl drops the first of two fields of one name before the server sees them.
        errors = [each for each in found if each.severity is Severity.ERROR]
        assert {each.rule for each in errors} <= {"repeated-field"}
